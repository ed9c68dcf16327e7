package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"recalld/memory"
	"recalld/sqlite"
	"recalld/sqlite/powercut"
)

// TestFailingDisk makes each kind of call fail, early and late, while records are
// stored: a store that failed says so, what was acknowledged stays, reads go on,
// and once the disk is well again so do writes.
// DECISIONS 13, DECISIONS 32
func TestFailingDisk(t *testing.T) {
	for name, fault := range map[string]powercut.Fault{
		"log cannot be written":  {Operation: powercut.Write, Suffix: "-wal", Failure: powercut.IOError},
		"log does not fit":       {Operation: powercut.Write, Suffix: "-wal", Failure: powercut.DiskFull},
		"log fits in part":       {Operation: powercut.Write, Suffix: "-wal", Skip: 7, Failure: powercut.DiskFull},
		"log is not synced":      {Operation: powercut.Sync, Suffix: "-wal", Failure: powercut.IOError},
		"log is not synced once": {Operation: powercut.Sync, Suffix: "-wal", Skip: 2, Times: 1, Failure: powercut.IOError},
		"file cannot be written": {Operation: powercut.Write, Suffix: ".db", Failure: powercut.IOError},
		"file does not grow":     {Operation: powercut.Write, Suffix: ".db", Skip: 3, Failure: powercut.DiskFull},
		"file is not synced":     {Operation: powercut.Sync, Suffix: ".db", Failure: powercut.IOError},
		"log cannot be emptied":  {Operation: powercut.Truncate, Failure: powercut.IOError},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			s, path := openStore(t, sqlite.Options{Clock: fixed})
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			disk, err := powercut.Open(filepath.Dir(path))
			if err != nil {
				t.Fatal(err)
			}
			s, err = sqlite.Open(ctx, path, sqlite.Options{Clock: fixed, VFS: disk.Name(), Readers: 1})
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]bool{} // by content; false: refused, or deleted
			put := func(content string) error {
				r, err := s.StoreMemories(ctx, []sqlite.NewMemory{{Cell: cell("a", "", ""), Content: content}})
				want[content] = err == nil && r[0].Outcome == sqlite.OutcomeStored
				if err == nil && r[0].Outcome != sqlite.OutcomeStored {
					t.Errorf("%s: %+v", content, r[0])
				}
				return err
			}
			holds := func(s *sqlite.Store) {
				t.Helper()
				v, err := s.ViewRecords(ctx)
				if err != nil {
					t.Fatal(err)
				}
				defer v.Close()
				list, err := v.List(memory.Scope{Agent: "a"}, sqlite.Filter{Kind: memory.KindMemory, Limit: 1000})
				if err != nil {
					t.Fatal(err)
				}
				got := map[string]bool{}
				for _, r := range list {
					got[r.Content] = true
				}
				for content, stored := range want {
					if got[content] != stored {
						t.Errorf("%q is there: %v, want %v", content, got[content], stored)
					}
				}
			}
			for i := range 3 {
				if err := put(fmt.Sprint("before ", i)); err != nil {
					t.Fatal(err)
				}
			}
			refused := 0
			disk.Inject(fault)
			for i := range 5 {
				err := put(fmt.Sprint("meanwhile ", i))
				if err != nil {
					refused++
				}
				if fault.Failure == powercut.DiskFull && err != nil && !errors.Is(err, memory.ErrFull) {
					t.Errorf("a full disk is called %v", err)
				}
				holds(s)
			}
			if (refused > 0) != (fault.Suffix == "-wal") {
				t.Errorf("%d of 5 stores were refused", refused)
			}
			// A deletion empties the log into the file, which reaches the other faults.
			if r, err := s.Delete(ctx, "a", []memory.Ref{mem(1)}); err == nil && r[0].Outcome == sqlite.OutcomeDeleted {
				want["before 0"] = false
			}
			holds(s)
			disk.Heal()
			for i := range 3 {
				if err := put(fmt.Sprint("after ", i)); err != nil {
					t.Error(err)
				}
			}
			holds(s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := disk.Close(); err != nil {
				t.Fatal(err)
			}
			s = reopen(t, path, sqlite.Options{Clock: fixed})
			holds(s)
			sound(t, s)
		})
	}
}
