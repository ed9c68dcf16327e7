package blocks

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"recalld/memory"
)

// PolicyVersion names the rules and the lists that [Split] goes by. It is stored
// with every set of blocks; a set of another version is not current (BR-144).
const PolicyVersion = 1

// MaxLen is the most code points of a block (BR-016, one of the limits of BR-136).
const MaxLen = 739

// ErrInvalidText is the kind of error for a text that is not valid UTF-8.
var ErrInvalidText = errors.New("the text is not valid UTF-8")

// A Block is a clause-sized span of a text, in code points (BR-002).
type Block struct {
	memory.Span
	// Forced says that MaxLen cut a unit at the block's end (BR-017). A cut in the
	// white space after a unit and a node's end are not forced.
	Forced bool
	// Node says that the block begins a node. Block 0 always does.
	Node bool
}

// Split returns the blocks of a text, in order. Nodes cover the text, nil stands
// for one node. Every end of a node is the end of a block (BR-019), so is every
// boundary of the policy, which sees the text alone; a unit that is still longer
// than [MaxLen] is cut exactly there, between any two code points (BR-016). An
// empty text has no blocks.
//
// Errors: [ErrInvalidText]; nodes that do not cover the text.
func Split(text string, nodes []memory.Span) ([]Block, error) {
	if !utf8.ValidString(text) {
		return nil, ErrInvalidText
	}
	found := edges(text)
	length := 0
	if len(found) > 0 {
		length = found[len(found)-1].end
	}
	if len(nodes) == 0 {
		nodes = []memory.Span{{Start: 0, End: length}}
	}
	if err := covers(nodes, length); err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	all := make([]Block, 0, len(found)+len(nodes))
	c := cutter{all: all}
	for _, e := range found {
		for len(nodes) > 0 && nodes[0].End < e.end {
			c.cut(edge{min(e.content, nodes[0].End), nodes[0].End, true})
			c.node = true
			nodes = nodes[1:]
		}
		c.cut(e)
		if len(nodes) > 0 && nodes[0].End == e.end {
			c.node = true
			nodes = nodes[1:]
		}
	}
	if len(c.all) > 0 {
		c.all[0].Node = true
	}
	return c.all, nil
}

// cutter makes blocks of what lies between boundaries.
type cutter struct {
	all  []Block
	at   int  // the end of the last block
	node bool // a node starts there
}

// cut ends a unit at a boundary.
func (c *cutter) cut(e edge) {
	for e.end-c.at > MaxLen {
		end := c.at + MaxLen
		c.add(end, end < e.content)
	}
	if e.end > c.at {
		c.add(e.end, false)
	}
}

func (c *cutter) add(end int, forced bool) {
	c.all = append(c.all, Block{memory.Span{Start: c.at, End: end}, forced, c.node})
	c.at, c.node = end, false
}

// Check returns the first way in which blocks are not a division of a text of
// length code points into its nodes: a gap, an overlap, an empty block, one longer
// than [MaxLen], one that crosses a node, a wrong flag (BR-140, BR-016). Nil nodes
// stand for one. The error holds no text.
func Check(length int, nodes []memory.Span, all []Block) error {
	if len(nodes) == 0 {
		nodes = []memory.Span{{Start: 0, End: length}}
	}
	if err := covers(nodes, length); err != nil {
		return fmt.Errorf("nodes: %w", err)
	}
	spans := make([]memory.Span, len(all))
	for i, b := range all {
		spans[i] = b.Span
	}
	if err := covers(spans, length); err != nil {
		return fmt.Errorf("blocks: %w", err)
	}
	for i, b := range all {
		for b.Start >= nodes[0].End {
			nodes = nodes[1:]
		}
		switch {
		case b.Len() > MaxLen:
			return fmt.Errorf("block %d has %d code points, at most %d fit", i, b.Len(), MaxLen)
		case b.End > nodes[0].End:
			return fmt.Errorf("block %d crosses the end of a node at %d", i, nodes[0].End)
		case b.Node != (b.Start == nodes[0].Start):
			return fmt.Errorf("block %d: the flag of a node's first block is %v", i, b.Node)
		case b.Forced && b.Len() != MaxLen:
			return fmt.Errorf("block %d is marked as cut by force at %d code points", i, b.Len())
		}
	}
	return nil
}

// covers returns the first way in which spans are not a gap-free, ordered cover of
// length code points by parts that are not empty.
func covers(spans []memory.Span, length int) error {
	at := 0
	for i, s := range spans {
		if s.Start != at || s.End <= s.Start && length > 0 {
			return fmt.Errorf("span %d is [%d,%d), expected one that starts at %d and is not empty", i, s.Start, s.End, at)
		}
		at = s.End
	}
	if at != length {
		return fmt.Errorf("the spans end at %d, the text at %d", at, length)
	}
	return nil
}
