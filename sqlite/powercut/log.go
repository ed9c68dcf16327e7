package powercut

import (
	"math/rand/v2"
	"slices"
)

// Log is the record of a [Disk] up to one moment: what its folder held at first, and the operations since. It does not
// change, and outlives the disk.
type Log struct {
	folders []string
	files   map[string][]byte // contents when the disk was opened, by path
	ops     []op
}

// op is one recorded operation. Paths are slash-separated and relative to the disk's folder.
type op struct {
	kind   kind
	file   int64  // opened, wrote, truncated, synced: the handle; each opening has its own
	path   string // opened, deleted
	offset int64  // wrote: of the first byte; truncated: the new size
	bytes  []byte // wrote
	folder bool   // synced, deleted: the containing folder is synced as well
	mark   int64  // acknowledged
}

type kind uint8

const (
	opened kind = iota // creates the file when it does not exist
	wrote
	truncated
	synced
	deleted
	acknowledged
)

// Len returns the number of recorded operations, which is also the last possible cut: a cut c means that exactly the
// first c operations happened.
func (l *Log) Len() int { return len(l.ops) }

// Cuts draws n cuts in ascending order, the order in which [Replay.Crash] is cheap. Half are uniform, half follow an
// acknowledgement by at most three operations, where a missing sync hurts most.
func (l *Log) Cuts(rng *rand.Rand, n int) []int {
	var marks []int
	for i, o := range l.ops {
		if o.kind == acknowledged {
			marks = append(marks, i+1)
		}
	}
	cuts := make([]int, n)
	for i := range cuts {
		if i%2 == 0 || len(marks) == 0 {
			cuts[i] = rng.IntN(len(l.ops) + 1)
		} else {
			cuts[i] = min(marks[rng.IntN(len(marks))]+rng.IntN(4), len(l.ops))
		}
	}
	slices.Sort(cuts)
	return cuts
}

// Replay returns a position at the start of the record.
func (l *Log) Replay() *Replay {
	r := &Replay{log: l}
	r.rewind()
	return r
}
