package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"recalld/memory"
	"recalld/sqlite"
)

func errorIs(err, target error) bool { return errors.Is(err, target) }

// TestStoreDeduplicates walks through RR-444: a known message id in the visible
// projects and an equal text in the visible cells are skipped, and nothing else.
// RR-444, DECISIONS 11
func TestStoreDeduplicates(t *testing.T) {
	type step struct {
		cell       memory.Cell
		content    string
		messageID  string
		onConflict string
		outcome    string
		existing   int64
	}
	for name, steps := range map[string][]step{
		"equal text in the cell": {
			{cell("a", "p", "c"), "x", "", "", "stored", 0},
			{cell("a", "p", "c"), "x", "", "", "skipped", 1},
			{cell("a", "p", "c"), "x ", "", "", "stored", 0},
		},
		"equal text in the global pool and without channel": {
			{cell("a", "", ""), "x", "", "", "stored", 0},
			{cell("a", "p", ""), "x", "", "", "skipped", 1},
			{cell("a", "p", "c"), "x", "", "", "skipped", 1},
			{cell("a", "", "c"), "x", "", "", "skipped", 1},
		},
		"equal text where not everybody sees it": {
			{cell("a", "p", "c"), "x", "", "", "stored", 0},
			{cell("a", "p", "d"), "x", "", "", "stored", 0},
			{cell("a", "q", "c"), "x", "", "", "stored", 0},
			{cell("a", "p", ""), "x", "", "", "stored", 0},
			{cell("a", "", ""), "x", "", "", "stored", 0},
			{cell("b", "p", "c"), "x", "", "", "stored", 0},
		},
		"known message id": {
			{cell("a", "p", "c"), "x", "m1", "", "stored", 0},
			{cell("a", "p", "d"), "y", "m1", "", "skipped", 1},
			{cell("a", "q", "c"), "y", "m1", "", "stored", 0},
			{cell("b", "p", "c"), "y", "m1", "", "stored", 0},
		},
		"message id known in the global pool": {
			{cell("a", "", ""), "x", "m1", "skip", "stored", 0},
			{cell("a", "p", ""), "y", "m1", "skip", "skipped", 1},
		},
		"versions": {
			{cell("a", "p", ""), "one", "m1", "version", "stored", 0},
			{cell("a", "p", ""), "one", "m1", "version", "skipped", 1},
			{cell("a", "p", ""), "two", "m1", "version", "versioned", 1},
			{cell("a", "p", ""), "one", "m1", "version", "versioned", 2},
			{cell("a", "p", ""), "three", "m1", "skip", "skipped", 3},
			{cell("a", "p", ""), "two", "", "", "stored", 0}, // only heads count
			{cell("a", "p", ""), "one", "", "", "skipped", 3},
		},
		"a version beside an equal text": {
			{cell("a", "p", ""), "yes", "m1", "", "stored", 0},
			{cell("a", "p", ""), "no", "m2", "", "stored", 0},
			{cell("a", "p", ""), "yes", "m2", "version", "versioned", 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := openStore(t, sqlite.Options{Clock: fixed})
			next := int64(1)
			for i, step := range steps {
				r := store(t, s, sqlite.NewMemory{Cell: step.cell, Content: step.content, MessageID: step.messageID, OnConflict: step.onConflict})[0]
				want := sqlite.StoreResult{Outcome: step.outcome}
				if step.existing > 0 {
					want.Existing = mem(step.existing)
				}
				if step.outcome != "skipped" {
					want.Ref = mem(next)
					next++
				}
				if r != want {
					t.Fatalf("step %d: %+v, want %+v", i+1, r, want)
				}
			}
			sound(t, s)
		})
	}
}

