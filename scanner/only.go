package scanner

import (
	"slices"
	"sort"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner/kernel"
)

// MaxOnly is how many memories a request may list.
const MaxOnly = 1_000_000

// checkOnly refuses lists that are too long or not in order.
func checkOnly(o *scannerv1.Only) error {
	ids := o.GetMemories()
	if len(ids) > MaxOnly {
		return invalid("only.memories", "are %d, at most %d can take part", len(ids), MaxOnly)
	}
	for i, id := range ids {
		if id < 1 || i > 0 && id <= ids[i-1] {
			return invalid("only.memories", "do not ascend from 1 at place %d", i)
		}
	}
	return nil
}

// takesPart reports whether a record does.
func takesPart(o *scannerv1.Only, ref memory.Ref) bool {
	if ref.Kind == memory.KindEpisode {
		return o.GetEpisodes()
	}
	_, found := slices.BinarySearch(o.GetMemories(), ref.ID)
	return found
}

// liveOnly returns the rows of ranges that are live and of records that take
// part; every other row of the segment is not live.
func (s *segment) liveOnly(o *scannerv1.Only, live kernel.Live, table layout.Rows, ranges []layout.Range) (kernel.Live, error) {
	some := make(kernel.Live, (s.Header().Rows+63)/64)
	for _, r := range ranges {
		i, _, err := s.cellAt(r.From)
		if err != nil {
			return nil, err
		}
		for ; i < s.Header().Cells; i++ {
			_, cell, err := s.Cell(i)
			if err != nil {
				return nil, err
			}
			if cell.From >= r.To {
				break
			}
			cellOnly(o, table, cell, func(from, to int) { admit(some, live, from, to) })
		}
	}
	return some, nil
}

// cellOnly calls take with the rows of each record of a cell that takes part, or
// of several at once.
func cellOnly(o *scannerv1.Only, table layout.Rows, cell layout.Range, take func(from, to int)) {
	memories := cell.From + sort.Search(cell.Len(), func(i int) bool {
		ref, _ := table.At(cell.From + i)
		return ref.Kind == memory.KindMemory
	})
	if o.GetEpisodes() {
		take(cell.From, memories)
	}
	if memories == cell.To {
		return
	}
	first, _ := table.At(memories)
	last, _ := table.At(cell.To - 1)
	from, _ := slices.BinarySearch(o.GetMemories(), first.ID)
	to, found := slices.BinarySearch(o.GetMemories(), last.ID)
	if found {
		to++
	}
	ids := o.GetMemories()[from:to]
	if len(ids) < cell.To-memories { // else looking at every record is less work
		for _, id := range ids {
			if r, found := table.Find(cell, memory.Ref{Kind: memory.KindMemory, ID: id}); found {
				take(r.From, r.To)
			}
		}
		return
	}
	for row := memories; row < cell.To; {
		ref, _ := table.At(row)
		_, end := table.Run(row)
		if _, found := slices.BinarySearch(ids, ref.ID); found {
			take(row, end)
		}
		row = end
	}
}

// admit makes rows live that are so in another bitmap.
func admit(some, live kernel.Live, from, to int) {
	for row := from; row < to; row++ {
		if live.Has(row) {
			some[row/64] |= 1 << (row % 64)
		}
	}
}

// sameOnly reports whether two lists let the same records take part.
func sameOnly(a, b *scannerv1.Only) bool {
	return (a == nil) == (b == nil) && a.GetEpisodes() == b.GetEpisodes() && slices.Equal(a.GetMemories(), b.GetMemories())
}
