package blocks

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A lineKind is the structure that the start of a line shows (BR-012).
type lineKind uint8

const (
	prose   lineKind = iota
	blank            // white space only
	rule             // ---, ===, and the line under a table's head
	heading          // # …
	item             // of a list
	row              // of a table
	quote            // > …
	fence            // of code; closed, so that its end is known
)

// A line is what one look at a line's start tells. Offsets are bytes.
type line struct {
	kind   lineKind
	start  int // of its first character that is not white space
	indent int // code points before it
	end    int // of a fence: the end of its closing line, without the line break
}

// separate reports kinds whose lines stand by themselves.
func (k lineKind) separate() bool { return k == heading || k == row || k == fence }

// fences remembers for which marks the rest of the text holds no closing line, so
// that looking for one stays linear.
type fences struct {
	unclosed [2]int // by mark ` and ~: the shortest length without an end, 0: none
}

// The longest run of marks that fences tell apart.
const fenceMarks = 16

// look classifies the line that starts at byte i.
func (f *fences) look(text string, i int) line {
	l := line{}
	l.start, l.indent = indented(text, i)
	rest := text[l.start:]
	if rest == "" || rest[0] == '\n' {
		l.kind = blank
		return l
	}
	switch c := rest[0]; {
	case c == '`' || c == '~':
		l.kind, l.end = f.fence(text, l.start)
	case c == '|':
		l.kind = row
		if ruled(rest, "|:-") {
			l.kind = rule
		}
	case c == '>':
		l.kind = quote
	case c == '#':
		if n := run(rest, '#'); n <= 6 && n < len(rest) && (rest[n] == ' ' || rest[n] == '\t') {
			l.kind = heading
		}
	case (c == '-' || c == '*' || c == '_' || c == '=') && ruled(rest, rest[:1]):
		l.kind = rule
	case marker(rest):
		l.kind = item
	}
	return l
}

// indented returns where the white space at the start of a line ends, and its code
// points.
func indented(text string, i int) (end, indent int) {
	for i < len(text) {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == '\n' || !unicode.IsSpace(r) {
			break
		}
		i += size
		indent++
	}
	if indent > 0 && i < len(text) && extendsAt(text, i) {
		// The last white space and what is drawn onto it are one character.
		_, size := utf8.DecodeLastRuneInString(text[:i])
		return i - size, indent - 1
	}
	return i, indent
}

// ruled reports whether a line is drawn with the marks alone, three or more.
func ruled(rest, marks string) bool {
	n := 0
	for i := range len(rest) {
		switch c := rest[i]; {
		case c == '\n':
			return n >= 3
		case c == ' ' || c == '\t' || c == '\r':
		case strings.IndexByte(marks, c) >= 0:
			n++
		default:
			return false
		}
	}
	return n >= 3
}

func run(s string, c byte) int {
	n := 0
	for n < len(s) && s[n] == c {
		n++
	}
	return n
}

// marker reports whether a line starts as an item of a list.
func marker(rest string) bool {
	r, size := utf8.DecodeRuneInString(rest)
	switch r {
	case '-', '*', '+':
		return spaceAt(rest, size)
	case '•', '‣', '◦', '▪', '●', '○', '・', '※', '■', '□', '◆', '◇', '▼', '▶', '☐', '☑', '✅':
		return true
	case '(', '（':
		n := counter(rest[size:])
		return n > 0 && (strings.HasPrefix(rest[size+n:], ")") || strings.HasPrefix(rest[size+n:], "）"))
	}
	if r >= '①' && r <= '⑳' {
		return true
	}
	n := counter(rest)
	if n == 0 || n >= len(rest) {
		return false
	}
	switch end, width := utf8.DecodeRuneInString(rest[n:]); end {
	case '.', ')':
		return spaceAt(rest, n+width)
	case '．', '）':
		return true
	case '、':
		return rest[0] >= utf8.RuneSelf || rest[0] <= '9'
	}
	return false
}

// counter returns the bytes of what counts an item: up to three digits, one small
// letter, or up to three numerals of Chinese.
func counter(rest string) int {
	i, n := 0, 0
	for i < len(rest) && n <= 3 {
		r, size := utf8.DecodeRuneInString(rest[i:])
		if !(r >= '0' && r <= '9' || r >= '０' && r <= '９' || strings.ContainsRune("一二三四五六七八九十", r)) {
			break
		}
		i += size
		n++
	}
	switch {
	case n == 0 && rest != "" && rest[0] >= 'a' && rest[0] <= 'z':
		return 1
	case n > 3:
		return 0
	}
	return i
}

func spaceAt(s string, i int) bool {
	return i < len(s) && (s[i] == ' ' || s[i] == '\t')
}

// fence looks for the line that closes the fence which may start at byte i. A
// fence that nothing closes is prose.
func (f *fences) fence(text string, i int) (kind lineKind, end int) {
	mark := text[i]
	length := run(text[i:], mark)
	known := &f.unclosed[0]
	if mark == '~' {
		known = &f.unclosed[1]
	}
	first, _, _ := strings.Cut(text[i+length:], "\n")
	length = min(length, fenceMarks)
	if length < 3 || mark == '`' && strings.Contains(first, "`") || *known > 0 && length >= *known {
		return prose, 0
	}
	for at := i; ; {
		next := strings.IndexByte(text[at:], '\n')
		if next < 0 {
			*known = length
			return prose, 0
		}
		at += next + 1
		start := at + len(text[at:]) - len(strings.TrimLeft(text[at:], " \t"))
		n := run(text[start:], mark)
		if n < length {
			continue
		}
		if end, broken := spaces(text, start+n); broken || end == len(text) {
			return fence, end
		}
	}
}
