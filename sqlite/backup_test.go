package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"recalld/memory"
	"recalld/sqlite"
)

// TestBackupWhileWriting: a backup taken under writes is one whole snapshot, a
// single file, and opens like any other.
// DECISIONS 15
func TestBackupWhileWriting(t *testing.T) {
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	ctx := context.Background()
	for i := range 200 {
		store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: fmt.Sprint(i, strings.Repeat(" filling", 500))})
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 200; ; i++ {
			select {
			case <-stop:
				return
			default:
				store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: fmt.Sprint(i)})
			}
		}
	})
	dst := filepath.Join(filepath.Dir(path), "copy.db")
	var done, total int64
	if err := s.Backup(ctx, dst, func(d, n int64) { done, total = d, n }); err != nil {
		t.Fatal(err)
	}
	close(stop)
	wg.Wait()
	if total == 0 || done != total {
		t.Errorf("progress ended at %d of %d", done, total)
	}
	if err := s.Backup(ctx, dst, nil); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("it was overwritten: %v", err)
	}
	names, _ := filepath.Glob(dst + "*")
	if len(names) != 1 {
		t.Errorf("beside the copy: %v", names)
	}
	copied := reopen(t, dst, sqlite.Options{Clock: fixed})
	st, err := copied.Stats(ctx)
	if err != nil || st.Memories < 200 || copied.TruthID() != s.TruthID() {
		t.Errorf("%+v, %v", st, err)
	}
	sound(t, copied)
}

// TestRestore: a restored file has its records, a truth id of its own, and what
// was in the way is kept under another name.
// DECISIONS 4
func TestRestore(t *testing.T) {
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	ctx := context.Background()
	folder := filepath.Dir(path)
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "in the backup"})
	backup := filepath.Join(folder, "backup.db")
	if err := s.Backup(ctx, backup, nil); err != nil {
		t.Fatal(err)
	}
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "after the backup"})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	r, err := sqlite.Restore(ctx, backup, path, true, sqlite.Options{Clock: fixed})
	if err != nil {
		t.Fatal(err)
	}
	if after, _ := os.ReadFile(backup); string(after) != string(before) {
		t.Error("the backup was changed")
	}
	if len(r.Findings) == 0 || r.Schema != 2 || r.TruthID == s.TruthID() {
		t.Errorf("%+v", r)
	}
	again := reopen(t, path, sqlite.Options{Clock: fixed})
	if again.TruthID() != r.TruthID {
		t.Errorf("the file has truth id %s, restore said %s", again.TruthID(), r.TruthID)
	}
	if got := recall(t, again, "a", mem(1), mem(2)); len(got) != 1 || got[0].Content != "in the backup" {
		t.Errorf("%+v", got)
	}
	aside := reopen(t, r.SetAside, sqlite.Options{})
	if got := recall(t, aside, "a", mem(1), mem(2)); len(got) != 2 {
		t.Errorf("set aside: %+v", got)
	}
	sound(t, again, "copies")
}

// TestRestoreRefusesDamage: a damaged backup does not take the place of a file.
func TestRestoreRefusesDamage(t *testing.T) {
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	ctx := context.Background()
	for i := range 100 {
		store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: fmt.Sprint(i)})
	}
	backup := filepath.Join(filepath.Dir(path), "backup.db")
	if err := s.Backup(ctx, backup, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	foreign(t, backup, "UPDATE cell_stats SET memories = 7")
	if _, err := sqlite.Restore(ctx, backup, path, true, sqlite.Options{}); !errors.Is(err, memory.ErrCorrupt) {
		t.Errorf("verified: %v", err)
	}
	contents, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(backup, contents[:len(contents)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Restore(ctx, backup, path, false, sqlite.Options{}); !errors.Is(err, memory.ErrCorrupt) {
		t.Errorf("half a file: %v", err)
	}
	if names, _ := filepath.Glob(path + "?*"); len(names) != 0 {
		t.Errorf("left behind: %v", names)
	}
	if st, err := reopen(t, path, sqlite.Options{}).Stats(ctx); err != nil || st.Memories != 100 {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestVacuum: free pages go, ids and answers stay.
func TestVacuum(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Clock: fixed})
	ctx := context.Background()
	var refs []memory.Ref
	for i := range 300 {
		r := store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: fmt.Sprint(i, strings.Repeat(" filling", 300))})
		if i%10 > 0 {
			refs = append(refs, r[0].Ref)
		}
	}
	if _, err := s.Delete(ctx, "a", refs); err != nil {
		t.Fatal(err)
	}
	view(t, s).Close() // nothing waits for the full-text index
	before, err := s.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var steps, total int64
	if err := s.Vacuum(ctx, func(d, n int64) { steps, total = d, n }); err != nil {
		t.Fatal(err)
	}
	after, err := s.Stats(ctx)
	if err != nil || after.FreePages != 0 || after.FileBytes*2 > before.FileBytes || after.WALBytes != 0 || steps != total {
		t.Errorf("before %+v, after %+v, %v", before, after, err)
	}
	if r := store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "next"}); r[0].Ref != mem(301) {
		t.Errorf("an id is used again: %v", r)
	}
	if got := recall(t, s, "a", mem(291), mem(292)); len(got) != 1 || !strings.HasPrefix(got[0].Content, "290 ") {
		t.Error(got)
	}
	sound(t, s)
}
