package kernel

import (
	"fmt"

	"recalld/memory"
)

// Live is a bitmap over the rows of a matrix: bit i of word i/64 says whether row
// i may be in an answer. nil means that all may.
type Live []uint64

// NewLive returns a bitmap in which every one of so many rows is live.
func NewLive(rows int) Live {
	l := make(Live, (rows+63)/64)
	for i := range l {
		l[i] = ^uint64(0)
	}
	return l
}

// Clear takes a row out. It must not run beside a scan.
func (l Live) Clear(row int) { l[row/64] &^= 1 << (row % 64) }

// Has reports whether a row is live.
func (l Live) Has(row int) bool { return l == nil || l[row/64]>>(row%64)&1 != 0 }

// Cap takes out all but the first n rows of every parent in a range, so that a
// long text does not own the answer (BR-037, BR-038). n < 1 lifts the cap. It
// must not run beside a scan.
func (l Live) Cap(from, to int, parents Runs, n int) {
	if n < 1 {
		return
	}
	for from < to {
		_, end := parents.Run(from)
		for row := from + n; row < min(end, to); row++ {
			l.Clear(row)
		}
		from = end
	}
}

func (l Live) check(rows int) error {
	if l != nil && len(l) < (rows+63)/64 {
		return &memory.FieldError{Field: "live", Problem: fmt.Sprintf("has %d words", len(l)), Limit: fmt.Sprintf("%d for %d rows", (rows+63)/64, rows),
			Next: "make a bit for every row of the matrix"}
	}
	return nil
}
