package sqlite_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"recalld/memory"
	"recalld/sqlite"
)

// DECISIONS 26: terminal is a property of a text. One that was edited while a
// model refused the old one stays in the queue.
func TestUnembeddableIsTheTextThatWasClaimed(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{})
	ctx := context.Background()
	m := model(t, s, 1)
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "旧い文", Queue: []int64{m}})
	tasks, err := s.Claim(ctx, m, 1, time.Minute)
	if err != nil || len(tasks) != 1 {
		t.Fatalf("%v %v", tasks, err)
	}
	if _, err := s.Update(ctx, "a", memory.Ref{Kind: memory.KindMemory, ID: 1}, sqlite.Patch{Content: pointer("新的句子")}); err != nil {
		t.Fatal(err)
	}
	if err := s.MarkUnembeddable(ctx, []int64{tasks[0].ID}); err != nil {
		t.Fatal(err)
	}
	again, err := s.Claim(ctx, m, 1, time.Minute)
	if err != nil || len(again) != 1 || again[0].Text != "新的句子" {
		t.Errorf("claimed %v, %v, want the new text", again, err)
	}
}

// RR-397: a snapshot never misses a stored record in the full-text index,
// while other snapshots have records indexed beside it.
func TestSnapshotsBesideOthersMissNothing(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{})
	ctx := context.Background()
	scope := memory.Scope{Agent: "a"}
	stop := make(chan struct{})
	var beside sync.WaitGroup
	for range 3 {
		beside.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if v, err := s.View(ctx); err == nil {
					v.Close()
				}
			}
		})
	}
	defer func() { close(stop); beside.Wait() }()
	for i := range 300 {
		store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "unicorn number " + time.Duration(i).String()})
		v, err := s.View(ctx)
		if err != nil {
			t.Fatal(err)
		}
		query := sqlite.BuildFTSQuery("unicorn")
		hits, _, err := v.MatchFTS(scope, memory.KindMemory, query, 1000, "")
		if err := errors.Join(err, v.Close()); err != nil || len(hits) != i+1 {
			t.Fatalf("%d of %d stored records found, %v", len(hits), i+1, err)
		}
	}
}
