package kernel

import "slices"

// Runs tells which rows belong together: the rows of a parent follow one another.
type Runs interface {
	// Run returns the rows [first, end) of the parent that a row belongs to. It is
	// asked about rows that pass the filter only, from several goroutines.
	Run(row int) (first, end int)
}

// Starts are the first rows of all parents in ascending order, then the number of
// rows.
type Starts []uint32

// Run implements [Runs].
func (s Starts) Run(row int) (first, end int) {
	i, found := slices.BinarySearch(s, uint32(row))
	if !found {
		i--
	}
	return int(s[i]), int(s[i+1])
}

// A fold turns hits, which come in ascending order of rows, into one for each
// parent: that of its best row, the first of equals (BR-035).
type fold struct {
	parents Runs
	best    Hit
	end     int // of the run that best belongs to; 0 when there is none
	into    *selection
}

func (f *fold) push(h Hit) {
	if int(h.Row) < f.end {
		if h.Distance < f.best.Distance {
			f.best = h
		}
		return
	}
	f.flush()
	f.best = h
	_, f.end = f.parents.Run(int(h.Row))
}

// flush hands over the parent in hand. A range ends where a parent does.
func (f *fold) flush() {
	if f.end > 0 {
		f.into.push(f.best)
		f.end = 0
	}
}
