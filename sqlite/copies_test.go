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

// TestCopiesAreForTheOwnerAlone: a backup and a restored file are no more
// readable for others than the file itself.
// DECISIONS 15
func TestCopiesAreForTheOwnerAlone(t *testing.T) {
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	ctx := context.Background()
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "nobody else's business"})
	backup := path + "-backup.db"
	if err := s.Backup(ctx, backup, nil); err != nil {
		t.Fatal(err)
	}
	restored := filepath.Join(t.TempDir(), "recall.db")
	if _, err := sqlite.Restore(ctx, backup, restored, false, sqlite.Options{Clock: fixed}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, backup, restored} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", filepath.Base(name), info.Mode(), err)
		}
	}
}

// TestInterruptedRestoreIsNoticed: a restore that was cut off once the former
// file was set aside does not end in an empty file at the next start, and the
// next restore loses nothing of the former file.
// DECISIONS 4
func TestInterruptedRestoreIsNoticed(t *testing.T) {
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	ctx := context.Background()
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "precious"})
	backup := path + "-backup.db"
	if err := s.Backup(ctx, backup, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// What is there when the power goes between the two renames: the file is
	// aside, its log is not yet, the restored one has not got the name.
	aside := path + ".replaced-by-01234567"
	if err := errors.Join(os.Rename(path, aside), os.WriteFile(path+".restore", nil, 0o600), os.WriteFile(path+"-wal", []byte("the log"), 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err := sqlite.Open(ctx, path, sqlite.Options{Clock: fixed})
	if !errors.Is(err, memory.ErrCorrupt) || !strings.Contains(err.Error(), filepath.Base(aside)) || !strings.Contains(err.Error(), "recalld restore") {
		t.Errorf("opened: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("an empty file took the place: %v", err)
	}
	r, err := sqlite.Restore(ctx, backup, path, false, sqlite.Options{Clock: fixed})
	if err != nil || r.SetAside != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	logs, err := filepath.Glob(path + ".replaced-by-*-wal")
	if err != nil || len(logs) != 1 {
		t.Errorf("the log of the former file: %v, %v", logs, err)
	}
	if got := recall(t, reopen(t, path, sqlite.Options{Clock: fixed}), "a", mem(1)); len(got) != 1 || got[0].Content != "precious" {
		t.Errorf("%+v", got)
	}
	if got := recall(t, reopen(t, aside, sqlite.Options{Clock: fixed}), "a", mem(1)); len(got) != 1 {
		t.Errorf("aside: %+v", got)
	}
}
