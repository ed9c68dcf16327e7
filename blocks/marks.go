package blocks

import (
	"unicode"
	"unicode/utf8"
)

// A mark is what a code point can mean to the splitter.
type mark uint8

const (
	plain     mark = iota // nothing, among them every comma (BR-014)
	halfStop              // . ! ? end a sentence before white space
	fullStop              // 。！？ end one anywhere
	dots                  // … ends one before white space
	opener                // opens an enclosure
	closer                // closes one
	straight              // " and `: open or close
	lineBreak             // ends a line
)

// markOf classifies one code point.
func markOf(r rune) mark {
	switch r {
	case '.', '!', '?':
		return halfStop
	case '。', '．', '！', '？', '｡', '‼', '⁇', '⁈', '⁉':
		return fullStop
	case '…':
		return dots
	case '(', '[', '{', '（', '［', '｛', '「', '『', '【', '〔', '〈', '《', '〖', '“', '‘', '«', '｢':
		return opener
	case ')', ']', '}', '）', '］', '｝', '」', '』', '】', '〕', '〉', '》', '〗', '”', '’', '»', '｣':
		return closer
	case '"', '`':
		return straight
	case '\n':
		return lineBreak
	}
	return plain
}

// opens returns what a closing mark closes.
func opens(r rune) rune {
	switch r {
	case ')':
		return '('
	case ']':
		return '['
	case '}':
		return '{'
	case '）':
		return '（'
	case '］':
		return '［'
	case '｝':
		return '｛'
	case '」':
		return '「'
	case '』':
		return '『'
	case '】':
		return '【'
	case '〕':
		return '〔'
	case '〉':
		return '〈'
	case '》':
		return '《'
	case '〗':
		return '〖'
	case '”':
		return '“'
	case '’':
		return '‘'
	case '»':
		return '«'
	case '｣':
		return '｢'
	}
	return r
}

// quoting reports whether a closing mark ends quoted words rather than an aside.
func quoting(r rune) bool {
	switch r {
	case '"', '”', '’', '」', '』', '»', '｣', '\'':
		return true
	}
	return false
}

// markAt is [markOf] for the code point at byte i, which it decodes only where a
// mark is possible; size is its length in bytes.
func markAt(text string, i int) (r rune, m mark, size int) {
	b := text[i]
	switch {
	case b < utf8.RuneSelf:
		return rune(b), asciiMarks[b], 1
	case b < 0xE0:
		if b != 0xC2 { // « »
			return 0, plain, 2
		}
	case b < 0xF0:
		// General punctuation, CJK punctuation, full-width forms.
		if c := text[i+1]; b == 0xE2 && c <= 0x81 || b == 0xE3 && c == 0x80 || b == 0xEF && c >= 0xBC {
			break
		}
		return 0, plain, 3
	default:
		return 0, plain, 4
	}
	r, size = utf8.DecodeRuneInString(text[i:])
	return r, markOf(r), size
}

var asciiMarks = [utf8.RuneSelf]mark{
	'.': halfStop, '!': halfStop, '?': halfStop, '(': opener, '[': opener, '{': opener, ')': closer, ']': closer, '}': closer,
	'"': straight, '`': straight, '\n': lineBreak,
}

// eastAsian reports letters of the scripts without spaces between words.
func eastAsian(r rune) bool {
	return r >= 0x3041 && r <= 0x30FF || r >= 0x3400 && r <= 0x9FFF || r == '々' || r >= 0xF900 && r <= 0xFAFF ||
		r >= 0xFF66 && r <= 0xFF9D || r >= 0x20000 && r <= 0x3FFFF
}

// extends reports code points that belong to the character before them: marks,
// joiners, variation selectors, skin tones, tags.
func extends(r rune) bool {
	if r < 0x300 {
		return false
	}
	return r == 0x200C || r == 0x200D || r >= 0x1F3FB && r <= 0x1F3FF || r >= 0xE0020 && r <= 0xE007F ||
		r == 0xFF9E || r == 0xFF9F || unicode.Is(unicode.M, r)
}

// emoji reports pictographs and the letters that make flags.
func emoji(r rune) bool {
	return r >= 0x1F000 && r <= 0x1FAFF || r >= 0x2600 && r <= 0x27BF || r >= 0x2B05 && r <= 0x2B55 || r == 0x2B50
}

// spaces returns where the white space from byte i on ends, and whether a line
// does. It stops before the line break.
func spaces(text string, i int) (end int, broken bool) {
	for i < len(text) {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[i:])
		}
		switch {
		case r == '\n':
			return i, true
		case !unicode.IsSpace(r):
			return i, false
		}
		i += size
	}
	return i, false
}
