package scanner

import (
	"cmp"
	"slices"

	"recalld/layout"
)

// ahead has rows of value files read before they are needed, all at once: one after
// the other they would take a disk's whole latency each. Asking costs as much as
// comparing where they are in memory, so nothing is asked for until one of the first
// rows was not.
type ahead struct {
	rows   []place
	next   int // row to look before
	asked  bool
	system paging
	faults int64 // what system.faults said when it began
}

// paging is what the system is asked of pages: how many this process had to wait for
// the disk for, and to begin to read some.
type paging struct {
	faults func() int64
	read   func(mapped []byte, from, to int64)
}

// place is where a row is in a value file; nil: elsewhere.
type place struct {
	file *layout.Values
	slot uint32
}

// lookAhead begins with the first of rows, in the order in which they will be read.
func lookAhead(rows []place, system paging) *ahead {
	return &ahead{rows: rows, next: 1, system: system, faults: system.faults()}
}

// lookEvery is how many rows may be read before it is known that one was not in
// memory.
const lookEvery = 8

// before is called before row i is read, and not for rows that are skipped.
func (a *ahead) before(i int) {
	if a.asked || i < a.next {
		return
	}
	a.next = i + min(i, lookEvery)
	if a.system.faults() == a.faults {
		return
	}
	a.asked = true
	rest := slices.DeleteFunc(slices.Clone(a.rows[i:]), func(p place) bool { return p.file == nil })
	slices.SortFunc(rest, func(x, y place) int {
		return cmp.Or(cmp.Compare(x.file.Header().Number, y.file.Header().Number), cmp.Compare(x.slot, y.slot))
	})
	for len(rest) > 0 {
		file := rest[0].file
		from, to := file.Extent(rest[0].slot)
		n := 1
		for ; n < len(rest) && rest[n].file == file; n++ {
			start, end := file.Extent(rest[n].slot)
			if start > to+nearBytes {
				break
			}
			to = end
		}
		a.system.read(file.Mapped(), from, to)
		rest = rest[n:]
	}
}

// nearBytes is how far apart two rows are at most that are asked for together.
const nearBytes = 16 << 10
