package blocks

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"recalld/memory"
)

// QuoteLimit is the most code points of a quotation's context: server policy, never
// a caller's budget (BR-080, BR-083).
const QuoteLimit = 1500

// A Quote is what a reader is shown for a block (BR-074).
type Quote struct {
	memory.Span
	// Complete is false when the limit kept out context that limits what is shown
	// (BR-081). Read is then the range to read instead; else it is empty.
	Complete bool
	Read     memory.Span
}

// Context returns the contiguous range of whole blocks that block hit of a text is
// quoted with. It grows until a sentence is whole at both ends (BR-075, BR-076),
// the first block does not start with a word that limits what precedes (BR-077) and
// neither does the block after the last (BR-078). A range that would exceed limit
// code points stops growing there and is not complete; a block that is itself
// longer is shown from its start. A limit of 0 or less does not bound.
//
// all is the whole result of [Split] for this text. For a hit outside it the
// answer is the zero Quote, which is not complete.
func Context(text string, all []Block, hit, limit int) Quote {
	if hit < 0 || hit >= len(all) || !utf8.ValidString(text) {
		return Quote{}
	}
	g := grower{text: text, all: all, scanner: newScanner(text)}
	first, last := g.grow(hit, 0)
	whole := memory.Span{Start: all[first].Start, End: all[last].End}
	if limit <= 0 || whole.Len() <= limit {
		return Quote{Span: whole, Complete: true}
	}
	first, last = g.grow(hit, limit)
	shown := memory.Span{Start: all[first].Start, End: all[last].End}
	shown.End = min(shown.End, shown.Start+limit)
	return Quote{Span: shown, Read: whole}
}

// grower grows one quotation.
type grower struct {
	text    string
	all     []Block
	scanner *scanner // goes as far as is asked
	// The byte where block near starts: the others are found from there.
	near, byte int
}

// grow returns the first and the last block of the range around hit. A limit above
// 0 keeps the range within so many code points; a step that does not fit is left
// out and the others go on.
func (g *grower) grow(hit, limit int) (first, last int) {
	first, last = hit, hit
	fits := func(first, last int) bool {
		return limit <= 0 || g.all[last].End-g.all[first].Start <= limit
	}
	for {
		switch {
		case g.wantsBefore(first) && fits(first-1, last):
			first--
		case g.wantsAfter(last) && fits(first, last+1):
			last++
		default:
			return first, last
		}
	}
}

// wantsBefore reports whether a range that begins with block i needs the one
// before it.
func (g *grower) wantsBefore(i int) bool {
	return i > 0 && (!g.sentence(i) || g.limits(i))
}

// wantsAfter reports whether a range that ends with block i needs the one after
// it.
func (g *grower) wantsAfter(i int) bool {
	return i+1 < len(g.all) && (!g.sentence(i+1) || g.limits(i+1))
}

// sentence reports whether block i starts a sentence. A forced cut, a node's end
// inside a clause and an undecided boundary start none.
func (g *grower) sentence(i int) bool {
	at := g.all[i].Start
	g.scanner.scan(at)
	edges := g.scanner.edges
	k := sort.Search(len(edges), func(k int) bool { return edges[k].end >= at })
	return k < len(edges) && edges[k].sure && edges[k].content <= at
}

// limits reports whether block i starts with a word that limits what precedes.
func (g *grower) limits(i int) bool {
	return starts(unmarked(g.text[g.locate(i):]), qualifiers) > 0
}

// locate returns the byte where block i starts, going from the last one asked for.
func (g *grower) locate(i int) int {
	target, at := g.all[i].Start, g.all[g.near].Start
	for ; at < target && g.byte < len(g.text); at++ {
		_, size := utf8.DecodeRuneInString(g.text[g.byte:])
		g.byte += size
	}
	for ; at > target && g.byte > 0; at-- {
		_, size := utf8.DecodeLastRuneInString(g.text[:g.byte])
		g.byte -= size
	}
	g.near = i
	return g.byte
}

// The marks that may stand before a block's first word.
const leads = "-*+>#_~|•・※■●「『（(【〈《“‘\"'`["

// The most bytes of marks that are left out before a first word.
const leadReach = 24

// unmarked leaves out white space, list marks, quotation marks and emphasis at the
// start of a text.
func unmarked(text string) string {
	window := text[:min(len(text), leadReach)]
	for i, r := range window {
		if !unicode.IsSpace(r) && !strings.ContainsRune(leads, r) {
			return text[i:]
		}
	}
	return text[len(window):]
}
