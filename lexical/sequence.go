package lexical

import (
	"sort"

	"github.com/RoaringBitmap/roaring/v2"
)

// run is a stretch of live rows of one source that are consecutive in the
// sequence of their cell.
type run struct {
	source int
	first  uint32 // ordinal of its first row
	count  uint32
	pos    uint32 // place of its first row in the sequence
	joined bool   // its first row continues the session of the row before it
}

func (r run) end() uint32 { return r.pos + r.count }

// sequence is the live rows of one cell and kind in the order of their keys,
// whatever files and tables they are in. Positions in it are what a partition
// built anew would have for ordinals; scoring happens in positions, which is why
// deltas, tombstones and compaction cannot change a score.
type sequence struct {
	sources  []source
	runs     []run   // ascending by pos
	bySource [][]run // the same, ascending by first and pos, per source
	rows     uint32
	length   uint64 // words in all live rows
}

// newSequence merges sources; dead[i] holds the deleted ordinals of sources[i]
// and may be nil. No record is live in two sources.
func newSequence(sources []source, dead []*roaring.Bitmap) *sequence {
	q := &sequence{sources: sources, bySource: make([][]run, len(sources))}
	next := make([]int, len(sources))
	for {
		// The source with the lowest key runs until the lowest key of the others.
		best, other := -1, -1
		var bestKey, otherKey rowKey
		for i, s := range sources {
			if next[i] == s.Rows() {
				continue
			}
			k := s.key(next[i])
			switch {
			case best < 0 || compareKeys(k, bestKey) < 0:
				other, otherKey = best, bestKey
				best, bestKey = i, k
			case other < 0 || compareKeys(k, otherKey) < 0:
				other, otherKey = i, k
			}
		}
		if best < 0 {
			break
		}
		end := sources[best].Rows()
		if other >= 0 {
			end = gallop(sources[best], next[best], otherKey)
		}
		q.appendLive(best, next[best], end, dead[best])
		next[best] = end
	}
	for i, s := range sources {
		q.length += s.total()
		if dead[i] == nil {
			continue
		}
		it := dead[i].Iterator()
		for it.HasNext() {
			q.length -= uint64(s.length(int(it.Next())))
		}
	}
	return q
}

// gallop returns the first row from row on, at least row + 1, whose key is not
// below the given one.
func gallop(s source, row int, key rowKey) int {
	step := 1
	low := row
	for low+step < s.Rows() && compareKeys(s.key(low+step), key) < 0 {
		low += step
		step *= 2
	}
	high := min(low+step, s.Rows())
	return low + 1 + sort.Search(high-low-1, func(i int) bool { return compareKeys(s.key(low+1+i), key) >= 0 })
}

// appendLive appends the rows from first to end of one source without its dead.
func (q *sequence) appendLive(source, first, end int, dead *roaring.Bitmap) {
	if dead == nil {
		q.append(source, first, end)
		return
	}
	it := dead.Iterator()
	it.AdvanceIfNeeded(uint32(first))
	for it.HasNext() {
		d := int(it.Next())
		if d >= end {
			break
		}
		q.append(source, first, d)
		first = d + 1
	}
	q.append(source, first, end)
}

func (q *sequence) append(source, first, end int) {
	if first >= end {
		return
	}
	r := run{source: source, first: uint32(first), count: uint32(end - first), pos: q.rows}
	if n := len(q.runs); n > 0 {
		last := q.runs[n-1]
		before := q.sources[last.source].key(int(last.first + last.count - 1))
		r.joined = before.continues(q.sources[source].key(first))
	}
	q.runs = append(q.runs, r)
	q.bySource[source] = append(q.bySource[source], r)
	q.rows += r.count
}

// at returns the index of the run that a position is in.
func (q *sequence) at(pos uint32) int {
	return sort.Search(len(q.runs), func(i int) bool { return q.runs[i].end() > pos })
}

// id returns the record at a position.
func (q *sequence) id(pos uint32) int64 {
	r := q.runs[q.at(pos)]
	return q.sources[r.source].key(int(r.first + pos - r.pos)).id
}
