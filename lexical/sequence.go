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
	// lengths and joined are what the sources say of each position, where the runs
	// are so short that asking them again and again would take most of a search's
	// time; else nil.
	lengths []uint32
	joined  []bool
}

// shortRun is how many rows a run has at least on average when the sources are asked.
const shortRun = 1024

// newSequence merges sources; dead[i] holds the deleted ordinals of sources[i]
// and may be nil. No record is live in two sources.
func newSequence(sources []source, dead []*roaring.Bitmap) *sequence {
	m := &merger{q: &sequence{sources: sources, bySource: make([][]run, len(sources))}, dead: dead}
	at := make([]int, len(sources)) // sessions
	for m.next(at) {
		session := m.of[0].session
		if len(m.of) == 1 {
			m.appendLive(m.of[0].source, m.of[0].first, m.of[0].end, session)
		} else {
			m.mergeRows(session)
		}
	}
	q := m.q
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
	if len(q.runs) > 1 && int(q.rows) < shortRun*len(q.runs) {
		q.flatten()
	}
	return q
}

// merger makes a sequence, session by session: most are in one source alone, and
// whole.
type merger struct {
	q    *sequence
	dead []*roaring.Bitmap
	of   []stretch // of one session, by source
	last uint64    // session of the last row
}

// stretch is the rows of one session in one source.
type stretch struct {
	session    uint64
	source     int
	first, end int // ordinals
}

// next gathers the stretches of the lowest session that was not passed, of each
// source the session at[source]; false when there is none.
func (m *merger) next(at []int) bool {
	m.of = m.of[:0]
	for i, s := range m.q.sources {
		if at[i] == s.sessions() {
			continue
		}
		session := s.session(at[i])
		if len(m.of) > 0 && session > m.of[0].session {
			continue
		}
		if len(m.of) > 0 && session < m.of[0].session {
			m.of = m.of[:0]
		}
		m.of = append(m.of, stretch{session: session, source: i})
	}
	for k := range m.of {
		p := &m.of[k]
		s := m.q.sources[p.source]
		p.first, p.end = int(s.sessionFirst(at[p.source])), s.Rows()
		if at[p.source]++; at[p.source] < s.sessions() {
			p.end = int(s.sessionFirst(at[p.source]))
		}
	}
	return len(m.of) > 0
}

// mergeRows appends the rows of a session that stands in several sources.
func (m *merger) mergeRows(session uint64) {
	for {
		// The stretch with the lowest key runs until the lowest key of the others.
		best, other := -1, -1
		var bestKey, otherKey rowKey
		for i, p := range m.of {
			if p.first == p.end {
				continue
			}
			k := m.q.sources[p.source].key(p.first)
			switch {
			case best < 0 || compareKeys(k, bestKey) < 0:
				other, otherKey = best, bestKey
				best, bestKey = i, k
			case other < 0 || compareKeys(k, otherKey) < 0:
				other, otherKey = i, k
			}
		}
		if best < 0 {
			return
		}
		p := &m.of[best]
		end := p.end
		if other >= 0 {
			end = gallop(m.q.sources[p.source], p.first, p.end, otherKey)
		}
		m.appendLive(p.source, p.first, end, session)
		p.first = end
	}
}

// gallop returns the first row from row on, at least row + 1 and at most end, whose
// key is not below the given one.
func gallop(s source, row, end int, key rowKey) int {
	step := 1
	low := row
	for low+step < end && compareKeys(s.key(low+step), key) < 0 {
		low += step
		step *= 2
	}
	high := min(low+step, end)
	return low + 1 + sort.Search(high-low-1, func(i int) bool { return compareKeys(s.key(low+1+i), key) >= 0 })
}

// appendLive appends the rows from first to end of one source without its dead.
func (m *merger) appendLive(source, first, end int, session uint64) {
	if m.dead[source] == nil {
		m.append(source, first, end, session)
		return
	}
	it := m.dead[source].Iterator()
	it.AdvanceIfNeeded(uint32(first))
	for it.HasNext() {
		d := int(it.Next())
		if d >= end {
			break
		}
		m.append(source, first, d, session)
		first = d + 1
	}
	m.append(source, first, end, session)
}

// append appends rows of one session, to the last run where they follow it.
func (m *merger) append(source, first, end int, session uint64) {
	if first >= end {
		return
	}
	q, n := m.q, uint32(end-first)
	if last := len(q.runs) - 1; last >= 0 && q.runs[last].source == source && q.runs[last].first+q.runs[last].count == uint32(first) {
		q.runs[last].count += n
		own := q.bySource[source]
		own[len(own)-1].count += n
	} else {
		r := run{source: source, first: uint32(first), count: n, pos: q.rows, joined: q.rows > 0 && session != 0 && session == m.last}
		q.runs = append(q.runs, r)
		q.bySource[source] = append(q.bySource[source], r)
	}
	q.rows += n
	m.last = session
}

// flatten asks the sources once, for all rows.
func (q *sequence) flatten() {
	lengths, joined := make([]uint32, q.rows), make([]bool, q.rows)
	for _, r := range q.runs {
		q.sources[r.source].lengths(int(r.first), lengths[r.pos:r.end()], joined[r.pos:r.end()])
		joined[r.pos] = r.joined
	}
	q.lengths, q.joined = lengths, joined
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
