package arm

import (
	"context"
	"fmt"
	"math"
	"slices"

	"recalld/memory"
	"recalld/sqlite"
)

// Orders of a block ranking as they stand in answers (BR-055).
const (
	OrderVector  = "vector"  // by the cosine of the stored int8 vectors
	OrderHamming = "hamming" // by the distance of the codes, since a vector is missing
)

// BlockLimits are the server's policy of the block arm (BR-136). None is taken
// from a request.
type BlockLimits struct {
	PerParent int // first blocks of a record that take part, 0 for all (BR-037)
	Scan      int // blocks scanned, 0 for all (BR-039)
	Rerank    int // nearest blocks that are ordered by their vectors (BR-044)
}

// BlockSearch is what the block arm is asked.
type BlockSearch struct {
	Scope    memory.Scope
	Vectors  []ModelVector // those that the vector arm ranks with (BR-073)
	SourceID string        // as in [Query]
	Limits   BlockLimits
}

// BlockCandidate is one record with the block that stands for it (BR-035).
type BlockCandidate struct {
	BlockHit
	Model int64 // whose code and vector found it
}

// BlockRanking is what the block arm found: each record once, best first.
type BlockRanking struct {
	Order      string // of all candidates: two scales never share one order (BR-053)
	Candidates []BlockCandidate
	Scanned    int64 // blocks compared, of the model with most
	Cut        bool  // blocks were left out because of BlockLimits.Scan
	TwoModels  bool  // ranks of two models were merged
}

// Blocks ranks records by their nearest block: coarsely by code, then the
// nearest rows by their stored vectors.
type Blocks struct {
	index BlockIndex
}

// NewBlocks returns the arm over an index.
func NewBlocks(index BlockIndex) *Blocks { return &Blocks{index: index} }

// Search ranks the records of the scope that have a current block set. When one
// of the nearest rows has no vector, the whole answer is in the order of codes
// (BR-053).
func (b *Blocks) Search(ctx context.Context, view *sqlite.View, s BlockSearch) (r BlockRanking, err error) {
	cells, err := view.Cells(s.Scope)
	if err != nil {
		return r, fmt.Errorf("block arm: %w", err)
	}
	only, err := subset(view, Query{Scope: s.Scope, SourceID: s.SourceID})
	if err != nil {
		return r, fmt.Errorf("block arm: %w", err)
	}
	ids := make([]int64, len(cells))
	for i, c := range cells {
		ids[i] = c.ID
	}
	var found []found
	r.Order = OrderVector
	for _, m := range s.Vectors {
		f, err := b.nearest(ctx, view, m, BlockQuery{
			Model: m.Model, Cells: ids, Only: only, Dims: len(m.Vector), Code: memory.Signs(m.Vector),
			Rows: s.Limits.Rerank, Parents: s.Limits.Rerank, PerParent: s.Limits.PerParent, Most: s.Limits.Scan,
		})
		if err != nil {
			return r, fmt.Errorf("block arm: %w", err)
		}
		if f.scored == nil && len(f.Rows) > 0 {
			r.Order = OrderHamming
		}
		r.Scanned = max(r.Scanned, f.Scanned)
		r.Cut = r.Cut || f.Cut
		found = append(found, f)
	}
	rankings := make([][]BlockCandidate, len(found))
	for i, f := range found {
		rankings[i] = f.ranking(r.Order)
	}
	r.TwoModels = len(rankings) > 1
	r.Candidates = mergeBlocks(rankings)
	return r, nil
}

// found is what one model's codes found. scored are its rows with their cosines
// as keys, nil when a vector is missing.
type found struct {
	BlockAnswer
	model  int64
	scored []scoredHit
}

type scoredHit struct {
	BlockHit
	cosine float64
}

func (b *Blocks) nearest(ctx context.Context, view *sqlite.View, m ModelVector, q BlockQuery) (f found, err error) {
	f.model = m.Model
	if f.BlockAnswer, err = b.index.Nearest(ctx, view, q); err != nil {
		return f, err
	}
	rows := make([]sqlite.BlockRow, len(f.Rows))
	for i, h := range f.Rows {
		rows[i] = sqlite.BlockRow{Ref: h.Ref, Index: h.Index}
	}
	values, err := view.BlockValues(m.Model, rows)
	if err != nil {
		return f, err
	}
	f.scored = rerank(m.Vector, f.Rows, values)
	return f, nil
}

// ranking folds the model's blocks to records in the order that all share.
func (f found) ranking(order string) (ranking []BlockCandidate) {
	if order == OrderHamming {
		for _, h := range f.Parents {
			ranking = append(ranking, BlockCandidate{h, f.model})
		}
		return ranking
	}
	seen := make(map[memory.Ref]bool)
	for _, h := range f.scored {
		if !seen[h.Ref] {
			seen[h.Ref] = true
			ranking = append(ranking, BlockCandidate{h.BlockHit, f.model})
		}
	}
	return ranking
}

// rerank orders rows by the cosine of the query, quantised like the rows, and
// their vectors; equal ones by kind, parent and index (BR-049, BR-050, DECISIONS
// 22). It returns nil when a row has no vector of the query's width.
func rerank(query []float32, rows []BlockHit, values [][]byte) []scoredHit {
	q, ok := memory.Int8(query)
	if !ok || len(values) != len(rows) {
		return nil
	}
	scored := make([]scoredHit, len(rows))
	for i, h := range rows {
		c, ok := Cosine8(q, values[i])
		if !ok {
			return nil
		}
		scored[i] = scoredHit{h, c}
	}
	slices.SortFunc(scored, func(a, b scoredHit) int {
		return memory.Compare(memory.Candidate{Ref: a.Ref, Block: int32(a.Index), Key: a.cosine}, memory.Candidate{Ref: b.Ref, Block: int32(b.Index), Key: b.cosine})
	})
	return scored
}

// Cosine8 is the cosine of two vectors of signed bytes, from integer sums alone
// and so the same on every machine. ok is false for vectors of different widths
// and for one without length.
func Cosine8(a, b []byte) (cosine float64, ok bool) {
	if len(a) != len(b) {
		return 0, false
	}
	var dot, aa, bb int32
	for i := range a {
		x, y := int32(int8(a[i])), int32(int8(b[i]))
		dot += x * y
		aa += x * x
		bb += y * y
	}
	if aa == 0 || bb == 0 {
		return 0, false
	}
	return float64(dot) / math.Sqrt(float64(float64(aa)*float64(bb))), true
}

// mergeBlocks merges models by rank, because their distances and cosines do not
// compare (DECISIONS 10). A record that several know has its best rank, of the
// first model at that rank; records of one rank are in the order of references.
func mergeBlocks(rankings [][]BlockCandidate) []BlockCandidate {
	if len(rankings) == 1 {
		return rankings[0]
	}
	type placed struct {
		BlockCandidate
		rank int
	}
	best := make(map[memory.Ref]placed)
	for _, ranking := range rankings {
		for rank, c := range ranking {
			if held, ok := best[c.Ref]; !ok || rank < held.rank {
				best[c.Ref] = placed{c, rank}
			}
		}
	}
	var all []placed
	for _, p := range best {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b placed) int {
		return memory.Compare(memory.Candidate{Ref: a.Ref, Key: float64(-a.rank)}, memory.Candidate{Ref: b.Ref, Key: float64(-b.rank)})
	})
	merged := make([]BlockCandidate, len(all))
	for i, p := range all {
		merged[i] = p.BlockCandidate
	}
	return merged
}
