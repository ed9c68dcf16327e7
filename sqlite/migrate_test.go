package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"recalld/memory"
)

// TestSchemaGolden holds the whole schema of a new file: a change to it is a
// visible change to testdata/schema, and needs a migration of its own once
// released. Rewrite with -rewrite.
// DECISIONS 8, RR-010, BR-027, BR-089
func TestSchemaGolden(t *testing.T) {
	s, err := Open(context.Background(), filepath.Join(t.TempDir(), "recall.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	v, err := s.View(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	datadriven.RunTest(t, filepath.Join("testdata", "schema"), func(t *testing.T, _ *datadriven.TestData) string {
		var b strings.Builder
		for _, p := range []string{"user_version", "application_id", "page_size", "journal_mode", "auto_vacuum", "encoding"} {
			value, err := v.conn.pragma(p)
			if err != nil {
				t.Fatal(err)
			}
			b.WriteString("PRAGMA " + p + " = " + value + ";\n")
		}
		err := v.query("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type = 'trigger', type = 'index', rowid", nil, func(r row) error {
			b.WriteString("\n" + r.text(0) + ";\n")
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return b.String()
	})
}

// steps are today's migrations and two of tomorrow; the last one fails.
func steps(t *testing.T, last string) []migration {
	t.Helper()
	all, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	return append(all,
		migration{version: 3, minReader: 1, sql: "CREATE TABLE two (x); INSERT INTO two SELECT content FROM memory;"},
		migration{version: 4, minReader: 4, sql: last},
	)
}

// TestMigrations: each step is preceded by a backup, stands in one transaction,
// and a failed one leaves the file as the step before left it.
// RR-010, DECISIONS 8
func TestMigrations(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "recall.db")
	s, err := Open(ctx, path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.StoreMemories(ctx, []NewMemory{{Cell: memory.Cell{Agent: "a"}, Content: "kept"}}); err != nil {
		t.Fatal(err)
	}
	truth := s.TruthID()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if names, _ := filepath.Glob(path + ".before-*"); len(names) != 0 {
		t.Errorf("a new file has backups: %v", names)
	}

	if _, err := open(ctx, path, Options{ReadOnly: true}, steps(t, "SELECT 1")); !errors.Is(err, memory.ErrReadOnly) {
		t.Errorf("an old file was opened for reading: %v", err)
	}
	if _, err := open(ctx, path, Options{}, steps(t, "CREATE TABLE three (x); INSERT INTO nowhere VALUES (1);")); err == nil || !strings.Contains(err.Error(), "migration 4") {
		t.Fatalf("the failing step: %v", err)
	}
	version := func(path string) (version int, tables string) {
		t.Helper()
		c, err := connect(path, "ro", "", false)
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		if version, err = c.intPragma("user_version"); err != nil {
			t.Fatal(err)
		}
		err = c.query(ctx, "SELECT name FROM sqlite_schema WHERE name IN ('two', 'three') ORDER BY name", nil, func(r row) error {
			tables += r.text(0) + " "
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return version, tables
	}
	for file, want := range map[string]struct {
		version int
		tables  string
	}{path: {3, "two "}, path + ".before-3": {2, ""}, path + ".before-4": {3, "two "}} {
		if v, tables := version(file); v != want.version || tables != want.tables {
			t.Errorf("%s has version %d and tables %q, want %+v", filepath.Base(file), v, tables, want)
		}
	}

	s, err = open(ctx, path, Options{}, steps(t, "CREATE TABLE three (x);"))
	if err != nil {
		t.Fatal(err)
	}
	if s.SchemaVersion() != 4 || s.TruthID() != truth {
		t.Errorf("version %d, truth %s", s.SchemaVersion(), s.TruthID())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{false, true} {
		if _, err := Open(ctx, path, Options{ReadOnly: readOnly}); !errors.Is(err, memory.ErrTooNew) {
			t.Errorf("the older program opened it: %v", err)
		}
	}
}
