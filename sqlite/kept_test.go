package sqlite_test

import (
	"fmt"
	"strings"
	"testing"

	"recalld/memory"
	"recalld/sqlite"
)

func numbered(id, above int64, content string) sqlite.NewMemory {
	return sqlite.NewMemory{Cell: cell("a", "", ""), Content: content, Kept: sqlite.Kept{ID: id, Above: above}}
}

// A number that a record brings along is kept when nothing here ever had it; the
// number of a deleted record never comes back.
// RR-444
func TestNumbersAreKeptOnlyWhenTheyWereNeverGivenOut(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{})
	store(t, s, numbered(0, 0, "one"), numbered(0, 0, "two"))
	if _, err := s.Delete(t.Context(), "a", []memory.Ref{mem(2)}); err != nil {
		t.Fatal(err)
	}
	results := store(t, s,
		numbered(2, 0, "of a deleted one"),  // 3
		numbered(9, 0, "above all"),         // 9
		numbered(9, 2, "taken"),             // 10
		numbered(5, 0, "below, not said"),   // 11
		numbered(5, 2, "below, free since"), // 5
		numbered(2, 2, "the mark itself"),   // 12
		numbered(0, 0, "the next"),          // 13
	)
	var got []int64
	for _, r := range results {
		got = append(got, r.Ref.ID)
	}
	if want := "[3 9 10 11 5 12 13]"; fmt.Sprint(got) != want {
		t.Errorf("numbers %v, want %s", got, want)
	}
	if memories, episodes, err := view(t, s).Marks(); memories != 13 || episodes != 0 || err != nil {
		t.Errorf("marks %d and %d, %v", memories, episodes, err)
	}
	if r := try(t, s, numbered(sqlite.MaxKeptID+1, 0, "far")); r.Err == nil {
		t.Error("a number that would use all up is taken")
	}
	sound(t, s)
}

func try(t *testing.T, s *sqlite.Store, m sqlite.NewMemory) sqlite.StoreResult {
	t.Helper()
	results, err := s.TryMemories(t.Context(), []sqlite.NewMemory{m})
	if err != nil {
		t.Fatal(err)
	}
	return results[0]
}

// A record whose number the full-text index has gone past is in it all the same.
func TestALowNumberIsInTheFullTextIndex(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{})
	store(t, s, numbered(50, 0, "the harbour office"))
	for range 2 { // finding something brings the index up to date
		if found, _, err := view(t, s).Substring(memory.Scope{Agent: "a"}, "harbour", 10, ""); err != nil || len(found) != 1 {
			t.Fatalf("%v, %v", found, err)
		}
	}
	store(t, s, numbered(7, 1, "the harbour master, 港湾"))
	episodes := []sqlite.NewEpisode{{Cell: cell("a", "", ""), Summary: "the harbour week", Kept: sqlite.Kept{ID: 8, Recalls: 2, Recalled: memory.TimeOf(fixed())}}}
	if _, err := s.StoreEpisodes(t.Context(), episodes); err != nil {
		t.Fatal(err)
	}
	if found, _, err := view(t, s).Substring(memory.Scope{Agent: "a"}, "harbour", 10, ""); err != nil || len(found) != 2 {
		t.Errorf("%v, %v", found, err)
	}
	sound(t, s)
}

func TestRecallsAndTimesComeAlong(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{})
	at := func(text string) memory.Time {
		when, err := memory.ParseTime("t", text)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	created, updated, recalled := at("2025-01-01T00:00:00Z"), at("2025-02-01T00:00:00+09:00"), at("2026-01-01T00:00:00Z")
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "会議", Kept: sqlite.Kept{Created: created, Updated: updated, Recalls: 7, Recalled: recalled}},
		sqlite.NewMemory{Cell: cell("a", "", ""), Content: "created alone", Kept: sqlite.Kept{Created: created}})
	records := recall(t, s, "a", mem(1), mem(2))
	if r := records[0]; r.Created != created || r.Updated != updated || r.RecallCount != 7 || r.LastRecalled != recalled {
		t.Errorf("%+v", r)
	}
	if r := records[1]; r.Created != created || r.Updated != created || r.RecallCount != 0 {
		t.Errorf("%+v", r)
	}
}

