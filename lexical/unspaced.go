package lexical

import "unicode/utf8"

// unspacedRun emits the bigrams of a run of a script without spaces, and its last
// character. A query of one character is then a prefix of the terms of every run
// that contains it (see [QueryTerm]); a query of two or more is looked for by its
// bigrams alone.
func (a *Analyser) unspacedRun(s string) {
	a.dates.unspaced(a, s)
	var p rune // the character before, at s[before:i]
	before, i := 0, 0
	for i < len(s) {
		r, size := utf8.DecodeRuneInString(s[i:])
		if i > 0 {
			a.emitPair([2]rune{p, r}, s[before:i+size])
		}
		p, before = r, i
		i += size
	}
	if !a.query || before == 0 {
		a.emitPair([2]rune{p}, s[before:])
	}
}

// emitPair emits the term of one or two characters, of which s is the text.
func (a *Analyser) emitPair(pair [2]rune, s string) {
	id, ok := a.pairs[pair]
	if !ok {
		a.seen = s
		id = a.intern([]byte(s))
		a.pairs[pair] = id
	}
	a.out = append(a.out, id)
}

// character reports whether a term is one character of a script without spaces.
func character(term string) bool {
	r, size := utf8.DecodeRuneInString(term)
	return size == len(term) && unspaced(r)
}
