package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"recalld/memory"
	"recalld/sqlite"
)

// clock is an injected time that moves a second with every reading.
type clock struct{ now time.Time }

func openStore(t testing.TB, o sqlite.Options) (*sqlite.Store, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "recall.db")
	return reopen(t, path, o), path
}

func reopen(t testing.TB, path string, o sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func cell(agent, project, channel string) memory.Cell {
	return memory.Cell{Agent: agent, Project: project, Channel: channel}
}

func store(t testing.TB, s *sqlite.Store, items ...sqlite.NewMemory) []sqlite.StoreResult {
	t.Helper()
	r, err := s.StoreMemories(context.Background(), items)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func view(t testing.TB, s *sqlite.Store) *sqlite.View {
	t.Helper()
	v, err := s.View(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	return v
}

func TestSmoke(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{})
	id, err := s.PutModel(context.Background(), sqlite.Model{Backend: "x", Name: "n", Dims: 2, State: "active"})
	if err != nil {
		t.Fatal(err)
	}
	r := store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "the deploy window is Tuesday", Vector: []float32{1, 0}, Model: id, Time: memory.TimeOf(time.Now())},
		sqlite.NewMemory{Cell: cell("a", "", ""), Content: "the deploy window is Tuesday"})
	t.Logf("%+v", r)
	v := view(t, s)
	cells, err := v.Cells(memory.Scope{Agent: "a"})
	t.Logf("%+v %v", cells, err)
	recs, err := v.Hydrate(memory.Scope{Agent: "a"}, []memory.Ref{r[0].Ref})
	t.Logf("%+v %v", recs, err)
	m, trunc, err := v.MatchFTS(memory.Scope{Agent: "a"}, memory.KindMemory, sqlite.BuildFTSQuery("when is the deploy?"), 10, "")
	t.Logf("%+v %v %v", m, trunc, err)
	l, err := v.List(memory.Scope{Agent: "a"}, sqlite.Filter{Kind: memory.KindMemory, Limit: 10, NewestFirst: true})
	t.Logf("%+v %v", l, err)
	v.Changes(0, 10, func(c sqlite.Change) error { t.Logf("%+v", c); return nil })
	v.Vectors(id, []int64{cells[0].ID}, func(ref memory.Ref, c int64, x []float32) error { t.Log(ref, c, x); return nil })
	v.Close()
	d, err := s.Delete(context.Background(), "a", []memory.Ref{r[0].Ref})
	t.Logf("%+v %v", d, err)
	st, err := s.Stats(context.Background())
	t.Logf("%+v %v", st, err)
}
