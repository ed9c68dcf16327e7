package sqlite_test

import (
	"slices"
	"strings"
	"testing"

	"recalld/sqlite"
)

// TestBlocksHoldNoText: no table of blocks has a column for a record's text, and
// none of their cells holds a part of it, not even the reason of a failure.
// BR-003
func TestBlocksHoldNoText(t *testing.T) {
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	// The reason why a record waits is the only word in them.
	got := rows(t, path, `SELECT m.name, x.name AS column FROM sqlite_schema m JOIN pragma_table_xinfo(m.name) x
		WHERE m.type = 'table' AND m.name LIKE 'block%' AND x.type NOT IN ('INTEGER', 'BLOB')`)
	if want := []string{"name=block_task column=error"}; !slices.Equal(got, want) {
		t.Errorf("columns of text: %v, want %v", got, want)
	}

	m := measured(t, s, 9)
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: long})
	putSets(t, s, setOf(mem(1), m, long, 5, 3, 9))
	var clauses []string
	for clause := range strings.SplitSeq(long, " ") {
		clauses = append(clauses, clause)
	}
	looked := 0
	for _, at := range rows(t, path, `SELECT m.name || ' ' || x.name AS place FROM sqlite_schema m JOIN pragma_table_xinfo(m.name) x
		WHERE m.type IN ('table', 'view') AND m.name LIKE 'block%'`) {
		table, column, _ := strings.Cut(strings.TrimPrefix(at, "place="), " ")
		for _, clause := range clauses {
			if n := rows(t, path, "SELECT count(*) AS n FROM "+table+" WHERE instr(CAST("+column+" AS BLOB), CAST(? AS BLOB)) > 0", clause); n[0] != "n=0" {
				t.Errorf("%s.%s holds %q: %v", table, column, clause, n)
			}
		}
		looked++
	}
	if looked < 20 {
		t.Errorf("looked at %d columns", looked)
	}
}