// TestVersionChain: every version stays, points to the next, and a deleted one
// gives its place to the one before it.
// DECISIONS 11, RR-465
func TestVersionChain(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Clock: fixed})
	for _, text := range []string{"one", "two", "three"} {
		store(t, s, sqlite.NewMemory{Cell: cell("a", "p", ""), Content: text, MessageID: "m", OnConflict: "version"})
	}
	chain := func() string {
		var b strings.Builder
		for _, r := range recall(t, s, "a", mem(1), mem(2), mem(3)) {
			fmt.Fprintf(&b, "%s v%d", r.Content, r.Version)
			if r.SupersededBy != (memory.Ref{}) {
				fmt.Fprintf(&b, " -> %s", r.SupersededBy)
			}
			b.WriteString("; ")
		}
		return b.String()
	}
	if got, want := chain(), "one v1 -> mem:2; two v2 -> mem:3; three v3; "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if _, err := s.Delete(context.Background(), "a", []memory.Ref{mem(2)}); err != nil {
		t.Fatal(err)
	}
	if got, want := chain(), "one v1 -> mem:3; three v3; "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if _, err := s.Delete(context.Background(), "a", []memory.Ref{mem(3)}); err != nil {
		t.Fatal(err)
	}
	if got, want := chain(), "one v1; "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	sound(t, s)
}

// TestRefusedItemHurtsNoOther: each item stands in a savepoint of its own.
// DECISIONS 13
func TestRefusedItemHurtsNoOther(t *testing.T) {
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	id := model(t, s, 2)
	// The database itself refuses this text, after the row's index entries and its
	// cell have been written.
	foreign(t, path, `CREATE TRIGGER refuse AFTER INSERT ON memory WHEN new.content = 'refused' BEGIN SELECT RAISE(FAIL, 'refused'); END`)
	r := store(t, s,
		sqlite.NewMemory{Cell: cell("a", "p", ""), Content: "before"},
		sqlite.NewMemory{Cell: cell("a", "new", ""), Content: "refused"},
		sqlite.NewMemory{Cell: cell("a", "other", ""), Content: "wrong width", Vector: []float32{1}, Model: id},
		sqlite.NewMemory{Cell: cell("a", "new", ""), Content: "after"},
	)
	for i, want := range []string{"stored", "rejected", "rejected", "stored"} {
		if r[i].Outcome != want || (r[i].Err != nil) != (want == "rejected") {
			t.Errorf("item %d: %+v, want %s", i, r[i], want)
		}
	}
	foreign(t, path, "DROP TRIGGER refuse")
	list, err := view(t, s).List(memory.Scope{Agent: "a"}, sqlite.Filter{Kind: memory.KindMemory, Limit: 10})
	if err != nil || len(list) != 2 || list[0].Content != "before" || list[1].Content != "after" {
		t.Errorf("%v, %v", list, err)
	}
	sound(t, s, "foreign_writer", "missing_vectors")
}

