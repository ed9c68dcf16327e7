package lexical

import "recalld/memory"

// Cell is the number by which package sqlite interns a [memory.Cell]. It is
// stable for the life of a store, and so for all files derived from it.
type Cell int64

// Doc is one record as the index reads it.
type Doc struct {
	Cell    Cell
	Ref     memory.Ref
	Session string      // source.id: records of one cell and kind that share it are neighbours; "" has none
	Time    memory.Time // gives its date words in its own zone; may be unknown
	Text    string
}

// place names one partition: a cell and a kind. Episodes and memories are ranked
// apart, each with statistics of its own.
type place struct {
	cell Cell
	kind memory.Kind
}

func comparePlaces(a, b place) int {
	if a.cell != b.cell {
		if a.cell < b.cell {
			return -1
		}
		return 1
	}
	return int(a.kind) - int(b.kind)
}
