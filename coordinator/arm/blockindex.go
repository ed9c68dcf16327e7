package arm

import (
	"context"
	"math/bits"
	"slices"

	"recalld/memory"
	"recalld/sqlite"
)

// BlockIndex finds the blocks whose codes are nearest to a query's. Every
// implementation gives the same answer to the same question over the same
// snapshot (BR-029).
type BlockIndex interface {
	Nearest(ctx context.Context, view *sqlite.View, q BlockQuery) (BlockAnswer, error)
}

// BlockQuery is what a block index is asked about one model. Nothing in it comes
// from the number of rows that a caller wants (BR-141).
type BlockQuery struct {
	Model int64
	Scope memory.Scope // no cell beside its own is read (BR-092)
	Code  []byte       // the query's signs, as [memory.Signs] gives them (BR-025)
	// Values is the query quantised like the rows (BR-046), for an index that has
	// their vectors at hand; nil for a query that cannot be.
	Values []byte
	Dims   int     // of the code; sets of another width are not seen
	Only   *Subset // nil: every record of the scope

	Rows    int // nearest blocks to return (BR-044)
	Parents int // records to return, nearest by their best block (DECISIONS 22)
	// PerParent is how many first blocks of a record take part, 0 for all
	// (BR-037); Most is how many blocks are scanned, 0 for all (BR-039). The cap
	// of a record comes first (BR-036), then the scan takes the first Most blocks
	// by kind, parent and index (BR-041).
	PerParent, Most int
	Patient         bool // as in [Query]
}

// BlockHit is one block and how far its code is from the query's.
type BlockHit struct {
	Ref      memory.Ref
	Index    int
	Distance int // differing bits
}

// BlockAnswer has the nearest of the blocks that were scanned, in the order of
// [CompareHits].
type BlockAnswer struct {
	Rows    []BlockHit
	Parents []BlockHit // one for each record, its best block
	// Products are the query's with the vectors of Rows, in their order; nil from an
	// index that does not have them all.
	Products []Product
	Scanned  int64 // blocks compared; those without a code spend no cap
	Cut      bool  // blocks were left out because of BlockQuery.Most
	// Degraded is what is to be said of how the answer was found, which changes
	// nothing of it.
	Degraded []Degradation
}

// Product is what the cosine of two vectors of signed bytes is made of beside the
// query's own norm.
type Product struct {
	Dot  int32
	Norm int32 // of the row's vector: the sum of its squares, above 0
}

// CompareHits is the order of blocks by code: distance, kind, parent, index, all
// ascending (BR-033).
func CompareHits(a, b BlockHit) int {
	return memory.Compare(a.candidate(), b.candidate())
}

// candidate puts a hit into the one total order of package memory.
func (h BlockHit) candidate() memory.Candidate {
	return memory.Candidate{Ref: h.Ref, Block: int32(h.Index), Key: float64(-h.Distance)}
}

func hitsOf(candidates []memory.Candidate) []BlockHit {
	hits := make([]BlockHit, len(candidates))
	for i, c := range candidates {
		hits[i] = BlockHit{Ref: c.Ref, Index: int(c.Block), Distance: int(-c.Key)}
	}
	return hits
}

// Codes is the block index inside the process: it reads codes from SQLite and
// keeps those of recently asked cells.
type Codes struct {
	matrices *Matrices
}

// NewCodes returns the index over a cache.
func NewCodes(m *Matrices) *Codes { return &Codes{matrices: m} }

// Nearest implements [BlockIndex].
func (c *Codes) Nearest(ctx context.Context, view *sqlite.View, q BlockQuery) (BlockAnswer, error) {
	cells, err := view.Cells(q.Scope)
	if err != nil {
		return BlockAnswer{}, err
	}
	parts := make([]codes, 0, len(cells))
	for _, cell := range cells {
		if err := ctx.Err(); err != nil {
			return BlockAnswer{}, err
		}
		part, err := c.matrices.codes(view, cell.ID, q)
		if err != nil {
			return BlockAnswer{}, err
		}
		parts = append(parts, part)
	}
	return scan(parts, q), nil
}

