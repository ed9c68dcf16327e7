package sqlite_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"recalld/memory"
	"recalld/sqlite"
)

// TestLogIsLimited: with readers coming and going the log is emptied whenever it
// passes its limit, because new snapshots wait for the moment that takes.
// DECISIONS 13
func TestLogIsLimited(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Clock: fixed, Readers: 4})
	ctx := context.Background()
	const limit = 4 << 20
	if err := s.LimitLog(ctx, limit); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 { // snapshots overlap, so that the log is never free by itself
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				v, err := s.ViewRecords(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := v.Recent(memory.Scope{Agent: "a"}, []memory.Kind{memory.KindMemory}, 50); err != nil {
					t.Error(err)
				}
				v.Close()
			}
		})
	}
	largest := int64(0)
	for i := range 150 {
		store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: fmt.Sprint(i, strings.Repeat(" words and words", 2000))})
		st, err := s.Stats(ctx)
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, st.WALBytes)
	}
	close(stop)
	wg.Wait()
	if largest > 2*limit {
		t.Errorf("the log grew to %d bytes", largest)
	}
	if st, err := s.Stats(ctx); err != nil || st.FileBytes < 2*limit {
		t.Errorf("%+v, %v: the test wrote too little to mean anything", st, err)
	}
}

// TestLongReaderDoesNotStopTheRest: a snapshot that stays open keeps the log, but
// neither writes nor other readers wait for it.
// DECISIONS 13
func TestLongReaderDoesNotStopTheRest(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Clock: fixed, Readers: 2})
	ctx := context.Background()
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "first"})
	long := view(t, s)
	if err := s.LimitLog(ctx, 1); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: fmt.Sprint(i)})
		if got := recall(t, s, "a", mem(int64(i+2))); len(got) != 1 {
			t.Fatal("a new snapshot does not see what was stored before it")
		}
	}
	if got, err := long.Hydrate(memory.Scope{Agent: "a"}, []memory.Ref{mem(1), mem(2)}); err != nil || len(got) != 1 {
		t.Errorf("the old snapshot sees %d records, %v", len(got), err)
	}
	if st, err := s.Stats(ctx); err != nil || st.WALBytes == 0 {
		t.Errorf("%+v, %v", st, err)
	}
	long.Close()
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "last"})
	view(t, s).Close()                         // nothing waits for the full-text index
	if err := s.LimitLog(ctx, 1); err != nil { // the writer is through with the store before
		t.Fatal(err)
	}
	if st, err := s.Stats(ctx); err != nil || st.WALBytes != 0 {
		t.Errorf("the log has %d bytes after the last reader left, %v", st.WALBytes, err)
	}
}

// TestGroupCommit: writes that wait behind one commit share the next one.
// DECISIONS 13
func TestGroupCommit(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Clock: fixed})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 20 {
				store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: fmt.Sprint(i, " ", j)})
			}
		})
	}
	wg.Wait()
	st, err := s.Stats(context.Background())
	if err != nil || st.Memories != 320 || st.Writes < 320 || st.Commits > st.Writes/2 {
		t.Errorf("%d writes took %d commits, %v", st.Writes, st.Commits, err)
	}
}
