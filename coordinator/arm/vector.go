package arm

import (
	"context"
	"fmt"

	"recalld/memory"
	"recalld/sqlite"
)

// Vector ranks memories and episodes together by cosine, exactly, over the
// whole scope (RR-397, RR-399, DECISIONS 19 and 20).
type Vector struct {
	matrices *Matrices
}

// NewVector returns the arm over a cache of vectors.
func NewVector(m *Matrices) *Vector { return &Vector{matrices: m} }

// Name implements [Arm].
func (v *Vector) Name() string { return VectorName }

// Search implements [Arm]. While two models are searched, rows are ranked
// inside each of them and merged by rank; a row that both know has its better
// rank (DECISIONS 10).
func (v *Vector) Search(ctx context.Context, view *sqlite.View, q Query) (Result, error) {
	out := Result{Arm: VectorName}
	cells, err := view.Cells(q.Scope)
	if err != nil {
		return out, fmt.Errorf("vector arm: %w", err)
	}
	only, err := subset(view, q)
	if err != nil {
		return out, fmt.Errorf("vector arm: %w", err)
	}
	var rankings [][]memory.Candidate
	for _, m := range q.Vectors {
		ranking, scanned, qualified, err := v.rank(ctx, view, cells, m, q, only)
		if err != nil {
			return out, fmt.Errorf("vector arm: %w", err)
		}
		rankings = append(rankings, ranking)
		out.Scanned += scanned
		out.Truncated = out.Truncated || qualified > int64(q.Depth)
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

func (v *Vector) rank(ctx context.Context, view *sqlite.View, cells []sqlite.CellStats, m ModelVector, q Query, only *Subset) (ranking []memory.Candidate, scanned, qualified int64, err error) {
	best := newTop(q.Depth)
	for _, cell := range cells {
		if err := ctx.Err(); err != nil {
			return nil, 0, 0, err
		}
		expect := cell.Embedded[m.Model]
		if expect == 0 {
			continue
		}
		err := v.matrices.Each(view, m.Model, cell.ID, len(m.Vector), expect, func(ref memory.Ref, vector []float32) {
			if !only.Has(ref) {
				return
			}
			scanned++
			key := float64(Dot(m.Vector, vector))
			if key < q.Floor {
				return
			}
			qualified++
			if best.enters(key) {
				best.add(memory.Candidate{Ref: ref, Key: key})
			}
		})
		if err != nil {
			return nil, 0, 0, err
		}
	}
	return best.sorted(), scanned, qualified, nil
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
