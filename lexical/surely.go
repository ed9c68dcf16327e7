package lexical

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Surely reports whether every text that holds this one literally, whatever stands
// before and behind it, has one of its terms: a word between two spaces, or two
// characters of a script without spaces with others on either side. Of such a
// query a search that finds no row says that no row holds it either.
func Surely(query string) bool {
	chunks := strings.FieldsFunc(normalize(query), func(r rune) bool { return r <= ' ' || r == 0x7F })
	for i, chunk := range chunks {
		if i > 0 && i < len(chunks)-1 && hasTerm(chunk) || hasPair(chunk) {
			return true
		}
	}
	return false
}

// hasTerm reports whether a chunk between spaces has a term that stands for itself, in
// whatever case its ASCII letters are written: one without such letters, or a word that
// is its own stem. Of others, GitHubs and githubs, the terms differ.
func hasTerm(chunk string) bool {
	chunk = strings.ToLower(chunk)
	word, _ := trim(chunk)
	letters := strings.ContainsFunc(chunk, asciiLetter)
	whole := !strings.ContainsFunc(word, func(r rune) bool { return !asciiLetter(r) })
	terms, _ := Terms(chunk)
	return slices.ContainsFunc(terms, func(t QueryTerm) bool {
		return !t.Prefix && !IsDateWord(t.Term) && (!letters || whole && t.Term == word)
	})
}

func asciiLetter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }

// edge is how many characters of either end of a text may become others through
// what stands beside them: a kana with its sound mark, the parts of a syllable.
const edge = 2

// hasPair reports whether two characters of a script without spaces follow one
// another inside a chunk.
func hasPair(chunk string) bool {
	left := utf8.RuneCountInString(chunk)
	before := false
	for i, r := range []rune(chunk) {
		inside := i >= edge && i < left-edge && unspaced(r)
		if inside && before {
			return true
		}
		before = inside
	}
	return false
}
