package lexical

import (
	"fmt"
	"testing"

	"recalld/memory"
)

// A table makes room for about as many terms as it has: many cells have one row.
func TestTableMakesRoomForWhatItHas(t *testing.T) {
	words := NewAnalyser()
	for _, rows := range []int{1, 2, 10, 1_000} {
		table, terms := newTable(words), 0
		for id := range rows {
			table.put(Doc{Ref: memory.Ref{Kind: memory.KindMemory, ID: int64(id) + 1}, Text: fmt.Sprintf("the staging database moved to db-%d on a Tuesday", id)}, nil)
			terms += len(table.slots[id].terms)
		}
		if terms < 4*rows || len(table.spare) > min(spareAtMost, terms) {
			t.Errorf("%d rows of %d terms, and room for %d more", rows, terms, len(table.spare))
		}
	}
}
