package lexical

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem/english"
)

// shape is what a chunk without its edge punctuation looks like.
type shape uint8

const (
	shapeWord     shape = iota // letters, perhaps with apostrophes
	shapeNumber                // digits, perhaps with separators between them
	shapeCompound              // identifiers, paths, versions, addresses, error strings
)

func shapeOf(core string) shape {
	letters, digits, marks, inner := false, false, false, false
	var before rune
	for i, r := range core {
		switch {
		case '0' <= r && r <= '9':
			digits = true
		case r == ',' || r == '.':
			marks = true
		case apostrophe(r):
			letters = true
		case wordRune(r) && !unicode.IsDigit(r):
			letters = true
			if i > 0 && lower(before) && upper(r) {
				inner = true
			}
		default:
			return shapeCompound
		}
		before = r
	}
	switch {
	case letters && !digits && !marks && !inner:
		return shapeWord
	case digits && !letters:
		return shapeNumber
	}
	return shapeCompound
}

func apostrophe(r rune) bool { return r == '\'' || r == '’' }

func upper(r rune) bool {
	return 'A' <= r && r <= 'Z' || r >= utf8.RuneSelf && unicode.IsUpper(r)
}

func lower(r rune) bool {
	return 'a' <= r && r <= 'z' || r >= utf8.RuneSelf && unicode.IsLower(r)
}

// word emits the stem of a word, or nothing for a stop word.
func (a *Analyser) word(s string) {
	w := a.fold.folded(s)
	if strings.ContainsAny(s, "'’") {
		w = bytes.ReplaceAll(w, []byte("’"), []byte("'"))
		if contraction(string(w)) {
			return
		}
		// Possessives, contractions: the head carries the meaning. A head of one
		// letter is a name's prefix, as in O'Brien.
		if i := bytes.IndexByte(w, '\''); i > 1 || i == 1 && len(w)-i <= 3 {
			w = w[:i]
		} else {
			w = a.fold.folded(strings.ReplaceAll(string(w), "'", ""))
		}
	}
	a.stemmed(w)
}

// stemmed emits a folded word by its stem unless it is a stop word.
func (a *Analyser) stemmed(w []byte) {
	if len(w) == 0 || len(w) <= maxStopword && stopword(string(w)) {
		return
	}
	a.emit(a.stemOf(cut(w)))
}

// maxStopword is the length of the longest stop word, "yourselves".
const maxStopword = 10

// stemOf returns the Porter2 stem of a word of ASCII letters, other words as
// they are.
func (a *Analyser) stemOf(w []byte) []byte {
	if len(w) < 3 {
		return w
	}
	for _, c := range w {
		if c < 'a' || c > 'z' {
			return w
		}
	}
	a.stem.SetCurrent(string(w))
	english.Stem(a.stem)
	return append(a.key[:0], a.stem.Current()...)
}

// cut shortens a term to MaxTerm bytes at a code point.
func cut(w []byte) []byte {
	if len(w) <= MaxTerm {
		return w
	}
	end := MaxTerm
	for end > 0 && !utf8.RuneStart(w[end]) {
		end--
	}
	return w[:end]
}

// number emits a number without the commas between its thousands.
func (a *Analyser) number(s string) {
	w := a.fold.folded(s)
	if thousands(s) {
		w = bytes.ReplaceAll(w, []byte(","), nil)
	} else if strings.IndexByte(s, ',') >= 0 || strings.Count(s, ".") > 1 {
		a.compound(s)
		return
	}
	a.emit(cut(w))
}

// thousands reports digits whose commas stand before each group of three.
func thousands(s string) bool {
	whole, _, _ := strings.Cut(s, ".")
	groups := strings.Split(whole, ",")
	if len(groups) < 2 || len(groups[0]) > 3 {
		return false
	}
	for _, g := range groups[1:] {
		if len(g) != 3 {
			return false
		}
	}
	return true
}
