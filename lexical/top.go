package lexical

import "container/heap"

// top keeps the k best rows of one search in the total order: score descending,
// then id ascending. All rows of a search are of one kind.
type top struct {
	k    int
	rows []ranked // a heap with the worst row first
}

// ranked is one row with its score and where it was found.
type ranked struct {
	score uint32
	id    int64
	cell  int // index of the cell in the search
	pos   uint32
}

// before is the total order.
func (a ranked) before(b ranked) bool {
	if a.score != b.score {
		return a.score > b.score
	}
	return a.id < b.id
}

// threshold is the score below which a row cannot enter. A row that equals it
// may still enter by its id.
func (t *top) threshold() uint32 {
	if len(t.rows) < t.k {
		return 1
	}
	return t.rows[0].score
}

func (t *top) offer(r ranked) {
	switch {
	case r.score == 0:
	case len(t.rows) < t.k:
		heap.Push(t, r)
	case r.before(t.rows[0]):
		t.rows[0] = r
		heap.Fix(t, 0)
	}
}

// Len, Less, Swap, Push and Pop implement [heap.Interface].
func (t *top) Len() int           { return len(t.rows) }
func (t *top) Less(i, j int) bool { return t.rows[j].before(t.rows[i]) }
func (t *top) Swap(i, j int)      { t.rows[i], t.rows[j] = t.rows[j], t.rows[i] }
func (t *top) Push(x any)         { t.rows = append(t.rows, x.(ranked)) }
func (t *top) Pop() any {
	last := t.rows[len(t.rows)-1]
	t.rows = t.rows[:len(t.rows)-1]
	return last
}
