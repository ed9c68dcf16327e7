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
	Patient  bool // as in [Query]
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
	Cut        bool  // blocks were left out because a scan was bounded
	TwoModels  bool  // ranks of two models were merged
	Degraded   []Degradation
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
	only, err := subset(view, Query{Scope: s.Scope, SourceID: s.SourceID})
	if err != nil {
		return r, fmt.Errorf("block arm: %w", err)
	}
	var found []found
	r.Order = OrderVector
	for _, m := range s.Vectors {
		values, _ := memory.Int8(m.Vector)
		f, err := b.nearest(ctx, view, BlockQuery{
			Model: m.Model, Scope: s.Scope, Only: only, Dims: len(m.Vector), Code: memory.Signs(m.Vector), Values: values,
			Rows: s.Limits.Rerank, Parents: s.Limits.Rerank, PerParent: s.Limits.PerParent, Most: s.Limits.Scan, Patient: s.Patient,
		})
		if err != nil {
			return r, fmt.Errorf("block arm: %w", err)
		}
		if f.scored == nil && len(f.Rows) > 0 {
			r.Order = OrderHamming
		}
		r.Scanned = max(r.Scanned, f.Scanned)
		r.Cut = r.Cut || f.Cut
		r.Degraded = append(r.Degraded, f.Degraded...)
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

func (b *Blocks) nearest(ctx context.Context, view *sqlite.View, q BlockQuery) (f found, err error) {
	f.model = q.Model
	if f.BlockAnswer, err = b.index.Nearest(ctx, view, q); err != nil {
		return f, err
	}
	if len(q.Values) == 0 {
		return f, nil
	}
	products, err := productsOf(view, q, f.BlockAnswer)
	if err != nil {
		return f, err
	}
	f.scored = rerank(normOf(q.Values), f.Rows, products)
	return f, nil
}

// productsOf are the products of all rows, the index's or, where it has not all,
// from the vectors in the file; nil when a row has no vector of the query's width.
func productsOf(view *sqlite.View, q BlockQuery, a BlockAnswer) ([]Product, error) {
	if a.Products != nil || len(a.Rows) == 0 {
		return a.Products, nil
	}
	rows := make([]sqlite.BlockRow, len(a.Rows))
	for i, h := range a.Rows {
		rows[i] = sqlite.BlockRow{Ref: h.Ref, Index: h.Index}
	}
	values, err := view.BlockValues(q.Model, rows)
	if err != nil {
		return nil, err
	}
	products := make([]Product, len(values))
	for i, v := range values {
		if len(v) != len(q.Values) || normOf(v) == 0 {
			return nil, nil
		}
		products[i] = productOf(q.Values, v)
	}
	return products, nil
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
// 22). It returns nil without a product for each of the rows.
func rerank(norm int32, rows []BlockHit, products []Product) []scoredHit {
	if norm == 0 || len(products) != len(rows) {
		return nil
	}
	scored := make([]scoredHit, len(rows))
	for i, h := range rows {
		scored[i] = scoredHit{h, products[i].cosine(norm)}
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
	p, norm := productOf(a, b), normOf(a)
	if norm == 0 || p.Norm == 0 {
		return 0, false
	}
	return p.cosine(norm), true
}

// cosine is the cosine with a query of this norm; neither norm is 0.
func (p Product) cosine(norm int32) float64 {
	return float64(p.Dot) / math.Sqrt(float64(float64(norm)*float64(p.Norm)))
}

// dot8 is the inner product of two vectors of signed bytes and of one width.
func dot8(a, b []byte) (dot int32) {
	b = b[:len(a)]
	for i := range a {
		dot += int32(int8(a[i])) * int32(int8(b[i]))
	}
	return dot
}

// productOf is dot8 of a query and a row of one width, and normOf of the row, in one
// pass.
func productOf(query, row []byte) (p Product) {
	row = row[:len(query)]
	for i, x := range query {
		y := int32(int8(row[i]))
		p.Dot += int32(int8(x)) * y
		p.Norm += y * y
	}
	return p
}

// normOf is a vector's inner product with itself.
func normOf(v []byte) int32 { return dot8(v, v) }

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