// AtMost is an index that is asked for no more than so many blocks where nothing
// else bounds the scan (DECISIONS 19).
func AtMost(index BlockIndex, blocks int) BlockIndex { return atMost{index, blocks} }

type atMost struct {
	BlockIndex
	blocks int
}

// Nearest implements [BlockIndex].
func (a atMost) Nearest(ctx context.Context, view *sqlite.View, q BlockQuery) (BlockAnswer, error) {
	if q.Most <= 0 {
		q.Most = a.blocks
	}
	return a.BlockIndex.Nearest(ctx, view, q)
}

// scan compares the query with every block that takes part.
func scan(parts []codes, q BlockQuery) (a BlockAnswer) {
	end, cut := q.end(parts)
	rows, parents := newTop(q.Rows), newTop(q.Parents)
	code := wordsOf(nil, q.Code, wordsIn(q.Dims))
	for _, part := range parts {
		part.each(func(set codeSet, words []uint64) {
			if !q.Only.Has(set.ref) {
				return
			}
			left := end.within(set.ref)
			best := memory.Candidate{Ref: set.ref, Block: -1}
			for i := range q.share(len(words) / len(code)) {
				if left == 0 {
					break
				}
				if slices.Contains(set.without, i) {
					continue
				}
				left--
				a.Scanned++
				h := memory.Candidate{Ref: set.ref, Block: int32(i), Key: float64(-distance(code, words[i*len(code):(i+1)*len(code)]))}
				if best.Block < 0 || h.Key > best.Key {
					best = h
				}
				if rows.enters(h.Key) {
					rows.add(h)
				}
			}
			if best.Block >= 0 && parents.enters(best.Key) {
				parents.add(best)
			}
		})
	}
	a.Rows, a.Parents, a.Cut = hitsOf(rows.sorted()), hitsOf(parents.sorted()), cut
	return a
}

// share is how many of a record's n blocks take part (BR-037).
func (q BlockQuery) share(n int) int {
	if q.PerParent > 0 {
		return min(n, q.PerParent)
	}
	return n
}

// reach is where a scan ends in the order of keys: everything before the record
// last takes part, and left blocks of it.
type reach struct {
	bounded bool
	last    memory.Ref
	left    int
}

// within is the largest number of a record's blocks that the reach lets through.
func (r reach) within(ref memory.Ref) int {
	const all = int(^uint(0) >> 1)
	if !r.bounded {
		return all
	}
	switch c := memory.CompareRefs(ref, r.last); {
	case c < 0:
		return all
	case c == 0:
		return r.left
	}
	return 0
}

// end finds where q.Most ends the scan. The blocks are put in order only when
// there are too many.
func (q BlockQuery) end(parts []codes) (end reach, cut bool) {
	width := wordsIn(q.Dims)
	total := 0
	each := func(fn func(memory.Ref, int)) {
		for _, part := range parts {
			part.each(func(set codeSet, words []uint64) {
				if q.Only.Has(set.ref) {
					fn(set.ref, set.coded(q.share(len(words)/width)))
				}
			})
		}
	}
	if q.Most <= 0 {
		return reach{}, false
	}
	each(func(_ memory.Ref, n int) { total += n })
	if total <= q.Most {
		return reach{}, false
	}
	type record struct {
		ref memory.Ref
		n   int
	}
	var records []record
	each(func(ref memory.Ref, n int) { records = append(records, record{ref, n}) })
	slices.SortFunc(records, func(a, b record) int { return memory.CompareRefs(a.ref, b.ref) })
	left := q.Most
	for _, r := range records {
		if r.n >= left {
			return reach{bounded: true, last: r.ref, left: left}, true
		}
		left -= r.n
	}
	return reach{}, false
}

// distance is the number of bits in which two codes differ (BR-032).
func distance(a, b []uint64) (n int) {
	b = b[:len(a)]
	for i := range a {
		n += bits.OnesCount64(a[i] ^ b[i])
	}
	return n
}
