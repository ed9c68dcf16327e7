package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"recalld/memory"
	"recalld/sqlite"
)

// TestTextChangeDropsVectors: a changed text loses its vectors and is queued for
// their models again; a retag keeps them.
// BR-095, BR-096
func TestTextChangeDropsVectors(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Clock: fixed})
	ctx := context.Background()
	m := model(t, s, 2)
	store(t, s, sqlite.NewMemory{Cell: cell("a", "p", ""), Content: "old", Vector: []float32{1, 0}, Model: m})
	if _, err := s.StoreEpisodes(ctx, []sqlite.NewEpisode{{Cell: cell("a", "p", ""), Summary: "old", Vector: []float32{1, 0}, Model: m}}); err != nil {
		t.Fatal(err)
	}
	state := func() string {
		v := view(t, s)
		defer v.Close()
		vectors, err := v.VectorsOf(m, []memory.Ref{mem(1), ep(1)})
		if err != nil {
			t.Fatal(err)
		}
		q, err := v.QueueStats(m)
		if err != nil {
			t.Fatal(err)
		}
		st, err := v.Stats(memory.Scope{Agent: "a"})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(len(vectors), " vectors, ", st.Embedded[m], " counted, ", q.Pending, " queued")
	}
	for _, ref := range []memory.Ref{mem(1), ep(1)} {
		if _, err := s.Update(ctx, "a", ref, sqlite.Patch{Project: pointer("q"), Channel: pointer("c"), Content: pointer("old")}); err != nil {
			t.Fatal(err)
		}
	}
	if got := state(); got != "2 vectors, 2 counted, 0 queued" {
		t.Errorf("after the retag: %s", got)
	}
	sound(t, s)
	for _, ref := range []memory.Ref{mem(1), ep(1)} {
		r, err := s.Update(ctx, "a", ref, sqlite.Patch{Content: pointer("new")})
		if err != nil || r.Content != "new" || r.Cell != cell("a", "q", "c") {
			t.Fatal(r, err)
		}
	}
	if got := state(); got != "0 vectors, 0 counted, 2 queued" {
		t.Errorf("after the change: %s", got)
	}
	if _, err := s.Update(ctx, "a", mem(1), sqlite.Patch{Content: pointer("newer"), Vector: []float32{0, 1}, Model: m}); err != nil {
		t.Fatal(err)
	}
	if got := state(); got != "1 vectors, 1 counted, 1 queued" {
		t.Errorf("after a change with its vector: %s", got)
	}
	sound(t, s)
}

