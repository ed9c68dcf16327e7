package arm

import (
	"context"
	"errors"
	"fmt"

	"recalld/memory"
	"recalld/scanner/client"
	"recalld/shards"
	"recalld/sqlite"
)

// Scanner is the part of [shards.Codes] that arms ask.
type Scanner interface {
	Blocks(ctx context.Context, view *sqlite.View, q shards.BlockQuery) (shards.BlockAnswer, error)
	Records(ctx context.Context, view *sqlite.View, q shards.RecordQuery) (shards.RecordAnswer, error)
}

// instead sorts the errors of a scanner. An answer in this process takes their
// place, with the same bytes, except where the caller has left or can ask again in
// a newer snapshot. What follows from the state of the files alone is not said;
// whatever keeps the scanner from answering is.
func instead(ctx context.Context, err error, patient bool) (note []Degradation, failed error) {
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, shards.ErrPassed) && !patient:
		return nil, err
	case errors.Is(err, client.ErrFile): // its rows are not built from now on
	case errors.Is(err, shards.ErrPassed), errors.Is(err, shards.ErrNotBuilt):
		return nil, nil
	}
	return []Degradation{{Reason: ReasonScanner, Detail: "answered without it: " + scannerProblem(err)}}, nil
}

// scannerProblem is the kind of an error of the scanner, without what differs from
// one time to the next.
func scannerProblem(err error) string {
	for _, kind := range []error{client.ErrUnavailable, client.ErrBehind, client.ErrFile, client.ErrRefused, client.ErrClosed} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return "the scanner cannot be asked"
}

// only is a subset as the scanner is asked for it.
func (s *Subset) only() *shards.Only {
	if s == nil {
		return nil
	}
	return &shards.Only{Memories: s.Memories, Episodes: s.Episodes}
}

// ScannedBlocks is the block index that asks a scanner and, where that has no
// answer, another index, which has the same one (BR-029).
type ScannedBlocks struct {
	scanner Scanner
	local   BlockIndex
}

// NewScannedBlocks returns the index over a scanner, with the one that stands in.
func NewScannedBlocks(scanner Scanner, local BlockIndex) *ScannedBlocks {
	return &ScannedBlocks{scanner: scanner, local: local}
}

// Nearest implements [BlockIndex]. A bounded scan of a scope that has more is the
// other index's: where it ends is a matter of keys, which a scan of distances does
// not look at (BR-041).
func (s *ScannedBlocks) Nearest(ctx context.Context, view *sqlite.View, q BlockQuery) (BlockAnswer, error) {
	a, err := s.scanner.Blocks(ctx, view, shards.BlockQuery{
		Model: q.Model, Scope: q.Scope, Code: q.Code, Values: q.Values, Only: q.Only.only(),
		Rows: q.Rows, Parents: q.Parents, PerParent: q.PerParent, Most: q.Most,
	})
	var note []Degradation
	if err != nil {
		if note, err = instead(ctx, err, q.Patient); err != nil {
			return BlockAnswer{}, err
		}
		a.Over = true
	}
	if a.Over {
		local, err := s.local.Nearest(ctx, view, q)
		local.Degraded = append(local.Degraded, note...)
		return local, err
	}
	return BlockAnswer{Rows: blockHits(a.Rows), Parents: blockHits(a.Parents), Products: products(a.Rows), Scanned: a.Scanned}, nil
}

func blockHits(found []shards.BlockHit) []BlockHit {
	hits := make([]BlockHit, len(found))
	for i, h := range found {
		hits[i] = BlockHit{Ref: h.Ref, Index: h.Index, Distance: h.Distance}
	}
	return hits
}

// products are those of all rows, or nil when the scanner lacks the vector of one.
func products(found []shards.BlockHit) []Product {
	all := make([]Product, len(found))
	for i, h := range found {
		if h.Norm == 0 {
			return nil
		}
		all[i] = Product{Dot: h.Dot, Norm: int32(h.Norm)}
	}
	return all
}

// mostNear is how many records a scanner may hand over for float32 to decide
// among. More stand so close together only when most texts of a scope are the
// same; then every vector is read.
const mostNear = 20_000

// scan ranks the records that the scanner says are the best, or can be: by its
// scores, or where it has none by their float32 vectors from the file (DECISIONS
// 20). One more than the depth is asked for, which tells whether the depth cut any.
// ok is false when the scanner has no answer; then r has only what is to be said of
// that.
func (v *Vector) scan(ctx context.Context, view *sqlite.View, m ModelVector, q Query, only *Subset) (r ranked, ok bool, err error) {
	a, err := v.scanner.Records(ctx, view, shards.RecordQuery{
		Model: m.Model, Scope: q.Scope, Vector: m.Vector, K: q.Depth + 1, Only: only.only(), Most: mostNear, Approximate: q.Approximate, Batch: q.Batch,
	})
	if err != nil {
		r.note, err = instead(ctx, err, q.Patient)
		return r, false, err
	}
	if a.Over {
		return r, false, nil
	}
	if q.Approximate {
		return v.approximate(ctx, q, a)
	}
	best := newTop(q.Depth)
	if len(a.Scores) > 0 && len(a.Scores) == len(a.Refs) {
		for i, ref := range a.Refs {
			r.take(best, q, ref, float64(a.Scores[i]))
		}
		r.best, r.scanned = best.sorted(), a.Scanned
		return r, true, nil
	}
	vectors, err := view.VectorsOf(m.Model, a.Refs)
	if err != nil {
		return r, false, err
	}
	for _, ref := range a.Refs {
		vector := vectors[ref]
		if len(vector) != len(m.Vector) {
			r.note, err = instead(ctx, fmt.Errorf("%w: it has a record that has no vector", client.ErrRefused), q.Patient)
			return ranked{note: r.note}, false, err
		}
		r.take(best, q, ref, float64(memory.Dot(m.Vector, vector)))
	}
	r.best, r.scanned = best.sorted(), a.Scanned
	return r, true, nil
}

// approximate ranks by the cosines of the codes; no vector is read. The best of
// all records by these are among the scanner's: the cosine of each is not below
// the bound that the others passed.
func (v *Vector) approximate(ctx context.Context, q Query, a shards.RecordAnswer) (r ranked, ok bool, err error) {
	if len(a.Cosines) != len(a.Refs) {
		r.note, err = instead(ctx, fmt.Errorf("%w: it has a record without a cosine", client.ErrRefused), q.Patient)
		return r, false, err
	}
	best := newTop(q.Depth)
	for i, ref := range a.Refs {
		r.take(best, q, ref, float64(a.Cosines[i]))
	}
	r.best, r.scanned, r.approximate = best.sorted(), a.Scanned, true
	return r, true, nil
}
