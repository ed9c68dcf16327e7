package scanner

import (
	"errors"
	"fmt"
	"slices"

	"recalld/layout"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner/kernel"
)

// answer is what a query found as it is sent, with dot products when the query
// has values (DECISIONS 22).
func (m *model) answer(b best, query []byte) (*scannerv1.Answer, error) {
	a := &scannerv1.Answer{Rows: wireHits(b.rows), Parents: wireHits(b.parents)}
	if len(query) == 0 || len(b.rows) == 0 {
		return a, nil
	}
	a.Rows.Dots, a.Rows.Norms = make([]int32, len(b.rows)), make([]uint32, len(b.rows))
	return a, m.rerank(b.rows, a.GetRows(), query)
}

// wireHits returns nil for none.
func wireHits(hits []found) *scannerv1.Hits {
	if len(hits) == 0 {
		return nil
	}
	numbers := make([]uint32, 2*len(hits))
	h := &scannerv1.Hits{Kinds: make([]scannerv1.Kind, len(hits)), Ids: make([]int64, len(hits)), Blocks: numbers[:len(hits):len(hits)], Distances: numbers[len(hits):]}
	for i, f := range hits {
		h.Kinds[i], h.Ids[i] = scannerv1.Kind(f.ref.Kind), f.ref.ID
		h.Blocks[i], h.Distances[i] = uint32(f.block), f.distance
	}
	return h
}

// rerank fills in the dot products and norms of rows. A row of a file is read
// where its pointer says.
func (m *model) rerank(rows []found, hits *scannerv1.Hits, query []byte) error {
	places := make([]place, len(rows))
	var seen []*layout.Values
	for i, f := range rows {
		if f.target.segment == nil {
			continue
		}
		p, err := f.target.segment.Pointer(f.row)
		if err != nil {
			return inFile(f.target.segment.Name(), err)
		}
		if p == layout.NoPointer() {
			continue
		}
		file := m.values[p.File]
		if file == nil {
			continue // lean, or not published: the row counts as one without values
		}
		if int(p.Slot) >= file.Header().Slots {
			return inFile(f.target.segment.Name(), fmt.Errorf("%w: row %d points at slot %d of value file %d, which has %d", layout.ErrDamaged, f.row, p.Slot, p.File, file.Header().Slots))
		}
		if seen, err = intactOnce(seen, file); err != nil {
			return err
		}
		places[i] = place{file, p.Slot}
	}
	reading := lookAhead(places, paging{majorFaults, prefetch})
	for i, f := range rows {
		values := kernel.Values{Dims: m.source.Dims, Stride: m.source.Dims}
		var row, norm uint32
		switch p := places[i]; {
		case f.target.part != nil:
			values.Data, row, norm = f.target.part.values, uint32(f.row), f.target.part.norms[f.row]
		case p.file != nil:
			reading.before(i)
			n, err := p.file.Norm(p.slot)
			if errors.Is(err, layout.ErrErased) {
				continue
			}
			if err != nil {
				return inFile(p.file.Name(), err)
			}
			values.Stride, values.Data, row, norm = p.file.Stride(), p.file.Slots(), p.slot, uint32(n)
		}
		if norm == 0 {
			continue
		}
		var dot [1]int32
		if err := values.Dots(kernel.Best(), []uint32{row}, query, dot[:]); err != nil {
			return err
		}
		hits.Dots[i], hits.Norms[i] = dot[0], norm
	}
	return nil
}

// intactOnce looks at a file that was not seen yet.
func intactOnce(seen []*layout.Values, file *layout.Values) ([]*layout.Values, error) {
	if slices.Contains(seen, file) {
		return seen, nil
	}
	if err := file.Intact(); err != nil {
		return seen, inFile(file.Name(), err)
	}
	return append(seen, file), nil
}
