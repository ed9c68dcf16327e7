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

// TestCountsOverAllAgents: what operators are shown over all agents is what the
// agents' own counts add up to.
// DECISIONS 8, 10
func TestCountsOverAllAgents(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Clock: fixed})
	ctx := context.Background()
	first, second := model(t, s, 2), model(t, s, 3)
	for i, agent := range []string{"b", "a", "c", "b", "a", "b", "d"} {
		m := sqlite.NewMemory{Cell: cell(agent, fmt.Sprint(i), ""), Content: fmt.Sprint("text ", i)}
		switch i % 3 {
		case 0:
			m.Vector, m.Model = []float32{1, 0}, first
		case 1:
			m.Queue = []int64{first, second}
		default:
			if agent == "b" {
				m.Queue = []int64{second}
			}
		}
		store(t, s, m)
	}
	if _, err := s.StoreEpisodes(ctx, []sqlite.NewEpisode{
		{Cell: cell("c", "", ""), Summary: "one", Queue: []int64{second}},
		{Cell: cell("d", "", ""), Summary: "two", Vector: []float32{0, 1}, Model: first},
	}); err != nil {
		t.Fatal(err)
	}
	for _, agent := range []string{"d", "b"} {
		if err := s.PutCalibration(ctx, sqlite.Calibration{Agent: agent, Model: first, Dims: 2, Signal: "cosine", Method: "zscore", Precision: "strict", Threshold: .5}); err != nil {
			t.Fatal(err)
		}
	}
	v := view(t, s)
	defer v.Close()
	want := map[int64]int64{}
	waiting := map[int64][]string{}
	for _, agent := range []string{"a", "b", "c", "d"} {
		scope := memory.Scope{Agent: agent}
		st, err := v.Stats(scope)
		if err != nil {
			t.Fatal(err)
		}
		want[0] += st.Memories + st.Episodes
		for m, n := range st.Embedded {
			want[m] += n
		}
		for _, m := range []int64{first, second} {
			n, err := v.PendingIn(scope, m)
			if err != nil {
				t.Fatal(err)
			}
			if n > 0 {
				waiting[m] = append(waiting[m], agent)
			}
		}
	}
	got, err := v.EmbeddedByModel()
	if err != nil || want[0] != 9 || want[first] != 4 {
		t.Fatalf("%v, %v", want, err)
	}
	for m, n := range want {
		if got[m] != n {
			t.Errorf("model %d: %d, want %d", m, got[m], n)
		}
	}
	for m, agents := range map[int64][]string{first: {"a"}, second: {"a", "b", "c"}} {
		got, err := v.WaitingAgents(m)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(agents) || fmt.Sprint(waiting[m]) != fmt.Sprint(agents) {
			t.Errorf("waiting for %d: %v (%v), one by one %v, want %v", m, got, err, waiting[m], agents)
		}
	}
	if agents, err := v.CalibratedAgents(); err != nil || fmt.Sprint(agents) != "[b d]" {
		t.Errorf("%v, %v", agents, err)
	}
}
