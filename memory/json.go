package memory

import (
	"fmt"
	"unicode/utf8"
)

// CheckJSON refuses raw JSON whose strings cannot be kept verbatim: invalid
// UTF-8, an escaped NUL, or a \u escape of half a surrogate pair, all of which
// decoders replace or drop without a word. It does not check the grammar.
func CheckJSON(field string, raw []byte) error {
	if !utf8.Valid(raw) {
		return &FieldError{Field: field, Problem: fmt.Sprintf("is not valid UTF-8 at byte %d", invalidAt(string(raw))), Limit: "UTF-8", Next: "convert it to UTF-8"}
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		unit, ok := escape(raw[i:])
		if !ok {
			i++ // the escaped character
			continue
		}
		switch {
		case unit == 0:
			return &FieldError{Field: field, Problem: fmt.Sprintf("contains an escaped NUL at byte %d", i), Limit: "text without NUL", Next: "remove it"}
		case unit >= 0xD800 && unit < 0xDC00:
			low, ok := escape(raw[i+6:])
			if !ok || low < 0xDC00 || low > 0xDFFF {
				return loneSurrogate(field, unit, i)
			}
			i += 6
		case unit >= 0xDC00 && unit <= 0xDFFF:
			return loneSurrogate(field, unit, i)
		}
		i += 5
	}
	return nil
}

func loneSurrogate(field string, unit uint32, at int) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(`contains the lone surrogate \u%04x at byte %d`, unit, at), Limit: "whole characters", Next: "send the character itself or both halves"}
}

// escape reads a \uXXXX escape at the start of b.
func escape(b []byte) (unit uint32, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			unit = unit<<4 | uint32(c-'0')
		case c >= 'a' && c <= 'f':
			unit = unit<<4 | uint32(c-'a'+10)
		case c >= 'A' && c <= 'F':
			unit = unit<<4 | uint32(c-'A'+10)
		default:
			return 0, false
		}
	}
	return unit, true
}
