package sqlite_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"recalld/memory"
	"recalld/sqlite"
)

// TestTimeBounds: the bounds of a scope follow stores, edits, retags and
// deletions of both kinds; an episode's storing time sets the boundary.
// DECISIONS 8, RR-412, RR-415, RR-419
func TestTimeBounds(t *testing.T) {
	now := fixed()
	s, _ := openStore(t, sqlite.Options{Clock: func() time.Time { return now }})
	ctx := context.Background()
	at := func(n int64) memory.Time { return memory.Time{Milli: n, Known: true} }
	bounds := func(agent string) string {
		t.Helper()
		v := view(t, s)
		defer v.Close()
		st, err := v.Stats(memory.Scope{Agent: agent})
		if err != nil {
			t.Fatal(err)
		}
		if !st.Dated {
			return fmt.Sprint("undated, boundary ", st.NewestEpisode)
		}
		return fmt.Sprint(st.MinTime, " to ", st.MaxTime, ", boundary ", st.NewestEpisode)
	}
	expect := func(what, want string) {
		t.Helper()
		if got := bounds("a"); got != want {
			t.Errorf("after %s: %s, want %s", what, got, want)
		}
	}
	expect("nothing", "undated, boundary 0")
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "undated"})
	expect("an undated memory", "undated, boundary 0")
	for _, n := range []int64{30, 10, 50, 20, 40} {
		store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: fmt.Sprint(n), Time: at(n)})
	}
	expect("five memories", "10 to 50, boundary 0")
	remove := func(refs ...memory.Ref) {
		t.Helper()
		r, err := s.Delete(ctx, "a", refs)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range r {
			if d.Outcome != sqlite.OutcomeDeleted {
				t.Fatal(r)
			}
		}
	}
	remove(mem(3)) // 10
	expect("deleting the oldest", "20 to 50, boundary 0")
	remove(mem(4)) // 50
	expect("deleting the newest", "20 to 40, boundary 0")
	first := now.UnixMilli()
	var episodes []memory.Ref
	for _, n := range []int64{60, 15} {
		r, err := s.StoreEpisodes(ctx, []sqlite.NewEpisode{{Cell: cell("a", "", ""), Summary: fmt.Sprint(n), Start: at(n)}})
		if err != nil {
			t.Fatal(err)
		}
		episodes = append(episodes, r[0].Ref)
		now = now.Add(time.Minute)
	}
	expect("two episodes", fmt.Sprint("15 to 60, boundary ", first+60_000))
	remove(episodes[1])
	expect("deleting an episode", fmt.Sprint("20 to 60, boundary ", first))
	if _, err := s.Update(ctx, "a", episodes[0], sqlite.Patch{Time: pointer(at(25))}); err != nil {
		t.Fatal(err)
	}
	expect("redating the episode", fmt.Sprint("20 to 40, boundary ", first))
	if _, err := s.Update(ctx, "a", mem(5), sqlite.Patch{Time: &memory.Time{}}); err != nil { // 20
		t.Fatal(err)
	}
	expect("undating the oldest", fmt.Sprint("25 to 40, boundary ", first))
	if _, err := s.Update(ctx, "a", mem(6), sqlite.Patch{Project: pointer("p")}); err != nil { // 40
		t.Fatal(err)
	}
	v := view(t, s)
	pool, err := v.Stats(memory.Scope{Agent: "a", Project: pointer("")})
	if v.Close(); err != nil || !pool.Dated || pool.MinTime != 25 || pool.MaxTime != 30 {
		t.Errorf("the pool after a retag: %+v, %v", pool, err)
	}
	expect("a retag", fmt.Sprint("25 to 40, boundary ", first))
	if got := bounds("b"); got != "undated, boundary 0" {
		t.Errorf("another agent: %s", got)
	}
	sound(t, s)
}