// Versions that say their number go to their place, however often and in whatever
// part they come.
// RR-444
func TestVersionsComeToTheirPlace(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{})
	version := func(n int, content string) sqlite.NewMemory {
		return sqlite.NewMemory{Cell: cell("a", "", ""), Content: content, MessageID: "pool", OnConflict: sqlite.OnConflictVersion, Version: n}
	}
	shape := func(step, want string) {
		t.Helper()
		v, err := s.ViewRecords(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		records, err := v.List(memory.Scope{Agent: "a"}, sqlite.Filter{Kind: memory.KindMemory, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		by := map[memory.Ref]int{}
		for _, r := range records {
			by[r.Ref] = r.Version
		}
		var parts []string
		for n := range 20 {
			for _, r := range records {
				if r.Version == n {
					parts = append(parts, fmt.Sprintf("%d:%s>%d", n, r.Content, by[r.SupersededBy]))
				}
			}
		}
		if got := strings.Join(parts, " "); got != want {
			t.Errorf("%s: %s, want %s", step, got, want)
		}
	}
	history := []sqlite.NewMemory{version(1, "40"), version(2, "80"), version(3, "40")}
	store(t, s, history...)
	shape("once", "1:40>2 2:80>3 3:40>0")
	for _, r := range store(t, s, history...) {
		if r.Outcome != sqlite.OutcomeSkipped {
			t.Errorf("again: %+v", r)
		}
	}
	shape("again", "1:40>2 2:80>3 3:40>0")
	if _, err := s.Delete(t.Context(), "a", []memory.Ref{mem(2)}); err != nil {
		t.Fatal(err)
	}
	shape("one deleted", "1:40>3 3:40>0")
	store(t, s, version(2, "80"))
	shape("it comes back", "1:40>2 2:80>3 3:40>0")
	store(t, s, version(2, "90"))
	shape("its number is taken", "1:40>2 2:80>3 3:40>4 4:90>0")
	store(t, s, version(2, "90"))
	shape("it is there by another number", "1:40>2 2:80>3 3:40>4 4:90>0")
	store(t, s, version(9, "60"), version(0, "70"))
	shape("numbers have gaps", "1:40>2 2:80>3 3:40>4 4:90>9 9:60>10 10:70>0")
	sound(t, s)
}

// A trial answers what storing would, and leaves nothing: no record, no number, no
// change that an index would follow.
func TestATrialLeavesNothing(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{})
	store(t, s, numbered(0, 0, "会议在星期二。"))
	before := view(t, s).Seq()
	items := []sqlite.NewMemory{numbered(0, 0, "会议在星期二。"), numbered(0, 0, "new"), numbered(0, 0, "new"), numbered(0, 0, ""),
		{Cell: cell("other", "p", "c"), Content: "elsewhere"}}
	tried, err := s.TryMemories(t.Context(), items)
	if err != nil {
		t.Fatal(err)
	}
	episode := []sqlite.NewEpisode{{Cell: cell("other", "p", "c"), Summary: "週"}}
	if r, err := s.TryEpisodes(t.Context(), episode); err != nil || r[0].Outcome != sqlite.OutcomeStored {
		t.Errorf("%+v, %v", r, err)
	}
	stats, err := s.Stats(t.Context())
	if err != nil || stats.Memories != 1 || stats.Episodes != 0 || stats.Cells != 1 || stats.LastMemory != 1 || view(t, s).Seq() != before {
		t.Errorf("after the trial: %+v, change %d of %d, %v", stats, view(t, s).Seq(), before, err)
	}
	for i, r := range store(t, s, items[0], items[1], items[2], items[4]) {
		if at := []int{0, 1, 2, 4}[i]; tried[at].Outcome != r.Outcome {
			t.Errorf("item %d would be %s and is %s", at, tried[at].Outcome, r.Outcome)
		}
	}
	if tried[3].Outcome != sqlite.OutcomeRejected {
		t.Errorf("an empty text: %+v", tried[3])
	}
	sound(t, s)
}
