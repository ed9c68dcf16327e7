package lexical

import "unicode/utf8"

// unspacedRun emits the bigrams and the single characters of a run of a script
// without spaces. A query of two or more characters is looked for by its
// bigrams, a query of one by the character.
func (a *Analyser) unspacedRun(s string) {
	a.dates.unspaced(a, s)
	runes := utf8.RuneCountInString(s)
	before := -1
	for i := 0; i < len(s); {
		_, size := utf8.DecodeRuneInString(s[i:])
		if before >= 0 {
			a.emitUnspaced(s[before : i+size])
		}
		if !a.query || runes == 1 {
			a.emitUnspaced(s[i : i+size])
		}
		before = i
		i += size
	}
}

func (a *Analyser) emitUnspaced(s string) {
	a.seen = s
	a.key = append(a.key[:0], s...)
	a.emit(a.key)
}
