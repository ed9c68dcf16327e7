package lexical

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// maxFolds bounds the repetition in [folder.fold]. Normalising and folding
// reaches a fixed point after two rounds for all of Unicode; the bound only
// keeps a future table from looping.
const maxFolds = 4

// folder brings text into the one form that terms are compared in: NFKC, full
// case folding, and no invisible format characters. Folding a folded text
// changes nothing.
type folder struct {
	fold cases.Caser
	buf  []byte
}

func newFolder() folder { return folder{fold: cases.Fold()} }

// ascii reports whether every byte is below 0x80.
func ascii(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// normalize returns the text in NFKC with a space for every stretch that is not
// UTF-8. Text that is already so, as nearly all text is, is returned as it is.
func normalize(text string) string {
	if ascii(text) {
		return text
	}
	text = strings.ToValidUTF8(text, " ")
	if norm.NFKC.IsNormalString(text) {
		return text
	}
	return norm.NFKC.String(text)
}

// folded returns the folded form of a chunk. The result is valid until the next
// call.
func (f *folder) folded(chunk string) []byte {
	f.buf = f.buf[:0]
	plain := true
	for i := 0; i < len(chunk); i++ {
		c := chunk[i]
		if c >= utf8.RuneSelf {
			plain = false
			break
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		f.buf = append(f.buf, c)
	}
	if plain {
		return f.buf
	}
	out := dropInvisible(norm.NFKC.Bytes([]byte(chunk)))
	for range maxFolds {
		next := dropInvisible(norm.NFKC.Bytes(f.fold.Bytes(out)))
		if bytes.Equal(next, out) {
			break
		}
		out = next
	}
	f.buf = append(f.buf[:0], out...)
	return f.buf
}

// dropInvisible removes format characters and variation selectors: they are
// seen by nobody and would keep equal words apart.
func dropInvisible(b []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if invisible(r) {
			return -1
		}
		return r
	}, b)
}

func invisible(r rune) bool {
	return r == 0xAD || r >= 0x200B && unicode.In(r, unicode.Cf, unicode.Variation_Selector)
}
