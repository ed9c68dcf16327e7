package memory

import "unicode/utf8"

// Span is a half-open range [Start, End) of one text, in Unicode code points
// (DECISIONS 12, BR-002).
type Span struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// Len returns the number of code points in the span.
func (s Span) Len() int { return s.End - s.Start }

// Slice returns the text inside the span. ok is false when the span is not
// inside the text; nothing is clamped.
func (s Span) Slice(text string) (part string, ok bool) {
	if s.Start < 0 || s.End < s.Start {
		return "", false
	}
	start, ok := byteOffset(text, s.Start)
	if !ok {
		return "", false
	}
	length, ok := byteOffset(text[start:], s.End-s.Start)
	if !ok {
		return "", false
	}
	return text[start : start+length], true
}

// Prefix returns the first n code points of the text, and whether that cut it.
func Prefix(text string, n int) (prefix string, cut bool) {
	offset, ok := byteOffset(text, n)
	if !ok {
		return text, false
	}
	return text[:offset], offset < len(text)
}

// Len returns the length of a text in code points.
func Len(text string) int { return utf8.RuneCountInString(text) }

// byteOffset returns where the nth code point starts; ok is false when the text
// has fewer than n of them.
func byteOffset(text string, n int) (offset int, ok bool) {
	for ; n > 0; n-- {
		if offset >= len(text) {
			return 0, false
		}
		_, size := utf8.DecodeRuneInString(text[offset:])
		offset += size
	}
	return offset, true
}
