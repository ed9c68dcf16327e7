package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recalld/memory"
	"recalld/sqlite"
)

// killed is a folder as a process leaves it that was killed after it had deleted
// a record beside an open snapshot: the log could not be emptied.
func killed(t *testing.T) (path string) {
	t.Helper()
	s, from := openStore(t, sqlite.Options{Clock: fixed})
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "the word is " + secrets[0]}, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "kept"})
	v := view(t, s)
	defer v.Close()
	if _, err := s.Delete(context.Background(), "a", []memory.Ref{mem(1)}); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "recall.db")
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(from + suffix)
		if err == nil {
			err = os.WriteFile(path+suffix, b, 0o600)
		}
		if err != nil || len(b) == 0 {
			t.Fatalf("%s has %d bytes: %v", suffix, len(b), err)
		}
	}
	return path
}

// TestOwedErasureIsMadeUpFor: an erasure that a killed process owed is done when
// the file is opened again.
// DECISIONS 14
func TestOwedErasureIsMadeUpFor(t *testing.T) {
	path := killed(t)
	if len(traces(t, filepath.Dir(path), secrets[0])) == 0 {
		t.Fatal("nothing is owed")
	}
	s := reopen(t, path, sqlite.Options{Clock: fixed})
	for _, line := range traces(t, filepath.Dir(path), secrets[0]) {
		t.Error(line)
	}
	if got := recall(t, s, "a", mem(1), mem(2)); len(got) != 1 || got[0].Content != "kept" {
		t.Errorf("%+v", got)
	}
}

// TestNothingBeginsBesideALoneLog: without its file a log is refused, and it is
// still whole when the file is back.
// DECISIONS 13
func TestNothingBeginsBesideALoneLog(t *testing.T) {
	path := killed(t)
	if err := os.Rename(path, path+"-moved"); err != nil {
		t.Fatal(err)
	}
	_, err := sqlite.Open(context.Background(), path, sqlite.Options{Clock: fixed})
	if !errors.Is(err, memory.ErrCorrupt) || !strings.Contains(err.Error(), "recall.db-wal") || !strings.Contains(err.Error(), "put the file back") {
		t.Errorf("opened: %v", err)
	}
	if err := os.Rename(path+"-moved", path); err != nil {
		t.Fatal(err)
	}
	if got := recall(t, reopen(t, path, sqlite.Options{Clock: fixed}), "a", mem(2)); len(got) != 1 || got[0].Content != "kept" {
		t.Errorf("%+v", got)
	}
}

// TestEmptiedFileIsRefused: a file that lost all of its bytes is no new store,
// and the log beside it is left alone. A new file never has this name before it
// is whole.
// DECISIONS 13
func TestEmptiedFileIsRefused(t *testing.T) {
	path := killed(t)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{false, true} {
		_, err := sqlite.Open(context.Background(), path, sqlite.Options{Clock: fixed, ReadOnly: readOnly})
		if !errors.Is(err, memory.ErrCorrupt) || !strings.Contains(err.Error(), "it is empty") || !strings.Contains(err.Error(), "recalld restore") {
			t.Errorf("read-only %v: %v", readOnly, err)
		}
	}
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() == 0 {
		t.Errorf("the log: %v", err)
	}
}
