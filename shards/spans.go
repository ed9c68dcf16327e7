package shards

import (
	"math"
	"slices"
	"sort"

	"recalld/lexical"
)

// Span is a range of cell numbers, both ends included.
type Span struct {
	First lexical.Cell `json:"first"`
	Last  lexical.Cell `json:"last"`
}

// spans are ranges of cells, ascending, without overlap.
type spans []Span

// everyCell are all cells that a store can have.
func everyCell() spans { return spans{{1, math.MaxInt64}} }

func (s spans) contains(c lexical.Cell) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i].Last >= c })
	return i < len(s) && s[i].First <= c
}

// with returns s and one more range.
func (s spans) with(add Span) spans {
	all := append(slices.Clone(s), add)
	slices.SortFunc(all, func(a, b Span) int {
		if a.First < b.First {
			return -1
		}
		return 1
	})
	out := all[:1]
	for _, r := range all[1:] {
		last := &out[len(out)-1]
		if r.First > last.Last && r.First-1 > last.Last {
			out = append(out, r)
			continue
		}
		last.Last = max(last.Last, r.Last)
	}
	return out
}

// without returns what of s is outside one range.
func (s spans) without(cut Span) spans {
	var out spans
	for _, r := range s {
		if r.Last < cut.First || r.First > cut.Last {
			out = append(out, r)
			continue
		}
		if r.First < cut.First {
			out = append(out, Span{r.First, cut.First - 1})
		}
		if r.Last > cut.Last {
			out = append(out, Span{cut.Last + 1, r.Last})
		}
	}
	return out
}
