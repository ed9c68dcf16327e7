package static

import (
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Count returns how many pieces the text has, and how many of its code points the
// first [Window] pieces hold: all of them when it fits. What is held has no more
// than [Window] pieces when it is counted by itself.
func (t *Table) Count(s *Scratch, text string) (pieces, windowEnd int) {
	t.segment(s, text)
	pieces = len(s.pieces)
	if pieces <= Window {
		return pieces, utf8.RuneCountInString(text)
	}
	// A cut between pieces leaves those before it as they are. Where one code point
	// of the text is normalised into several pieces, the cut falls before it and may
	// leave the last piece broken into more, so one more step back may be needed.
	held := text[:prefix(text, s.held())]
	for t.segment(s, held); len(s.pieces) > Window; t.segment(s, held) {
		_, size := utf8.DecodeLastRuneInString(held)
		held = held[:len(held)-size]
	}
	return pieces, utf8.RuneCountInString(held)
}

// held returns how many normalised code points the window's pieces hold, without
// the markers before words.
func (s *Scratch) held() int {
	end := s.ends[Window-1]
	n := end
	for _, begin := range s.words {
		if begin < end {
			n--
		}
	}
	return n
}

// prefix returns the bytes of text that are normalised into the first n code points
// of words.
func prefix(text string, n int) int {
	var segments norm.Iter
	segments.InitString(norm.NFKC, text)
	for !segments.Done() {
		from := segments.Pos()
		for b := segments.Next(); len(b) > 0; {
			r, size := utf8.DecodeRune(b)
			b = b[size:]
			if !divides(r) && !dropped(r) {
				n--
			}
		}
		if n < 0 {
			return from
		}
	}
	return len(text)
}
