package lexical

import (
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
)

// AnalyserVersion names the rules of [Analyser]. It is written into every file
// of postings; postings of another version are rebuilt, never mixed.
const AnalyserVersion = 1

// MaxTerm is the longest term in bytes. A longer identifier is kept in parts
// alone, a longer part is cut.
const MaxTerm = 96

// TermID numbers the distinct terms of one [Analyser] in the order in which it
// first met them.
type TermID uint32

// Analyser turns text into terms, the same way for stored text and for queries.
// It remembers the terms of words it has seen, which is where its speed comes
// from. It is not safe for concurrent use; the zero value is not usable.
type Analyser struct {
	fold  folder
	stem  *snowballstem.Env
	ids   map[string]TermID
	terms []string
	pairs map[[2]rune]TermID // terms of one (the other 0) or two characters of scripts without spaces

	memo  map[string]chunk
	arena []TermID // backs the memo's slices

	out   []TermID // where terms go
	key   []byte   // scratch for one term
	dates dateReader

	query bool     // unspaced runs give their bigrams alone
	shown []string // of a query: the word that first gave each term
	seen  string   // the word being read
}

// chunk is what one run of characters between spaces means.
type chunk struct {
	terms []TermID
	date  dateAtom
	stop  bool // ends a sentence
}

// maxMemo bounds the remembered chunks; longer chunks than maxMemoKey bytes are
// rarely met twice.
const (
	maxMemo    = 1 << 16
	maxMemoKey = 40
)

// NewAnalyser returns an analyser that has seen nothing.
func NewAnalyser() *Analyser {
	return &Analyser{
		fold: newFolder(),
		stem: snowballstem.NewEnv(""),
		ids:  make(map[string]TermID),
		memo: make(map[string]chunk),

		pairs: make(map[[2]rune]TermID),
	}
}

// Len returns the number of distinct terms met so far.
func (a *Analyser) Len() int { return len(a.terms) }

// Term returns the text of a term. Date words begin with the byte 0x01, which no
// other term contains.
func (a *Analyser) Term(id TermID) string { return a.terms[id] }

func (a *Analyser) isDate(id TermID) bool { return a.terms[id][0] == dateMark }

// Append appends the terms of the text to dst, one per occurrence, and returns
// it. Any bytes are text: what is not UTF-8 separates words.
func (a *Analyser) Append(dst []TermID, text string) []TermID {
	a.out = dst
	a.dates.reset()
	text = normalize(text)
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			if c <= ' ' || c == 0x7F {
				i++
				continue
			}
			end := i + 1
			for end < len(text) && text[end] > ' ' && text[end] < 0x7F {
				end++
			}
			if end == len(text) || text[end] < utf8.RuneSelf {
				a.chunk(text[i:end])
				i = end
				continue
			}
		}
		i = a.run(text, i)
	}
	a.dates.flush(a)
	dst, a.out = a.out, nil
	return dst
}

// run handles the run of one class that begins at i and returns its end.
func (a *Analyser) run(text string, i int) int {
	r, size := decode(text[i:])
	kind := classOf(r)
	end := i + size
	for end < len(text) {
		r, size = decode(text[end:])
		if kind == classEmoji && invisible(r) {
			end += size
			continue
		}
		if classOf(r) != kind {
			break
		}
		end += size
	}
	switch kind {
	case classChunk:
		a.chunk(text[i:end])
	case classUnspaced:
		a.unspacedRun(text[i:end])
	case classEmoji:
		for _, r := range text[i:end] {
			if emoji(r) {
				a.key = utf8.AppendRune(a.key[:0], r)
				a.seen = string(r)
				a.emit(a.key)
			}
		}
		a.dates.flush(a)
	}
	return end
}

// decode is utf8.DecodeRuneInString with a replacement character in the text
// itself reported like an invalid byte: both separate words.
func decode(s string) (rune, int) {
	if s[0] < utf8.RuneSelf {
		return rune(s[0]), 1
	}
	return utf8.DecodeRuneInString(s)
}

// emit appends one occurrence of a term.
func (a *Analyser) emit(term []byte) { a.out = append(a.out, a.intern(term)) }

func (a *Analyser) intern(term []byte) TermID {
	if id, ok := a.ids[string(term)]; ok {
		return id
	}
	id := TermID(len(a.terms))
	s := string(term)
	a.terms = append(a.terms, s)
	a.ids[s] = id
	if a.query {
		a.shown = append(a.shown, a.seen)
	}
	return id
}

// chunk emits the terms of one run of characters between spaces, from memory
// where it can.
func (a *Analyser) chunk(s string) {
	if len(s) > maxMemoKey {
		c := a.analyse(s)
		a.dates.take(a, c)
		return
	}
	c, ok := a.memo[s]
	if ok {
		a.out = append(a.out, c.terms...)
	} else {
		if len(a.memo) == maxMemo {
			clear(a.memo)
			a.arena = nil
		}
		at := len(a.out)
		c = a.analyse(s)
		n := len(a.arena)
		a.arena = append(a.arena, a.out[at:]...)
		c.terms = a.arena[n:len(a.arena):len(a.arena)]
		a.memo[string([]byte(s))] = c
	}
	a.dates.take(a, c)
}

// analyse emits the terms of a chunk without looking at what was remembered.
func (a *Analyser) analyse(s string) chunk {
	core, tail := trim(s)
	a.seen = core
	c := chunk{date: dateAtomOf(core, tail), stop: endsSentence(tail)}
	if core == "" {
		return c
	}
	switch shape := shapeOf(core); {
	case c.date.kind == atomOrdinal: // 30th is the number 30
		a.number(core[:len(core)-2])
	case c.date.kind == atomWhole: // its parts are date words
		a.whole(core)
	case shape == shapeWord:
		a.word(core)
	case shape == shapeNumber:
		a.number(core)
	default:
		a.compound(core)
	}
	if sign := languageSign(core, tail); sign != "" {
		a.key = append(a.key[:0], a.fold.folded(core)...)
		a.key = append(a.key, sign...)
		a.seen = core + sign
		a.emit(a.key)
	}
	return c
}

// trim cuts punctuation off both edges and returns what is left and what was
// cut off behind.
func trim(s string) (core, tail string) {
	start := 0
	for start < len(s) {
		r, size := decode(s[start:])
		if wordRune(r) {
			break
		}
		start += size
	}
	end := len(s)
	for end > start {
		r, size := utf8.DecodeLastRuneInString(s[:end])
		if wordRune(r) {
			break
		}
		end -= size
	}
	return s[start:end], s[end:]
}

func wordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r))
}

func endsSentence(tail string) bool {
	return tail != "" && (tail[0] == '.' || tail[0] == '!' || tail[0] == '?')
}

// languageSign returns the signs that make a name of their own behind one or two
// letters: C++, C#, F#.
func languageSign(core, tail string) string {
	switch {
	case len(core) > 2:
	case len(tail) >= 2 && tail[:2] == "++":
		return "++"
	case len(tail) >= 1 && tail[0] == '#':
		return "#"
	}
	return ""
}
