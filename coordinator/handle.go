package coordinator

import (
	"strconv"
	"strings"

	"recalld/memory"
)

// handle is a reference with an optional range, such as
// mem:7#chars=100-240&rev=9f86d081… (RR-236, BR-086).
type handle struct {
	text     string // as it was written
	ref      memory.Ref
	part     *memory.Span // nil for the whole row
	revision string       // the text's SHA-256 when the range was measured, or ""
	// exact is false for a range of a form that this server cannot give, such as
	// a range of nodes: it is unresolved, never widened to the row.
	exact bool
}

// parseHandle reads a handle; ok is false when it names no row at all.
func parseHandle(s string) (h handle, ok bool) {
	name, fragment, ranged := strings.Cut(s, "#")
	ref, err := memory.ParseRef(name)
	if err != nil {
		return handle{}, false
	}
	h = handle{text: s, ref: ref, exact: true}
	if !ranged {
		return h, true
	}
	h.exact = false
	for _, field := range strings.Split(fragment, "&") {
		key, value, _ := strings.Cut(field, "=")
		switch {
		case key == "chars" && h.part == nil:
			span, ok := parseSpan(value)
			if !ok {
				return h, true
			}
			h.part = &span
		case key == "rev" && h.revision == "" && len(value) == 64 && strings.Trim(value, "0123456789abcdef") == "":
			h.revision = value
		default:
			return h, true
		}
	}
	h.exact = h.part != nil
	return h, true
}

// parseSpan reads a half-open range of code points, "100-240".
func parseSpan(s string) (memory.Span, bool) {
	from, to, ok := strings.Cut(s, "-")
	start, err1 := strconv.ParseUint(from, 10, 31)
	end, err2 := strconv.ParseUint(to, 10, 31)
	if !ok || err1 != nil || err2 != nil || start >= end {
		return memory.Span{}, false
	}
	return memory.Span{Start: int(start), End: int(end)}, true
}
