package sqlite_test

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"recalld/memory"
	"recalld/sqlite"
)

// fixed is the clock of tests: it does not move by itself.
func fixed() time.Time { return time.Date(2026, 3, 1, 9, 30, 0, 0, time.FixedZone("", 9*3600)) }

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

// recall reads records in a snapshot of its own.
func recall(t testing.TB, s *sqlite.Store, agent string, refs ...memory.Ref) []memory.Record {
	t.Helper()
	v := view(t, s)
	defer v.Close()
	records, err := v.Hydrate(memory.Scope{Agent: agent}, refs)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func mem(id int64) memory.Ref { return memory.Ref{Kind: memory.KindMemory, ID: id} }

func ep(id int64) memory.Ref { return memory.Ref{Kind: memory.KindEpisode, ID: id} }

// sound runs every check and fails on whatever one finds.
func sound(t testing.TB, s *sqlite.Store, except ...string) {
	t.Helper()
	for _, c := range s.Checks() {
		f, err := c.Run(context.Background())
		if err != nil {
			t.Fatalf("check %s: %v", c.Name, err)
		}
		if !f.OK && !slices.Contains(except, c.Name) {
			t.Errorf("check %s: %v", c.Name, f.Evidence)
		}
	}
}

// foreign runs statements like another program would.
func foreign(t testing.TB, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite3", (&url.URL{Scheme: "file", Path: path, RawQuery: "_busy_timeout=5000"}).String())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func model(t testing.TB, s *sqlite.Store, dims int) int64 {
	t.Helper()
	id, err := s.PutModel(context.Background(), sqlite.Model{Backend: "static", Name: "test", Dims: dims, State: sqlite.ModelActive})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func pointer[T any](v T) *T { return &v }
