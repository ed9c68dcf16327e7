package arm

import (
	"slices"

	"recalld/memory"
)

// top keeps the best k candidates of a stream in any order of arrival.
type top struct {
	k    int
	heap []memory.Candidate // a heap with the worst kept candidate at 0
}

func newTop(k int) *top { return &top{k: k, heap: make([]memory.Candidate, 0, min(k, 1024))} }

// enters reports whether a key can be among the best. Equal keys can: the
// reference decides (DECISIONS 2).
func (t *top) enters(key float64) bool {
	return len(t.heap) < t.k || t.k > 0 && key >= t.heap[0].Key
}

func (t *top) add(c memory.Candidate) {
	if t.k <= 0 {
		return
	}
	if len(t.heap) < t.k {
		t.heap = append(t.heap, c)
		t.up(len(t.heap) - 1)
		return
	}
	if memory.Compare(c, t.heap[0]) < 0 {
		t.heap[0] = c
		t.down()
	}
}

// worse orders the heap: the worst candidate is the root.
func (t *top) worse(i, j int) bool { return memory.Compare(t.heap[i], t.heap[j]) > 0 }

func (t *top) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !t.worse(i, parent) {
			return
		}
		t.heap[i], t.heap[parent] = t.heap[parent], t.heap[i]
		i = parent
	}
}

func (t *top) down() {
	for i := 0; ; {
		worst := i
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < len(t.heap) && t.worse(child, worst) {
				worst = child
			}
		}
		if worst == i {
			return
		}
		t.heap[i], t.heap[worst] = t.heap[worst], t.heap[i]
		i = worst
	}
}

// sorted empties the heap, best first.
func (t *top) sorted() []memory.Candidate {
	slices.SortFunc(t.heap, memory.Compare)
	return t.heap
}