// TestUpdateInPlace: fields change alone, duplicates and locked records are
// refused, and a refusal changes nothing.
// DECISIONS 11
func TestUpdateInPlace(t *testing.T) {
	now := fixed()
	s, _ := openStore(t, sqlite.Options{Clock: func() time.Time { return now }})
	ctx := context.Background()
	store(t, s,
		sqlite.NewMemory{Cell: cell("a", "p", ""), Content: "first", MessageID: "m1", Time: memory.TimeOf(now)},
		sqlite.NewMemory{Cell: cell("a", "p", ""), Content: "second"},
		sqlite.NewMemory{Cell: cell("a", "q", ""), Content: "third", MessageID: "m1"},
		sqlite.NewMemory{Cell: cell("a", "p", ""), Content: "fourth", Locked: true},
	)
	now = now.Add(time.Hour)
	meta := json.RawMessage(`{"k":"v"}`)
	r, err := s.Update(ctx, "a", mem(1), sqlite.Patch{Metadata: &meta, Source: &memory.Source{ID: "s"}, Time: &memory.Time{}})
	if err != nil {
		t.Fatal(err)
	}
	if string(r.Metadata) != `{"k":"v"}` || r.Source.ID != "s" || !r.Time.IsZero() || r.Content != "first" || r.Updated != memory.TimeOf(fixed()) {
		t.Errorf("%+v", r)
	}
	if r, err = s.Update(ctx, "a", mem(1), sqlite.Patch{Content: pointer("changed")}); err != nil || r.Updated != memory.TimeOf(now) {
		t.Errorf("%+v, %v", r, err)
	}
	if got := recall(t, s, "a", mem(1))[0]; fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", r) {
		t.Errorf("stored %+v, returned %+v", got, r)
	}
	for what, c := range map[string]struct {
		ref   memory.Ref
		patch sqlite.Patch
		err   error
	}{
		"text of another":           {mem(1), sqlite.Patch{Content: pointer("second")}, memory.ErrInvalid},
		"message id of another":     {mem(1), sqlite.Patch{Project: pointer("q")}, memory.ErrInvalid},
		"locked":                    {mem(4), sqlite.Patch{Content: pointer("x")}, memory.ErrLocked},
		"blank":                     {mem(1), sqlite.Patch{Content: pointer(" ")}, memory.ErrInvalid},
		"keywords of a memory":      {mem(1), sqlite.Patch{Keywords: &[]string{"x"}}, memory.ErrInvalid},
		"unknown":                   {mem(9), sqlite.Patch{Content: pointer("x")}, memory.ErrNotFound},
		"control character":         {mem(1), sqlite.Patch{Channel: pointer("a\x01")}, memory.ErrInvalid},
		"metadata is not an object": {mem(1), sqlite.Patch{Metadata: pointer(json.RawMessage(`"x"`))}, memory.ErrInvalid},
	} {
		if _, err := s.Update(ctx, "a", c.ref, c.patch); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := recall(t, s, "a", mem(1))[0]; fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", r) {
		t.Errorf("a refusal changed %+v into %+v", r, got)
	}
	if d, err := s.Delete(ctx, "a", []memory.Ref{mem(4), mem(2)}); err != nil || d[0].Outcome != sqlite.OutcomeLocked || d[1].Outcome != sqlite.OutcomeDeleted {
		t.Errorf("%v, %v", d, err)
	}
	if l, err := s.SetLocked(ctx, "a", []memory.Ref{mem(4)}, false); err != nil || len(l.Done) != 1 {
		t.Errorf("%v, %v", l, err)
	}
	if d, err := s.Delete(ctx, "a", []memory.Ref{mem(4)}); err != nil || d[0].Outcome != sqlite.OutcomeDeleted {
		t.Errorf("%v, %v", d, err)
	}
	sound(t, s)
}

// TestEpisodeEndsAfterItStarts: neither a store nor an update makes an episode
// that ends before it starts, which no import would take back.
func TestEpisodeEndsAfterItStarts(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Clock: fixed})
	ctx := context.Background()
	at := func(milli int64) memory.Time { return memory.Time{Milli: milli, Known: true} }
	results, err := s.StoreEpisodes(ctx, []sqlite.NewEpisode{
		{Cell: cell("a", "", ""), Summary: "backwards", Start: at(2), End: at(1)},
		{Cell: cell("a", "", ""), Summary: "of one instant", Start: at(5), End: at(5)},
	})
	if err != nil || !errors.Is(results[0].Err, memory.ErrInvalid) || results[1].Ref != ep(1) {
		t.Fatalf("%+v, %v", results, err)
	}
	var refused *memory.FieldError
	if _, err := s.Update(ctx, "a", ep(1), sqlite.Patch{Time: pointer(at(6))}); !errors.As(err, &refused) || refused.Field != "time" {
		t.Errorf("a start behind the end: %v", err)
	}
	if _, err := s.Update(ctx, "a", ep(1), sqlite.Patch{End: pointer(at(4))}); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("an end before the start: %v", err)
	}
	if r, err := s.Update(ctx, "a", ep(1), sqlite.Patch{Time: pointer(at(6)), End: pointer(at(7))}); err != nil || r.Time != at(6) || r.End != at(7) {
		t.Errorf("both moved: %+v, %v", r, err)
	}
}
