package scanner

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner/kernel"
)

// finer is what the code of a query leaves out of its direction, as a code of its
// own: scale × code, within error. With both, a query is known about a hundred times
// as well, and only what rows leave out still blurs a cosine.
type finer struct {
	length float64 // of the query
	code   []byte
	scale  float64
	error  float64
}

// newFiner returns nil for a query that is not to be compared itself, or that has
// no length.
func newFiner(r *scannerv1.RankRequest) *finer {
	var sum float64
	for _, x := range r.GetVector() {
		sum += float64(float64(x) * float64(x))
	}
	f := &finer{length: math.Sqrt(sum)}
	if !(f.length > 0) || math.IsInf(f.length, 0) {
		return nil
	}
	rest := make([]float32, len(r.GetVector()))
	for i, x := range r.GetVector() {
		rest[i] = float32(float64(x)/f.length - float64(r.GetScale()*float64(int8(r.GetCode()[i]))))
	}
	var ok bool
	if f.code, ok = memory.Int8(rest); !ok {
		f.code = make([]byte, len(rest))
	}
	var along, squares float64
	for i, c := range f.code {
		along += float64(float64(rest[i]) * float64(int8(c)))
		squares += float64(float64(int8(c)) * float64(int8(c)))
	}
	if squares > 0 {
		f.scale = along / squares
	}
	for i, x := range r.GetVector() {
		d := float64(x)/f.length - float64(r.GetScale()*float64(int8(r.GetCode()[i]))) - float64(f.scale*float64(int8(f.code[i])))
		f.error += float64(d * d)
	}
	f.error = float64(math.Sqrt(f.error)*(1+1e-9)) + 1e-12
	return f
}

// tighten narrows the bounds of a range's candidates.
func (f *finer) tighten(t *ranked, scale float64, found []kernel.Candidate) error {
	rows, dots := make([]uint32, len(found)), make([]int32, len(found))
	for i, c := range found {
		rows[i] = c.Row
	}
	if err := t.values.Dots(kernel.Best(), rows, f.code, dots); err != nil {
		return err
	}
	for i := range found {
		c := &found[i]
		e := float64(t.bound[c.Row])
		middle := float64(float64(t.scale[c.Row]) * (float64(scale*float64(c.Dot)) + float64(f.scale*float64(dots[i]))))
		width := e + f.error + float64(e*f.error)
		c.Least, c.Most = max(c.Least, middle-width), min(c.Most, middle+width)
	}
	return nil
}

// decide is that of a reading, in a turn of its own and in the lane of the rank's
// pass: what one rank reads now, no other one does.
func (p *passes) decide(ctx context.Context, m *model, candidates []candidate, f *finer, r *scannerv1.RankRequest) ([]memory.Candidate, error) {
	if r.GetBatch() {
		select {
		case p.lane <- struct{}{}:
			defer func() { <-p.lane }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	turn, err := p.turns.take(ctx, r.GetScope().GetAgent(), r.GetBatch())
	if err != nil {
		return nil, err
	}
	read := reading{turn: turn}
	defer read.end()
	return read.decide(ctx, m, candidates, f, r)
}

// decideRows is how many vectors are read at first, or k if that is more.
const decideRows = 256

// decide returns the k best of candidates by the inner products of their vectors
// with the query's, in the total order (DECISIONS 2, 20); nil when one that is
// needed has none here, or a product that is no number: whoever asked decides then.
// Those that could be nearest are read first, until no other one can be among the
// best.
func (read *reading) decide(ctx context.Context, m *model, candidates []candidate, f *finer, r *scannerv1.RankRequest) ([]memory.Candidate, error) {
	order := slices.Clone(candidates)
	slices.SortFunc(order, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.most, a.most), memory.CompareRefs(a.ref, b.ref))
	})
	k := int(r.GetK())
	best := make([]memory.Candidate, 0, k)
	for n := max(k, decideRows); len(order) > 0; n = min(2*n, maxWanted) {
		if len(best) == k && order[0].most*f.length < best[k-1].Key {
			break
		}
		some := order[:min(n, len(order))]
		order = order[len(some):]
		vectors, places, err := m.vectorsOf(some)
		if err != nil || vectors == nil {
			return nil, err
		}
		reading := lookAhead(places, paging{majorFaults, prefetch})
		for i, vector := range vectors {
			if vector == nil {
				reading.before(i)
				vector, err = places[i].vector()
			}
			if err != nil {
				return nil, err
			}
			key := float64(memory.Dot(r.GetVector(), vector))
			if math.IsNaN(key) {
				return nil, nil
			}
			best = append(best, memory.Candidate{Ref: some[i].ref, Key: key})
			if err := read.add(ctx, int64(4*len(vector))); err != nil {
				return nil, err
			}
		}
		slices.SortFunc(best, memory.Compare)
		best = best[:min(k, len(best))]
	}
	return best, nil
}

// vector reads a row of float32, and verifies it each time.
func (p place) vector() ([]float32, error) {
	vector, err := p.file.Vector(p.slot)
	if err != nil {
		return nil, inFile(p.file.Name(), err)
	}
	return vector, nil
}

// vectorsOf finds the vectors of candidates that are in memory, and the places in
// files of the others. It returns nil when a candidate has none.
func (m *model) vectorsOf(candidates []candidate) (vectors [][]float32, places []place, err error) {
	vectors, places = make([][]float32, len(candidates)), make([]place, len(candidates))
	var seen []*layout.Values
	for i, c := range candidates {
		if c.in.segment == nil {
			if vectors[i] = c.in.part.vectors[c.row]; vectors[i] == nil {
				return nil, nil, nil
			}
			continue
		}
		name := c.in.segment.Name()
		at, err := c.in.segment.Pointer(c.row)
		if err != nil {
			return nil, nil, inFile(name, err)
		}
		file := m.values[at.File]
		if at == layout.NoPointer() || file == nil {
			return nil, nil, nil // lean, of an earlier version, or not published
		}
		if !file.Header().Floats || int(at.Slot) >= file.Header().Slots {
			return nil, nil, inFile(name, fmt.Errorf("%w: row %d points at slot %d of value file %d, which has no such vector", layout.ErrDamaged, c.row, at.Slot, at.File))
		}
		if seen, err = intactOnce(seen, file); err != nil {
			return nil, nil, err
		}
		places[i] = place{file, at.Slot}
	}
	return vectors, places, nil
}
