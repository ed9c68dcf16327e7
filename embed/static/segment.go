package static

import (
	"slices"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// meta marks the beginning of a word inside pieces.
const meta = '\u2581'

// Scratch is the reusable memory of one goroutine that embeds text after text.
// The zero value is ready.
type Scratch struct {
	normal []byte
	runes  []rune  // normalised code points, a marker before each word
	words  []int   // where in runes each word begins
	pieces []int32 // of the text, in order; an unknown code point r is -1 - r
	ends   []int   // where in runes each piece ends
	best   []int64 // of the word: the best score up to each position
	back   []step  // of the word: the last piece of that best segmentation
	sum    [Dims]int64
}

type step struct {
	from  int32
	piece int32
}

// normalise fills runes and words: NFKC; format characters dropped; spaces and
// controls divide words.
func (s *Scratch) normalise(text string) {
	s.normal = norm.NFKC.AppendString(s.normal[:0], text)
	s.runes, s.words = s.runes[:0], s.words[:0]
	inWord := false
	for b := s.normal; len(b) > 0; {
		r, size := rune(b[0]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(b)
		}
		b = b[size:]
		switch {
		case divides(r):
			inWord = false
			continue
		case dropped(r):
			continue
		}
		if !inWord {
			s.words = append(s.words, len(s.runes))
			s.runes = append(s.runes, meta)
			inWord = true
		}
		s.runes = append(s.runes, r)
	}
}

func divides(r rune) bool {
	if r < utf8.RuneSelf {
		return r <= ' ' || r == 0x7f
	}
	return unicode.In(r, unicode.Zs, unicode.Zl, unicode.Zp, unicode.Cc)
}

func dropped(r rune) bool { return r >= utf8.RuneSelf && unicode.Is(unicode.Cf, r) }

// segment fills pieces and ends with the most probable division of the text: the pieces
// whose scores add up to the most; among equals the one whose last piece begins
// earliest, and so on towards the front. No piece crosses words, so each word is
// divided by itself.
func (t *Table) segment(s *Scratch, text string) {
	s.normalise(text)
	s.pieces, s.ends = s.pieces[:0], s.ends[:0]
	for i, begin := range s.words {
		end := len(s.runes)
		if i+1 < len(s.words) {
			end = s.words[i+1]
		}
		t.divide(s, begin, end)
	}
}

// divide appends the pieces of the word at runes[begin:end].
func (t *Table) divide(s *Scratch, begin, end int) {
	const none = -1 << 62
	word := s.runes[begin:end]
	n := len(word)
	s.best, s.back = grown(s.best, n+1), grown(s.back, n+1)
	for i := range s.best {
		s.best[i] = none
	}
	s.best[0] = 0
	for i := range n {
		if score := s.best[i] + t.unknownScore; score > s.best[i+1] {
			s.best[i+1], s.back[i+1] = score, step{int32(i), -1 - word[i]}
		}
		node := root
		for j := i; j < n; j++ {
			next, ok := t.trie.step(node, word[j])
			if !ok {
				break
			}
			node = next
			if piece := t.trie.piece[node]; piece >= 0 {
				if score := s.best[i] + int64(t.scores[piece]); score > s.best[j+1] {
					s.best[j+1], s.back[j+1] = score, step{int32(i), piece}
				}
			}
		}
	}
	first := len(s.pieces)
	for j := int32(n); j > 0; j = s.back[j].from {
		s.pieces = append(s.pieces, s.back[j].piece)
		s.ends = append(s.ends, begin+int(j))
	}
	slices.Reverse(s.pieces[first:])
	slices.Reverse(s.ends[first:])
}

func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
