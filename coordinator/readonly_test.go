package coordinator

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"recalld/memory"
	"recalld/sqlite"
)

// Issue, Bad input: over a file that cannot be written everything that reads
// goes on, and everything that writes says so and changes nothing.
func TestReadOnlyFile(t *testing.T) {
	b := open(t, nil)
	ref := b.put("mia", days()...)[0]
	want := b.ask("staging database")
	b.down()
	store, err := sqlite.Open(t.Context(), b.path, sqlite.Options{ReadOnly: true, Clock: b.clock})
	if err != nil {
		t.Fatal(err)
	}
	b.cfg.Store, b.store = store, store
	if b.Coordinator, err = New(t.Context(), b.cfg); err != nil {
		t.Fatal(err)
	}
	if got := b.ask("staging database"); !slices.Equal(refsIn(got.Rows), refsIn(want.Rows)) || !got.Coverage.Full {
		t.Errorf("got %v, want %v", refsIn(got.Rows), refsIn(want.Rows))
	}
	if a := b.contents(ref); len(a.Rows) != 1 {
		t.Errorf("contents: %s", encode(t, a))
	}
	ctx := t.Context()
	for what, err := range map[string]error{
		"store":   second(b.Store(ctx, StoreRequest{Agent: "mia", Items: []StoreItem{say("new")}})),
		"update":  second(b.Update(ctx, UpdateRequest{Agent: "mia", Ref: ref, Content: pointer("new")})),
		"delete":  second(b.Delete(ctx, DeleteRequest{Agent: "mia", Refs: []string{ref}})),
		"lock":    second(b.Lock(ctx, LockRequest{Agent: "mia", Refs: []string{ref}, Locked: true})),
		"profile": second(b.PutProfile(ctx, ProfileRequest{Agent: "mia", UserID: "u", Content: "x"})),
		"setting": second(b.SetSetting(ctx, "recall.depth", "50")),
	} {
		if !errors.Is(err, memory.ErrReadOnly) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if b.policy().Depth != 100 {
		t.Error("a setting that was not stored is in force")
	}
}

// RR-071, ARCHITECTURE 6: a caller who is gone stops the work; closing waits for
// what runs and leaves nothing behind.
func TestCancelAndClose(t *testing.T) {
	b := open(t, nil)
	b.put("mia", days()...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Recall(ctx, RecallRequest{Agent: "mia", Query: "staging"}); err == nil {
		t.Error("a cancelled recall answers")
	}
	if _, err := b.Store(ctx, StoreRequest{Agent: "mia", Items: []StoreItem{say("never")}}); err == nil {
		t.Error("a cancelled store is acknowledged")
	}
	if s := b.status(); s.Memories != 8 {
		t.Errorf("%d memories", s.Memories)
	}
	done := make(chan error, 1)
	go func() { done <- b.Coordinator.Close() }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Close hangs")
	}
	if err := b.Coordinator.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}
