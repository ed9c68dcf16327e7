package lexical

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
)

// Table holds the rows of one cell and kind in memory with their postings. It is
// the delta of an [Index], the input of a [Builder], and what direct reading
// fills. It is not safe for concurrent use; after settle it may be read by many.
type Table struct {
	words *Analyser
	only  map[string]bool // nil: all terms; else the terms of one query

	slots []slot          // rows, in no order
	free  []int32         // slots without a row
	added []int32         // slots filled since settle
	freed []int32         // slots emptied since settle
	byID  map[int64]int32 // record to slot
	lists map[TermID][]slotPosting

	order []int32  // slots in the order of keys
	rank  []uint32 // slot to ordinal
	sum   uint64   // of lengths
}

// gone is the length of a slot that was emptied.
const gone = math.MaxUint32

type slot struct {
	key    rowKey
	length uint32
	terms  []TermID // distinct
}

type slotPosting struct {
	slot uint32
	freq uint32
}

// newTable returns an empty table whose terms are numbered by the analyser.
func newTable(words *Analyser) *Table {
	return &Table{words: words, byID: make(map[int64]int32), lists: make(map[TermID][]slotPosting)}
}

// put adds a row, in place of the row of the same record if there is one.
// scratch is reused for the row's terms and returned.
func (t *Table) put(d Doc, scratch []TermID) []TermID {
	t.remove(d.Ref.ID)
	scratch = t.words.Append(scratch[:0], d.Text)
	scratch = t.words.AppendTime(scratch, d.Time)

	s := slot{key: rowKey{sessionOf(d.Session), d.Ref.ID}}
	for _, id := range scratch {
		if !IsDateWord(t.words.Term(id)) {
			s.length++
		}
	}
	slices.Sort(scratch)
	at := int32(len(t.slots))
	if n := len(t.free); n > 0 {
		at, t.free = t.free[n-1], t.free[:n-1]
	} else {
		t.slots = append(t.slots, slot{})
	}
	for i := 0; i < len(scratch); {
		id, from := scratch[i], i
		for i < len(scratch) && scratch[i] == id {
			i++
		}
		if t.only != nil && !t.only[t.words.Term(id)] {
			continue
		}
		t.lists[id] = append(t.lists[id], slotPosting{uint32(at), uint32(min(i-from, maxFrequency))})
		s.terms = append(s.terms, id)
	}
	t.slots[at] = s
	t.byID[d.Ref.ID] = at
	t.sum += uint64(s.length)
	t.added = append(t.added, at)
	return scratch
}

// remove takes the row of a record out and reports whether there was one.
func (t *Table) remove(id int64) bool {
	at, ok := t.byID[id]
	if !ok {
		return false
	}
	s := &t.slots[at]
	for _, term := range s.terms {
		l := t.lists[term]
		i := slices.IndexFunc(l, func(p slotPosting) bool { return p.slot == uint32(at) })
		l[i] = l[len(l)-1]
		if l = l[:len(l)-1]; len(l) == 0 {
			delete(t.lists, term)
		} else {
			t.lists[term] = l
		}
	}
	t.sum -= uint64(s.length)
	*s = slot{}
	delete(t.byID, id)
	t.freed = append(t.freed, at)
	return true
}

// settle puts the rows into the order of keys. It must be called after the last
// change and before the first read. It costs one pass over the rows and a sort
// of the new ones.
func (t *Table) settle() {
	if len(t.added) == 0 && len(t.freed) == 0 {
		return
	}
	for _, at := range t.freed {
		t.slots[at].length = gone
	}
	byKey := func(a, b int32) int { return compareKeys(t.slots[a].key, t.slots[b].key) }
	stays := func(at int32) bool { return t.slots[at].length != gone }
	t.added = slices.DeleteFunc(t.added, func(at int32) bool { return !stays(at) })
	slices.SortFunc(t.added, byKey)
	merged := make([]int32, 0, len(t.byID))
	added := t.added
	for _, at := range t.order {
		if !stays(at) {
			continue
		}
		for len(added) > 0 && byKey(added[0], at) < 0 {
			merged = append(merged, added[0])
			added = added[1:]
		}
		merged = append(merged, at)
	}
	t.order = append(merged, added...)
	t.rank = slices.Grow(t.rank[:0], len(t.slots))[:len(t.slots)]
	for i, at := range t.order {
		t.rank[at] = uint32(i)
	}
	t.free = append(t.free, t.freed...)
	t.added, t.freed = t.added[:0], t.freed[:0]
}

// Rows returns the number of rows.
func (t *Table) Rows() int { return len(t.byID) }

func (t *Table) key(row int) rowKey { return t.slots[t.order[row]].key }

func (t *Table) length(row int) uint32 { return t.slots[t.order[row]].length }

func (t *Table) lengths(row int, dst []uint32, joined []bool) {
	for i := range dst {
		s := &t.slots[t.order[row+i]]
		dst[i] = s.length
		joined[i] = row+i > 0 && t.slots[t.order[row+i-1]].key.continues(s.key)
	}
}

func (t *Table) total() uint64 { return t.sum }

func (t *Table) find(id int64) (row int, ok bool) {
	at, ok := t.byID[id]
	if !ok {
		return 0, false
	}
	return int(t.rank[at]), true
}

func (t *Table) postings(term string) (list, error) {
	id, ok := t.words.ids[term]
	if !ok || len(t.lists[id]) == 0 {
		return list{}, nil
	}
	return t.list(id), nil
}

func (t *Table) list(id TermID) list {
	from := t.lists[id]
	p := make([]posting, len(from))
	ordered := true
	for i, s := range from {
		p[i] = posting{t.rank[s.slot], s.freq}
		ordered = ordered && (i == 0 || p[i-1].row < p[i].row)
	}
	if !ordered {
		slices.SortFunc(p, func(a, b posting) int { return int(a.row) - int(b.row) })
	}
	return memoryList(p)
}

func (t *Table) terms() iter.Seq2[termList, error] {
	return func(yield func(termList, error) bool) {
		ids := slices.Collect(maps.Keys(t.lists))
		slices.SortFunc(ids, func(a, b TermID) int { return cmp.Compare(t.words.Term(a), t.words.Term(b)) })
		for _, id := range ids {
			if !yield(termList{t.words.Term(id), t.list(id)}, nil) {
				return
			}
		}
	}
}