// TestStoreRefuses: a bad field is named, and nothing is written.
func TestStoreRefuses(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Clock: fixed})
	good := sqlite.NewMemory{Cell: cell("a", "", ""), Content: "good"}
	for field, change := range map[string]func(*sqlite.NewMemory){
		"agent":       func(m *sqlite.NewMemory) { m.Cell.Agent = "" },
		"project":     func(m *sqlite.NewMemory) { m.Cell.Project = "a\u202eb" },
		"channel":     func(m *sqlite.NewMemory) { m.Cell.Channel = "a\nb" },
		"content":     func(m *sqlite.NewMemory) { m.Content = " \n" },
		"message_id":  func(m *sqlite.NewMemory) { m.MessageID = strings.Repeat("m", memory.MaxMessageID+1) },
		"on_conflict": func(m *sqlite.NewMemory) { m.OnConflict = "version" },
		"source.id":   func(m *sqlite.NewMemory) { m.Source.ID = "\xff" },
		"source":      func(m *sqlite.NewMemory) { m.Source = memory.Source{ID: strings.Repeat("s", 7_999), Name: "ab"} },
		"metadata":    func(m *sqlite.NewMemory) { m.Metadata = json.RawMessage(`[1]`) },
		"model":       func(m *sqlite.NewMemory) { m.Vector, m.Model = []float32{1}, 7 },
	} {
		bad := good
		change(&bad)
		r := store(t, s, bad)[0]
		var f *memory.FieldError
		if r.Outcome != "rejected" || !errors.As(r.Err, &f) || f.Field != field {
			t.Errorf("%s: %+v", field, r)
		}
	}
	for field, content := range map[string]string{"NUL": "a\x00b", "invalid UTF-8": "a\xffb", "too long": strings.Repeat("長", memory.CeilingMaxContent+1)} {
		bad := good
		bad.Content = content
		if r := store(t, s, bad)[0]; !errors.Is(r.Err, memory.ErrInvalid) {
			t.Errorf("%s: %+v", field, r)
		}
	}
	if st, err := s.Stats(context.Background()); err != nil || st.Memories != 0 || st.Cells != 0 {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestConcurrentEqualStores: of many equal stores at one time exactly one is
// stored.
// RR-444
func TestConcurrentEqualStores(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{})
	var mu sync.Mutex
	outcomes := map[string]int{}
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for j := range 5 {
				r, err := s.StoreMemories(context.Background(), []sqlite.NewMemory{{Cell: cell("a", "", ""), Content: fmt.Sprint("fact ", j), MessageID: fmt.Sprint(i % 2)}})
				mu.Lock()
				if err != nil {
					outcomes[err.Error()]++
				} else {
					outcomes[r[0].Outcome]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if outcomes["stored"] != 2 || outcomes["skipped"] != 158 {
		t.Error(outcomes)
	}
	st, err := s.Stats(context.Background())
	if err != nil || st.Memories != 2 {
		t.Errorf("%+v, %v", st, err)
	}
	sound(t, s)
}

// TestRecordIsKept: every field of both kinds comes back as it was given.
func TestRecordIsKept(t *testing.T) {
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	ctx := context.Background()
	when, err := memory.ParseTime("time", "2026-02-03T04:05:06.789-03:30")
	if err != nil {
		t.Fatal(err)
	}
	until, err := memory.ParseTime("time", "9999-12-31T23:59:59Z")
	if err != nil {
		t.Fatal(err)
	}
	m := sqlite.NewMemory{
		Cell: cell("エージェント", "项目", "#general"), Content: "  改行と\n空白も\tそのまま 🍣  ", MessageID: "id-1", Locked: true,
		Source: memory.Source{Type: "chat", ID: "s-9", Name: "健"}, Metadata: json.RawMessage(`{"b":1,"a":[null]}`), Time: when,
	}
	e := sqlite.NewEpisode{Cell: m.Cell, Summary: "会议纪要", Keywords: []string{"预算", "two words"}, Start: when, End: until, Resolved: true}
	store(t, s, m)
	if _, err := s.StoreEpisodes(ctx, []sqlite.NewEpisode{e}); err != nil {
		t.Fatal(err)
	}
	if err := s.AddRecalls(ctx, []sqlite.Recalls{{Ref: mem(1), Count: 1, Last: when}, {Ref: ep(1), Count: 1, Last: when}, {Ref: mem(77), Count: 1, Last: when}}); err != nil {
		t.Fatal(err)
	}
	earlier := memory.Time{Milli: when.Milli - 1, Offset: when.Offset + 60, Known: true}
	if err := s.AddRecalls(ctx, []sqlite.Recalls{{Ref: mem(1), Count: 2, Last: earlier}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, path, sqlite.Options{Clock: fixed})
	got := recall(t, s, m.Cell.Agent, ep(1), mem(1))
	now := memory.TimeOf(fixed())
	want := []memory.Record{
		{Ref: ep(1), Cell: e.Cell, Content: e.Summary, Version: 1, Keywords: e.Keywords, Time: when, End: until, Resolved: true, Created: now, Updated: now, RecallCount: 1, LastRecalled: when},
		{Ref: mem(1), Cell: m.Cell, Content: m.Content, MessageID: "id-1", Version: 1, Source: m.Source, Metadata: m.Metadata, Time: when, Created: now, Updated: now, Locked: true, RecallCount: 3, LastRecalled: when},
	}
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Errorf("got  %s\nwant %s", g, w)
	}
	sound(t, s)
}
