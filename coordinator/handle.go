package coordinator

import (
	"strconv"
	"strings"

	"recalld/memory"
	"recalld/sqlite"
)

// handle is a reference with an optional range, such as
// mem:7#chars=100-240&rev=9f86d081… or mem:7#node=2 (RR-236, BR-086).
type handle struct {
	text     string // as it was written
	ref      memory.Ref
	part     *memory.Span // code points; nil for the whole row
	nodes    *memory.Span // of the record, counted from 0; becomes part
	revision string       // the text's SHA-256 when the range was measured, or ""
	// exact is false for a range of a form that this server does not know: it is
	// unresolved, never widened to the row.
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
		case (key == "chars" || key == "node") && h.part == nil && h.nodes == nil:
			if key == "node" && !strings.Contains(value, "-") {
				value = single(value)
			}
			span, ok := parseSpan(value)
			if !ok {
				return h, true
			}
			if h.part = &span; key == "node" {
				h.part, h.nodes = nil, &span
			}
		case key == "rev" && h.revision == "" && len(value) == 64 && strings.Trim(value, "0123456789abcdef") == "":
			h.revision = value
		default:
			return h, true
		}
	}
	h.exact = h.part != nil || h.nodes != nil
	return h, true
}

// parseSpan reads a half-open range, "100-240".
func parseSpan(s string) (memory.Span, bool) {
	from, to, ok := strings.Cut(s, "-")
	start, err1 := strconv.ParseUint(from, 10, 31)
	end, err2 := strconv.ParseUint(to, 10, 31)
	if !ok || err1 != nil || err2 != nil || start >= end {
		return memory.Span{}, false
	}
	return memory.Span{Start: int(start), End: int(end)}, true
}

// single is the range of one node, "2-3" for "2"; what is no number stays no range.
func single(value string) string {
	n, err := strconv.ParseUint(value, 10, 30)
	if err != nil {
		return value
	}
	return value + "-" + strconv.FormatUint(n+1, 10)
}

// locate turns a range of nodes into one of code points, by the block set of the
// agent's model. Without a set that is current, and for nodes that it does not
// have, the handle is not exact.
func (h *handle) locate(view *sqlite.View, agent string) error {
	if h.nodes == nil || !h.exact {
		return nil
	}
	h.exact = false
	model, ok, err := view.ActiveModel(agent)
	if err != nil || !ok {
		return err
	}
	blocks, ok, err := view.BlockSpans(model.ID, h.ref)
	if err != nil || !ok {
		return err
	}
	var bounds []int
	for _, b := range blocks {
		if b.Node {
			bounds = append(bounds, b.Start)
		}
	}
	bounds = append(bounds, blocks[len(blocks)-1].End)
	if h.nodes.End < len(bounds) {
		h.part, h.exact = &memory.Span{Start: bounds[h.nodes.Start], End: bounds[h.nodes.End]}, true
	}
	return nil
}
