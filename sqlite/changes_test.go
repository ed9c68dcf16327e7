package sqlite_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"

	"recalld/memory"
	"recalld/sqlite"
)

// TestChangeLog: one row for each record and operation, with both cells, without
// text; trimming leaves the sequence where it was.
// DECISIONS 4
func TestChangeLog(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Clock: fixed})
	ctx := context.Background()
	m := model(t, s, 1)
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "one", Vector: []float32{1}, Model: m})
	if _, err := s.Update(ctx, "a", mem(1), sqlite.Patch{Content: pointer("two"), Project: pointer("p")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.StoreEpisodes(ctx, []sqlite.NewEpisode{{Cell: cell("a", "p", ""), Summary: "one"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetLocked(ctx, "a", []memory.Ref{mem(1)}, false); err != nil {
		t.Fatal(err)
	}
	if err := s.AddRecalls(ctx, []sqlite.Recalls{{Ref: mem(1), Count: 1, Last: memory.TimeOf(fixed())}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(ctx, "a", []memory.Ref{mem(1)}); err != nil {
		t.Fatal(err)
	}
	changes := func(after int64) (all []sqlite.Change) {
		v := view(t, s)
		defer v.Close()
		if err := v.Changes(after, 100, func(c sqlite.Change) error { all = append(all, c); return nil }); err != nil {
			t.Fatal(err)
		}
		return all
	}
	got := changes(0)
	var lineages []int64
	for i := range got {
		lineages = append(lineages, got[i].Lineage)
		got[i].Lineage = 0
	}
	slices.SortFunc(got[2:4], func(a, b sqlite.Change) int { return int(a.Op) - int(b.Op) }) // one statement
	for i := range got {
		got[i].Seq = 0
	}
	want := []sqlite.Change{
		{Op: sqlite.OpInsert, Ref: mem(1), NewCell: 1},
		{Op: sqlite.OpEmbedded, Ref: mem(1), NewCell: 1, Model: m},
		{Op: sqlite.OpText, Ref: mem(1), OldCell: 2, NewCell: 2},
		{Op: sqlite.OpRetag, Ref: mem(1), OldCell: 1, NewCell: 2},
		{Op: sqlite.OpInsert, Ref: ep(1), NewCell: 2},
		{Op: sqlite.OpDelete, Ref: mem(1), OldCell: 2},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	slices.Sort(lineages)
	if len(slices.Compact(lineages)) != len(want) {
		t.Errorf("lineages repeat: %v", lineages)
	}
	if err := s.TrimChanges(ctx, 4); err != nil {
		t.Fatal(err)
	}
	v := view(t, s)
	if oldest, err := v.OldestChange(); err != nil || oldest != 5 || v.Seq() != 6 || len(changes(0)) != 2 || len(changes(5)) != 1 {
		t.Errorf("oldest %d, last %d, %v", oldest, v.Seq(), err)
	}
	v.Close()
	if err := s.TrimChanges(ctx, 6); err != nil {
		t.Fatal(err)
	}
	v = view(t, s)
	defer v.Close()
	if oldest, err := v.OldestChange(); err != nil || oldest != 0 || v.Seq() != 6 {
		t.Errorf("oldest %d, last %d, %v", oldest, v.Seq(), err)
	}
	sound(t, s, "missing_vectors", "erasure")
}

// TestRandomnessIsInjected: the truth id and every lineage come from the source
// that the options name.
// DECISIONS 7
func TestRandomnessIsInjected(t *testing.T) {
	history := func(seed byte) string {
		s, _ := openStore(t, sqlite.Options{Clock: fixed, Random: bytes.NewReader(bytes.Repeat([]byte{seed, 1, 2, 3, 4, 5, 6}, 100))})
		store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "one"}, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "two"})
		v := view(t, s)
		defer v.Close()
		text := s.TruthID()
		if err := v.Changes(0, 10, func(c sqlite.Change) error { text += fmt.Sprint(" ", c.Lineage); return nil }); err != nil {
			t.Fatal(err)
		}
		return text
	}
	if a, b := history(7), history(7); a != b {
		t.Errorf("%s\n%s", a, b)
	}
	if a, b := history(7), history(8); a == b {
		t.Errorf("%s whatever the source", a)
	}
}
