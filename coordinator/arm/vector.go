package arm

import (
	"context"
	"fmt"

	"recalld/memory"
	"recalld/sqlite"
)

// Vector ranks memories and episodes together by cosine, exactly, over the
// whole scope (RR-397, RR-399, DECISIONS 19 and 20),
// unless a query lets codes decide.
type Vector struct {
	matrices *Matrices
	scanner  Scanner // nil: none
}

// NewVector returns the arm over a cache of vectors. It asks the scanner first,
// when there is one; the answer has the same bytes either way.
func NewVector(m *Matrices, scanner Scanner) *Vector {
	return &Vector{matrices: m, scanner: scanner}
}

// Name implements [Arm].
func (v *Vector) Name() string { return VectorName }

// Search implements [Arm]. While two models are searched, rows are ranked
// inside each of them and merged by rank; a row that both know has its better
// rank (DECISIONS 10).
func (v *Vector) Search(ctx context.Context, view *sqlite.View, q Query) (Result, error) {
	out := Result{Arm: VectorName}
	only, err := subset(view, q)
	if err != nil {
		return out, fmt.Errorf("vector arm: %w", err)
	}
	var rankings [][]memory.Candidate
	approximate := false
	for _, m := range q.Vectors {
		r, err := v.rank(ctx, view, m, q, only)
		if err != nil {
			return out, fmt.Errorf("vector arm: %w", err)
		}
		rankings = append(rankings, r.best)
		out.Scanned += r.scanned
		out.Truncated = out.Truncated || r.qualified > q.Depth
		out.Degraded = append(out.Degraded, r.note...)
		approximate = approximate || r.approximate
	}
	if approximate {
		out.Degraded = append(out.Degraded, Degradation{Reason: ReasonApproximate, Detail: "as asked, vectors were compared by their int8 codes alone; a near one may be missing"})
	}
	switch len(rankings) {
	case 0:
	case 1:
		out.Candidates = rankings[0]
	default:
		out.Candidates = mergeByRank(rankings, q.Depth)
		out.Degraded = append(out.Degraded, Degradation{Reason: ReasonTwoModels, Detail: "ranks of two models are merged until every record has a vector of the new one"})
	}
	return out, nil
}

// ranked is what one model's vectors found.
type ranked struct {
	best      []memory.Candidate
	scanned   int64 // records that take part
	qualified int   // of these, above the floor; past the depth it only tells that some are
	note      []Degradation
	// approximate says that keys are cosines of int8 codes.
	approximate bool
}

// take counts a record whose key passes the floor, and keeps it when it is among
// the best.
func (r *ranked) take(best *top, q Query, ref memory.Ref, key float64) {
	if key < q.Floor {
		return
	}
	r.qualified++
	if best.enters(key) {
		best.add(memory.Candidate{Ref: ref, Key: key})
	}
}

func (v *Vector) rank(ctx context.Context, view *sqlite.View, m ModelVector, q Query, only *Subset) (r ranked, err error) {
	if v.scanner != nil {
		var ok bool
		if r, ok, err = v.scan(ctx, view, m, q, only); ok || err != nil {
			return r, err
		}
	}
	cells, err := view.Cells(q.Scope)
	if err != nil {
		return r, err
	}
	best := newTop(q.Depth)
	for _, cell := range cells {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		expect := cell.Embedded[m.Model]
		if expect == 0 {
			continue
		}
		err := v.matrices.Each(view, m.Model, cell.ID, len(m.Vector), expect, func(ref memory.Ref, vector []float32) {
			if !only.Has(ref) {
				return
			}
			r.scanned++
			r.take(best, q, ref, float64(memory.Dot(m.Vector, vector)))
		})
		if err != nil {
			return r, err
		}
	}
	r.best = best.sorted()
	return r, nil
}

// mergeByRank gives every row depth+1 minus its best rank as key, because
// cosines of two models do not compare.
func mergeByRank(rankings [][]memory.Candidate, depth int) []memory.Candidate {
	best := make(map[memory.Ref]float64)
	for _, ranking := range rankings {
		for i, c := range ranking {
			best[c.Ref] = max(best[c.Ref], float64(depth-i))
		}
	}
	merged := newTop(depth)
	for ref, key := range best {
		merged.add(memory.Candidate{Ref: ref, Key: key})
	}
	return merged.sorted()
}
