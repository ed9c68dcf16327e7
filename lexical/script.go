package lexical

import (
	"unicode"
	"unicode/utf8"
)

// class says what part of a text a code point belongs to.
type class uint8

const (
	classSpace    class = iota // separates, belongs to nothing
	classChunk                 // letters, digits and punctuation of scripts that put spaces between words
	classUnspaced              // scripts without spaces between words
	classEmoji                 // pictographs
)

// hyphen is the one hyphen outside ASCII that joins words; NFKC maps the
// non-breaking hyphen to it. Dashes separate.
const hyphen = '\u2010'

func classOf(r rune) class {
	switch {
	case r < 0x80:
		if r <= ' ' || r == 0x7F {
			return classSpace
		}
		return classChunk
	case r == utf8.RuneError:
		return classSpace
	case unspaced(r):
		return classUnspaced
	case emoji(r):
		return classEmoji
	case invisible(r):
		return classChunk
	case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r), r == hyphen, r == '’':
		return classChunk
	default:
		// Spaces, and the quotation marks, brackets and stops of all scripts: none
		// of them is part of an identifier.
		return classSpace
	}
}

// unspaced reports the scripts that are cut into bigrams and unigrams because
// they put no spaces between words.
func unspaced(r rune) bool {
	switch {
	case r >= 0x4E00 && r <= 0x9FFF, r >= 0x3041 && r <= 0x30FF && r != '・', r >= 0xAC00 && r <= 0xD7A3:
		return true
	case r < 0x0E00:
		return false
	}
	return r == '々' || r == '〆' || unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul,
		unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// emoji reports pictographs. Skin tones and joiners are not among them, so that
// all variants of a pictograph are one term.
func emoji(r rune) bool {
	switch {
	case r >= 0x1F3FB && r <= 0x1F3FF:
		return false
	case r >= 0x1F1E6 && r <= 0x1FAFF:
		return true
	}
	return r >= 0x2190 && r <= 0x2BFF && unicode.Is(unicode.So, r)
}
