package strictjson

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"recalld/memory"
)

// Bounds of one value.
const (
	MaxDepth  = 64      // how deep objects and arrays may nest
	MaxValues = 1 << 17 // how many values there may be, at all depths together
)

// Check refuses one JSON value that is not well formed, nests deeper than
// [MaxDepth], has more than [MaxValues] values in it, has a key twice in one object, or has a string or a key with
// invalid UTF-8, a lone surrogate, or NUL. The error is a *[memory.FieldError]
// whose field is the path, such as message.content or refs[2]; root names the
// value as a whole.
func Check(root string, raw []byte) error {
	if !json.Valid(raw) {
		return &memory.FieldError{Field: root, Problem: "is not JSON", Limit: "one JSON value", Next: "check quotes, commas and brackets"}
	}
	c := checker{root: root, raw: raw}
	return c.value()
}

// checker walks a value that is known to be well formed.
type checker struct {
	root string
	raw  []byte
	at   int
	path []string
	seen int // values
}

func (c *checker) value() error {
	if c.seen++; c.seen > MaxValues {
		return c.refuse("has too many values", strconv.Itoa(MaxValues)+" values in one request", "send less at once")
	}
	c.space()
	switch c.raw[c.at] {
	case '{':
		return c.object()
	case '[':
		return c.array()
	case '"':
		_, err := c.text()
		return err
	}
	for c.at < len(c.raw) && !strings.ContainsRune(",]} \t\r\n", rune(c.raw[c.at])) {
		c.at++
	}
	return nil
}

func (c *checker) object() error {
	if err := c.enter(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for c.at++; ; c.at++ {
		if c.space(); c.raw[c.at] == '}' {
			break
		}
		key, err := c.text()
		if err != nil {
			return err
		}
		c.path[len(c.path)-1] = "." + key
		if seen[key] {
			return c.refuse("is given twice", "one value for each key", "keep one of them")
		}
		seen[key] = true
		c.space()
		c.at++ // the colon
		if err := c.value(); err != nil {
			return err
		}
		c.path[len(c.path)-1] = ""
		if c.space(); c.raw[c.at] == '}' {
			break
		}
	}
	c.leave()
	return nil
}

func (c *checker) array() error {
	if err := c.enter(); err != nil {
		return err
	}
	for i := 0; ; i++ {
		c.at++
		if c.space(); c.raw[c.at] == ']' {
			break
		}
		c.path[len(c.path)-1] = "[" + strconv.Itoa(i) + "]"
		if err := c.value(); err != nil {
			return err
		}
		if c.space(); c.raw[c.at] == ']' {
			break
		}
	}
	c.leave()
	return nil
}

func (c *checker) enter() error {
	if len(c.path) == MaxDepth {
		return c.refuse("nests too deep", strconv.Itoa(MaxDepth)+" levels", "flatten it")
	}
	c.path = append(c.path, "")
	return nil
}

func (c *checker) leave() {
	c.path = c.path[:len(c.path)-1]
	c.at++ // the closing bracket
}

// text walks one string and returns what it decodes to.
func (c *checker) text() (string, error) {
	start := c.at
	for c.at++; c.raw[c.at] != '"'; {
		if c.raw[c.at] == '\\' {
			if c.raw[c.at+1] != 'u' {
				c.at += 2
				continue
			}
			unit := c.unit(c.at)
			switch {
			case unit == 0:
				return "", c.refuse("contains NUL", "UTF-8 without NUL", "remove it")
			case utf16Low(unit), utf16High(unit) && !utf16Low(c.unit(c.at+6)):
				return "", c.refuse(fmt.Sprintf("has the lone surrogate \\u%04x", unit), "whole characters", "send both halves, or the character itself as UTF-8")
			case utf16High(unit):
				c.at += 6
			}
			c.at += 6
			continue
		}
		r, size := utf8.DecodeRune(c.raw[c.at:])
		if r == utf8.RuneError && size == 1 {
			return "", c.refuse(fmt.Sprintf("is not valid UTF-8 at byte %d of the JSON", c.at), "UTF-8 without NUL", "convert it to UTF-8")
		}
		c.at += size
	}
	c.at++
	var decoded string
	if err := json.Unmarshal(c.raw[start:c.at], &decoded); err != nil {
		return "", c.refuse("is not a JSON string", "", "check its escapes")
	}
	return decoded, nil
}

// unit returns the code unit of the escape \uXXXX at i, or -1 when there is
// none.
func (c *checker) unit(i int) int {
	if i+6 > len(c.raw) || c.raw[i] != '\\' || c.raw[i+1] != 'u' {
		return -1
	}
	unit, err := strconv.ParseUint(string(c.raw[i+2:i+6]), 16, 16)
	if err != nil {
		return -1
	}
	return int(unit)
}

func utf16High(unit int) bool { return unit >= 0xD800 && unit < 0xDC00 }
func utf16Low(unit int) bool  { return unit >= 0xDC00 && unit < 0xE000 }

func (c *checker) space() {
	for c.at < len(c.raw) && strings.IndexByte(" \t\r\n", c.raw[c.at]) >= 0 {
		c.at++
	}
}

func (c *checker) refuse(problem, limit, next string) error {
	field := strings.TrimPrefix(strings.Join(c.path, ""), ".")
	if field == "" {
		field = c.root
	}
	if len(field) > 200 {
		field = strings.ToValidUTF8(field[:200], "") + "…"
	}
	return &memory.FieldError{Field: field, Problem: problem, Limit: limit, Next: next}
}
