package scanner

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
)

// decideRows is how many vectors are compared before others may go first.
const decideRows = 256

// vectorAt is where the vector of a candidate is: in a file, or in memory.
type vectorAt struct {
	file   *layout.Values
	slot   uint32
	vector []float32
}

// get reads the vector, and verifies it each time.
func (v vectorAt) get() ([]float32, error) {
	if v.file == nil {
		return v.vector, nil
	}
	vector, err := v.file.Vector(v.slot)
	if err != nil {
		return nil, inFile(v.file.Name(), err)
	}
	return vector, nil
}

// decide returns the k best of candidates by the inner products of their vectors
// with the query's, in the total order (DECISIONS 2, 20); nil when one of them has
// none here, or a product that is no number: whoever asked decides then.
func (p *pass) decide(ctx context.Context, m *model, candidates []candidate, r *scannerv1.RankRequest) ([]memory.Candidate, error) {
	places, err := m.vectorsOf(candidates)
	if err != nil || places == nil {
		return nil, err
	}
	k := int(r.GetK())
	tiles := (len(candidates) + decideRows - 1) / decideRows
	var next atomic.Int64
	var odd atomic.Bool
	lists := make(chan []memory.Candidate, p.threads)
	err = p.together(ctx, tiles, func(ctx, idle context.Context, read *reading) error {
		var list []memory.Candidate
		defer func() { lists <- list }()
		for {
			from := (int(next.Add(1)) - 1) * decideRows
			if from >= len(candidates) {
				return nil
			}
			to := min(from+decideRows, len(candidates))
			for i := from; i < to; i++ {
				vector, err := places[i].get()
				if err != nil {
					return err
				}
				key := memory.Dot(r.GetVector(), vector)
				if math.IsNaN(float64(key)) {
					odd.Store(true)
				}
				list = append(list, memory.Candidate{Ref: candidates[i].ref, Key: float64(key)})
			}
			if len(list) >= 2*k+4096 {
				list = bestOf(list, k)
			}
			if err := read.add(idle, int64(to-from)*int64(4*m.source.Dims)); err != nil {
				return err
			}
		}
	})
	if err != nil || odd.Load() {
		return nil, err
	}
	close(lists)
	best := make([]memory.Candidate, 0, k)
	for list := range lists {
		best = append(best, list...)
	}
	return bestOf(best, k), nil
}

// bestOf puts candidates in order and keeps the first k.
func bestOf(list []memory.Candidate, k int) []memory.Candidate {
	slices.SortFunc(list, memory.Compare)
	return list[:min(k, len(list))]
}

// vectorsOf finds the vectors of candidates and begins to read those in files: all
// are asked for before the first is waited for. It returns nil when one has none.
func (m *model) vectorsOf(candidates []candidate) ([]vectorAt, error) {
	places := make([]vectorAt, len(candidates))
	var ahead extent
	var seen []*layout.Values
	for i, c := range candidates {
		if c.in.segment == nil {
			if places[i].vector = c.in.part.vectors[c.row]; places[i].vector == nil {
				return nil, nil
			}
			continue
		}
		name := c.in.segment.Name()
		at, err := c.in.segment.Pointer(c.row)
		if err != nil {
			return nil, inFile(name, err)
		}
		file := m.values[at.File]
		if at == layout.NoPointer() || file == nil {
			return nil, nil // lean, of an earlier version, or not published
		}
		if !file.Header().Floats || int(at.Slot) >= file.Header().Slots {
			return nil, inFile(name, fmt.Errorf("%w: row %d points at slot %d of value file %d, which has no such vector", layout.ErrDamaged, c.row, at.Slot, at.File))
		}
		if !slices.Contains(seen, file) {
			seen = append(seen, file)
			if err := file.Intact(); err != nil {
				return nil, inFile(file.Name(), err)
			}
		}
		places[i].file, places[i].slot = file, at.Slot
		ahead.add(file, at.Slot)
	}
	ahead.read()
	return places, nil
}

// extent is a stretch of a value file that is to be read ahead.
type extent struct {
	file     *layout.Values
	from, to int64
}

// add widens the stretch by a slot, or begins another one where that is far away.
func (e *extent) add(file *layout.Values, slot uint32) {
	from, to := file.Extent(slot)
	if e.file != file || from < e.from || from > e.to+nearBytes {
		e.read()
		*e = extent{file: file, from: from}
	}
	e.to = max(e.to, to)
}

// nearBytes is how far apart two rows are at most that are asked for together: they
// are then on one page, or on two that follow one another.
const nearBytes = 4 << 10

func (e *extent) read() {
	if e.file != nil {
		prefetch(e.file.Mapped(), e.from, e.to)
	}
}
