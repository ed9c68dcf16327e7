package lexical

import (
	"cmp"
	"iter"
	"math"
	"slices"
)

// Table holds the rows of one cell and kind in memory with their postings. It is
// the delta of an [Index], the input of a [Builder], and what direct reading
// fills. It is not safe for concurrent use; after settle it may be read by many.
type Table struct {
	words *Analyser
	only  []QueryTerm // nil: all terms; else those of one query

	slots []slot           // rows, in no order
	free  []int32          // slots without a row
	added []int32          // slots filled since settle
	freed []int32          // slots emptied since settle
	byID  map[int64]int32  // record to slot
	lists []termSlots      // postings by term
	terms map[TermID]int32 // term to index in lists
	spare []slotTerm       // where the slots' terms are cut from
	held  int              // terms that were cut from it

	order []int32  // slots in the order of keys
	rank  []uint32 // slot to ordinal
	begin []int32  // ordinals of the first rows of sessions
	sum   uint64   // of lengths
}

// gone is the length of a slot that was emptied.
const gone = math.MaxUint32

type slot struct {
	key    rowKey
	length uint32
	terms  []slotTerm
}

// slotTerm is one distinct term of a row.
type slotTerm struct {
	list int32 // index in lists
	freq uint32
}

// termSlots is the rows that one term is in.
type termSlots struct {
	term  TermID
	slots []slotPosting
}

type slotPosting struct {
	slot uint32
	freq uint32
}

// newTable returns an empty table whose terms are numbered by the analyser.
func newTable(words *Analyser) *Table {
	return &Table{words: words, byID: make(map[int64]int32), terms: make(map[TermID]int32)}
}

// put adds a row, in place of the row of the same record if there is one.
// scratch is reused for the row's terms and returned.
func (t *Table) put(d Doc, scratch []TermID) []TermID {
	t.remove(d.Ref.ID)
	scratch = t.words.Append(scratch[:0], d.Text)
	scratch = t.words.AppendTime(scratch, d.Time)

	s := slot{key: rowKey{sessionOf(d.Session), d.Ref.ID}}
	slices.Sort(scratch)
	at := int32(len(t.slots))
	if n := len(t.free); n > 0 {
		at, t.free = t.free[n-1], t.free[:n-1]
	} else {
		t.slots = append(t.slots, slot{})
	}
	if len(t.spare) < len(scratch) {
		t.spare = make([]slotTerm, max(len(scratch), min(spareAtMost, t.held)))
	}
	n := 0
	for i := 0; i < len(scratch); {
		id, from := scratch[i], i
		for i < len(scratch) && scratch[i] == id {
			i++
		}
		if !t.words.isDate(id) {
			s.length += uint32(i - from)
		}
		if t.only != nil && !wanted(t.only, t.words.Term(id)) {
			continue
		}
		freq := uint32(min(i-from, maxFrequency))
		l := t.listOf(id)
		t.lists[l].slots = append(t.lists[l].slots, slotPosting{uint32(at), freq})
		t.spare[n] = slotTerm{l, freq}
		n++
	}
	s.terms, t.spare = t.spare[:n:n], t.spare[n:]
	t.held += n
	t.slots[at] = s
	t.byID[d.Ref.ID] = at
	t.sum += uint64(s.length)
	t.added = append(t.added, at)
	return scratch
}

// spareAtMost is how many terms room is made for at once. A table takes as much as
// it has, so that a thousand cells of one row each do not keep room for hundreds.
const spareAtMost = 4096

// wanted reports whether a term is one of a query's.
func wanted(terms []QueryTerm, term string) bool {
	return slices.ContainsFunc(terms, func(q QueryTerm) bool { return q.matches(term) })
}

// listOf returns the index of a term's list, a new one if there is none.
func (t *Table) listOf(id TermID) int32 {
	l, ok := t.terms[id]
	if !ok {
		l = int32(len(t.lists))
		t.lists = append(t.lists, termSlots{term: id})
		t.terms[id] = l
	}
	return l
}

// remove takes the row of a record out and reports whether there was one.
func (t *Table) remove(id int64) bool {
	at, ok := t.byID[id]
	if !ok {
		return false
	}
	s := &t.slots[at]
	for _, term := range s.terms {
		l := &t.lists[term.list].slots
		i := slices.IndexFunc(*l, func(p slotPosting) bool { return p.slot == uint32(at) })
		(*l)[i] = (*l)[len(*l)-1]
		*l = (*l)[:len(*l)-1]
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
	fresh := len(t.order) == 0
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
	t.begin = t.begin[:0]
	for i, at := range t.order {
		t.rank[at] = uint32(i)
		if i == 0 || t.slots[at].key.session != t.slots[t.order[i-1]].key.session {
			t.begin = append(t.begin, int32(i))
		}
	}
	if fresh {
		t.transpose()
	}
	t.free = append(t.free, t.freed...)
	t.added, t.freed = t.added[:0], t.freed[:0]
}

// transpose writes all lists anew in the order of rows, which is faster than to
// sort each when it is read.
func (t *Table) transpose() {
	for i := range t.lists {
		t.lists[i].slots = t.lists[i].slots[:0]
	}
	for _, at := range t.order {
		for _, term := range t.slots[at].terms {
			l := &t.lists[term.list].slots
			*l = append(*l, slotPosting{uint32(at), term.freq})
		}
	}
}

// Rows returns the number of rows.
func (t *Table) Rows() int { return len(t.byID) }

func (t *Table) sessions() int { return len(t.begin) }

func (t *Table) session(i int) uint64 { return t.key(int(t.begin[i])).session }

func (t *Table) sessionFirst(i int) uint32 { return uint32(t.begin[i]) }

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

func (t *Table) postings(term QueryTerm) (list, error) {
	if !term.Prefix {
		id, ok := t.words.ids[term.Term]
		if !ok {
			return list{}, nil
		}
		l, ok := t.terms[id]
		if !ok {
			return list{}, nil
		}
		return t.list(t.lists[l].slots), nil
	}
	var found []list
	for i := range t.lists {
		if term.matches(t.words.Term(t.lists[i].term)) {
			found = append(found, t.list(t.lists[i].slots))
		}
	}
	return mergeLists(found)
}

func (t *Table) list(from []slotPosting) list {
	p := make([]posting, len(from))
	ordered := true
	for i, s := range from {
		p[i] = posting{t.rank[s.slot], s.freq}
		ordered = ordered && (i == 0 || p[i-1].row < p[i].row)
	}
	if !ordered {
		slices.SortFunc(p, func(a, b posting) int { return cmp.Compare(a.row, b.row) })
	}
	return memoryList(p)
}

func (t *Table) dictionary() iter.Seq2[termList, error] {
	return func(yield func(termList, error) bool) {
		byTerm := make([]int32, 0, len(t.lists))
		for i, l := range t.lists {
			if len(l.slots) > 0 {
				byTerm = append(byTerm, int32(i))
			}
		}
		slices.SortFunc(byTerm, func(a, b int32) int {
			return cmp.Compare(t.words.Term(t.lists[a].term), t.words.Term(t.lists[b].term))
		})
		for _, i := range byTerm {
			if !yield(termList{t.words.Term(t.lists[i].term), t.list(t.lists[i].slots)}, nil) {
				return
			}
		}
	}
}
