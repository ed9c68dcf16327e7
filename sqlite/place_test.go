package sqlite_test

import (
	"context"
	"testing"
	"time"

	"recalld/memory"
	"recalld/sqlite"
)

// DECISIONS 4: what an index reads of a record is in the change log when it
// changes: its source, which makes neighbours, and its time, which makes date
// words, as well as its text; each edit is one row.
func TestChangeLogHoldsSourceAndTime(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Clock: fixed})
	ctx := context.Background()
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "会議の記録"})
	if _, err := s.StoreEpisodes(ctx, []sqlite.NewEpisode{{Cell: cell("a", "", ""), Summary: "一周"}}); err != nil {
		t.Fatal(err)
	}
	at := memory.TimeOf(time.Date(2026, 5, 8, 9, 0, 0, 0, time.UTC))
	sameInstant := memory.Time{Milli: at.Milli, Offset: 540, Known: true}
	for _, c := range []struct {
		name  string
		ref   memory.Ref
		patch sqlite.Patch
		want  int
	}{
		{"a source", mem(1), sqlite.Patch{Source: &memory.Source{ID: "session-2"}}, 1},
		{"the same source", mem(1), sqlite.Patch{Source: &memory.Source{ID: "session-2"}}, 0},
		{"a speaker", mem(1), sqlite.Patch{Source: &memory.Source{ID: "session-2", Name: "Mei"}}, 0},
		{"a time", mem(1), sqlite.Patch{Time: &at}, 1},
		{"its zone", mem(1), sqlite.Patch{Time: &sameInstant}, 1},
		{"text and time", mem(1), sqlite.Patch{Content: pointer("another"), Time: &at}, 1},
		{"an episode's start", ep(1), sqlite.Patch{Time: &at}, 1},
		{"its end of being open", ep(1), sqlite.Patch{Resolved: pointer(true)}, 0},
	} {
		before := view(t, s)
		seq := before.Seq()
		before.Close()
		if _, err := s.Update(ctx, "a", c.ref, c.patch); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		after := view(t, s)
		n := 0
		err := after.Changes(seq, 10, func(change sqlite.Change) error {
			if change.Op != sqlite.OpText || change.Ref != c.ref {
				t.Errorf("%s: %+v", c.name, change)
			}
			n++
			return nil
		})
		after.Close()
		if err != nil || n != c.want {
			t.Errorf("%s made %d rows of the log, %v, want %d", c.name, n, err, c.want)
		}
	}
}
