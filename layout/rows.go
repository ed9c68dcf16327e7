package layout

import (
	"encoding/binary"
	"sort"

	"recalld/memory"
)

// Rows tells which record and block each row of a segment is. The rows of a
// record follow one another, and so do their blocks. It is 16 mapped bytes a
// record, verified as a whole when [Segment.Rows] is first called.
type Rows struct {
	parents []byte // records of u64 reference, u32 first row, u32 first block
	rows    int
}

// Rows returns the segment's table of records.
func (s *Segment) Rows() (Rows, error) {
	r := Rows{s.chunks.section(parents), s.header.Rows}
	if s.parented.Load() {
		return r, nil
	}
	if err := s.chunks.touch(parents, 0, int64(len(r.parents))); err != nil {
		return Rows{}, err
	}
	err := Guard(func() error {
		for i := range r.count() {
			if r.first(i) >= r.first(i+1) || i == 0 && r.first(0) != 0 || r.ref(i).ID < 1 {
				return s.chunks.damage(parents, i*parentBytes/ChunkBytes, "a record's rows are out of range")
			}
		}
		return nil
	})
	if err != nil {
		return Rows{}, err
	}
	s.parented.Store(true)
	return r, nil
}

// Run returns the rows [first, end) of the record that a row belongs to.
func (r Rows) Run(row int) (first, end int) {
	i := r.parent(row)
	return r.first(i), r.first(i + 1)
}

// At returns the record and the block of a row.
func (r Rows) At(row int) (ref memory.Ref, block int) {
	i := r.parent(row)
	return r.ref(i), r.firstBlock(i) + row - r.first(i)
}

// Precedes reports whether row a comes before row b in the order of records and
// blocks (DECISIONS 2). Inside one cell that is the order of rows.
func (r Rows) Precedes(a, b uint32) bool {
	if a == b {
		return false
	}
	refA, blockA := r.At(int(a))
	refB, blockB := r.At(int(b))
	if c := memory.CompareRefs(refA, refB); c != 0 {
		return c < 0
	}
	return blockA < blockB
}

// Find returns the rows of a record inside the rows of one cell.
func (r Rows) Find(cell Range, ref memory.Ref) (Range, bool) {
	if cell.From >= cell.To {
		return Range{}, false
	}
	from, to := r.parent(cell.From), r.parent(cell.To-1)+1
	want := packRef(ref)
	i := from + sort.Search(to-from, func(i int) bool { return r.packed(from+i) >= want })
	if i == to || r.packed(i) != want {
		return Range{}, false
	}
	return Range{r.first(i), r.first(i + 1)}, true
}

func (r Rows) count() int { return len(r.parents) / parentBytes }

// parent returns which record a row belongs to. Records hardly differ in their
// rows: the search begins where it would be if they did not, and widens from there,
// so that it touches a few lines of memory and not one for each halving.
func (r Rows) parent(row int) int {
	n := r.count()
	if n == 0 {
		return 0
	}
	from := min(n-1, max(0, int(int64(row)*int64(n)/int64(max(1, r.rows)))))
	to := from + 1
	for step := 1; from > 0 && r.first(from) > row; step *= 2 {
		to = from
		from = max(0, from-step)
	}
	for step := 1; to < n && r.first(to) <= row; step *= 2 {
		from = to
		to = min(n, to+step)
	}
	return max(0, from+sort.Search(to-from, func(i int) bool { return r.first(from+i) > row })-1)
}

func (r Rows) packed(i int) uint64 { return binary.LittleEndian.Uint64(r.parents[i*parentBytes:]) }

func (r Rows) ref(i int) memory.Ref { return unpackRef(r.packed(i)) }

func (r Rows) first(i int) int {
	if i == r.count() {
		return r.rows
	}
	return int(binary.LittleEndian.Uint32(r.parents[i*parentBytes+8:]))
}

func (r Rows) firstBlock(i int) int {
	return int(binary.LittleEndian.Uint32(r.parents[i*parentBytes+12:]))
}
