package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"recalld/memory"
	"recalld/sqlite"
)

func setsOf(m int64) func(sqlite.BlockRecord) sqlite.BlockOutcome {
	return func(rec sqlite.BlockRecord) sqlite.BlockOutcome {
		if memory.Len(rec.Text) < 10 {
			return sqlite.BlockOutcome{}
		}
		b := setOf(rec.Ref, m, rec.Text, 2+memory.Len(rec.Text)%3, memory.Len(rec.Text), 9)
		return sqlite.BlockOutcome{Set: &b}
	}
}

func notes(agent string, from, to int) (items []sqlite.NewMemory) {
	for i := from; i <= to; i++ {
		items = append(items, sqlite.NewMemory{Cell: cell(agent, "", ""), Content: fmt.Sprintf("A long note, number %d.", i)})
	}
	return items
}

func refsOf(b sqlite.BlockBatch) (refs []string) {
	for _, r := range b.Records {
		refs = append(refs, r.Ref.String())
	}
	return refs
}

func next(t testing.TB, s *sqlite.Store, m int64, limit, chars int) sqlite.BlockBatch {
	t.Helper()
	b, err := s.NextBlocks(context.Background(), m, limit, chars)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func finish(t testing.TB, s *sqlite.Store, b sqlite.BlockBatch, outcomes ...sqlite.BlockOutcome) int {
	t.Helper()
	built, err := s.FinishBlocks(context.Background(), b, outcomes)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func outcomes(b sqlite.BlockBatch, of func(sqlite.BlockRecord) sqlite.BlockOutcome) (all []sqlite.BlockOutcome) {
	for _, r := range b.Records {
		all = append(all, of(r))
	}
	return all
}

// TestOrderOfWork: what changed goes first, then what is new, then what there was;
// a restart goes on where the last published batch ended, and nothing is looked
// at twice.
// BR-109, BR-111, BR-112, BR-105
func TestOrderOfWork(t *testing.T) {
	ctx := context.Background()
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	m := measured(t, s, 9)
	store(t, s, notes("a", 1, 5)...)
	if _, err := s.StoreEpisodes(ctx, []sqlite.NewEpisode{{Cell: cell("a", "", ""), Summary: long}}); err != nil {
		t.Fatal(err)
	}
	if err := s.BeginBlocks(ctx, m); err != nil {
		t.Fatal(err)
	}
	step := func(limit int, want ...string) {
		t.Helper()
		b := next(t, s, m, limit, 1_000)
		if got := refsOf(b); !slices.Equal(got, want) {
			t.Fatalf("looked at %v, want %v", got, want)
		}
		finish(t, s, b, outcomes(b, setsOf(m))...)
		if err := s.BeginBlocks(ctx, m); err != nil { // changes nothing any more
			t.Fatal(err)
		}
	}
	step(2, "ep:1")
	step(2, "mem:1", "mem:2")
	store(t, s, notes("a", 6, 7)...)
	if _, err := s.Update(ctx, "a", mem(1), sqlite.Patch{Content: pointer("changed since, and long enough")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(ctx, "a", mem(4), sqlite.Patch{Content: pointer("changed before its turn came")}); err != nil {
		t.Fatal(err)
	}
	step(9, "mem:1")
	step(1, "mem:6")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, path, sqlite.Options{Clock: fixed})
	lost := next(t, s, m, 9, 1_000) // whoever took this batch died with it
	if !slices.Equal(refsOf(lost), []string{"mem:7"}) {
		t.Errorf("%v", refsOf(lost))
	}
	step(9, "mem:7")
	step(2, "mem:3", "mem:4")
	if _, err := s.Delete(ctx, "a", []memory.Ref{mem(5)}); err != nil {
		t.Fatal(err)
	}
	b := next(t, s, m, 2, 1_000)
	finish(t, s, b, outcomes(b, setsOf(m))...)
	step(2)
	if p, err := s.BlockProgress(ctx, m); err != nil || p != (sqlite.BlockProgress{Sets: 7, Blocks: p.Blocks}) {
		t.Errorf("%+v, %v", p, err)
	}
	// BR-112: the cursor is ids and nothing else.
	if got := rows(t, path, "SELECT * FROM block_mark ORDER BY kind"); !slices.Equal(got, []string{
		"model=1 kind=1 policy=1 done=1 backlog=1 fresh=1", "model=1 kind=2 policy=1 done=5 backlog=5 fresh=7"}) {
		t.Errorf("%v", got)
	}
	sound(t, s, "missing_vectors")
}

// TestBatchIsBounded: by records and by code points, between records and never
// before the first.
// BR-113, BR-114, BR-116
func TestBatchIsBounded(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Clock: fixed})
	m := measured(t, s, 9)
	for i, n := range []int{50, 10, 10, 21, 10, 30, 1, 1, 1, 1} {
		store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: strings.Repeat("語", n-1) + string(rune('a'+i))})
	}
	if err := s.BeginBlocks(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	var got []int
	for {
		b := next(t, s, m, 3, 40)
		if b.Empty() {
			break
		}
		got = append(got, len(b.Records))
		finish(t, s, b, outcomes(b, setsOf(m))...)
	}
	if fmt.Sprint(got) != "[1 2 2 3 2]" {
		t.Errorf("batches of %v records", got)
	}
}

// TestEditWhileBuilding: a set is published only for the text that was split;
// whatever happened to a record meanwhile, it is looked at again or gone.
// BR-103, BR-106
func TestEditWhileBuilding(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		meanwhile func(t *testing.T, s *sqlite.Store)
		built     int
		again     []string
	}{
		"nothing": {func(*testing.T, *sqlite.Store) {}, 2, nil},
		"text": {func(t *testing.T, s *sqlite.Store) {
			if _, err := s.Update(ctx, "a", mem(2), sqlite.Patch{Content: pointer("it has become another text")}); err != nil {
				t.Fatal(err)
			}
		}, 1, []string{"mem:2"}},
		"text there and back": {func(t *testing.T, s *sqlite.Store) {
			for _, text := range []string{"it has become another text", "A long note, number 2."} {
				if _, err := s.Update(ctx, "a", mem(2), sqlite.Patch{Content: &text}); err != nil {
					t.Fatal(err)
				}
			}
		}, 2, nil},
		"short to long": {func(t *testing.T, s *sqlite.Store) {
			if _, err := s.Update(ctx, "a", mem(3), sqlite.Patch{Content: pointer("no longer short")}); err != nil {
				t.Fatal(err)
			}
		}, 2, []string{"mem:3"}},
		"cell": {func(t *testing.T, s *sqlite.Store) {
			if _, err := s.Update(ctx, "a", mem(2), sqlite.Patch{Project: pointer("q")}); err != nil {
				t.Fatal(err)
			}
		}, 2, nil},
		"deletion": {func(t *testing.T, s *sqlite.Store) {
			if _, err := s.Delete(ctx, "a", []memory.Ref{mem(2)}); err != nil {
				t.Fatal(err)
			}
		}, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := openStore(t, sqlite.Options{Clock: fixed})
			m := measured(t, s, 9)
			store(t, s, append(notes("a", 1, 2), sqlite.NewMemory{Cell: cell("a", "", ""), Content: "short"})...)
			if err := s.BeginBlocks(ctx, m); err != nil {
				t.Fatal(err)
			}
			b := next(t, s, m, 9, 1_000)
			sets := outcomes(b, setsOf(m))
			c.meanwhile(t, s)
			if built := finish(t, s, b, sets...); built != c.built {
				t.Errorf("%d sets were published, want %d", built, c.built)
			}
			sound(t, s, "missing_vectors")
			b = next(t, s, m, 9, 1_000)
			if got := refsOf(b); !slices.Equal(got, c.again) {
				t.Errorf("looked at %v again, want %v", got, c.again)
			}
			finish(t, s, b, outcomes(b, setsOf(m))...)
			if b := next(t, s, m, 9, 1_000); !b.Empty() {
				t.Errorf("and %v once more", refsOf(b))
			}
			sound(t, s, "missing_vectors")
		})
	}
}

// TestFailedRecordWaits: a record that the model cannot answer for now is tried
// again when it is due, holds nobody up, and is counted; a batch that was ended
// early leaves the rest for the next one.
// BR-111, BR-114
func TestFailedRecordWaits(t *testing.T) {
	ctx := context.Background()
	var now atomic.Int64
	now.Store(fixed().UnixMilli())
	s, _ := openStore(t, sqlite.Options{Clock: func() time.Time { return time.UnixMilli(now.Load()) }})
	m := measured(t, s, 9)
	store(t, s, notes("a", 1, 4)...)
	if err := s.BeginBlocks(ctx, m); err != nil {
		t.Fatal(err)
	}
	due := time.UnixMilli(now.Load()).Add(time.Second)
	b := next(t, s, m, 9, 1_000)
	all := outcomes(b, setsOf(m))
	if built := finish(t, s, b, all[0], sqlite.BlockOutcome{Failure: "refused", NotBefore: due}); built != 1 {
		t.Errorf("%d", built)
	}
	if got := refsOf(next(t, s, m, 9, 1_000)); !slices.Equal(got, []string{"mem:3", "mem:4"}) {
		t.Fatalf("%v", got)
	}
	if p, err := s.BlockProgress(ctx, m); err != nil || p.Waiting != 3 || p.Failed != 1 || p.LastError != "refused" || p.Sets != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	now.Add(1_000)
	b = next(t, s, m, 9, 1_000)
	if len(b.Records) != 1 || b.Records[0].Ref != mem(2) || b.Records[0].Attempts != 1 {
		t.Fatalf("%+v", b.Records)
	}
	finish(t, s, b, sqlite.BlockOutcome{Failure: "refused again", NotBefore: due.Add(time.Hour)})
	if p, err := s.BlockProgress(ctx, m); err != nil || p.Failed != 1 || p.LastError != "refused again" {
		t.Errorf("%+v, %v", p, err)
	}
	// An edit forgets the failures.
	if _, err := s.Update(ctx, "a", mem(2), sqlite.Patch{Content: pointer("a text that is easier to embed")}); err != nil {
		t.Fatal(err)
	}
	if b = next(t, s, m, 9, 1_000); len(b.Records) != 1 || b.Records[0].Attempts != 0 {
		t.Errorf("%+v", b.Records)
	}
}

// TestBuildingOffQueuesNothing: without marks an edit leaves no task; turned on
// again, everything is looked at and current sets are kept.
// BR-127, BR-129
func TestBuildingOffQueuesNothing(t *testing.T) {
	ctx := context.Background()
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	m := measured(t, s, 9)
	store(t, s, notes("a", 1, 3)...)
	build(t, s, m, setsOf(m))
	if _, err := s.Update(ctx, "a", mem(3), sqlite.Patch{Content: pointer("changed while building is on")}); err != nil {
		t.Fatal(err)
	}
	if err := s.EndBlocks(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(ctx, "a", mem(2), sqlite.Patch{Content: pointer("changed while building is off")}); err != nil {
		t.Fatal(err)
	}
	if got := rows(t, path, "SELECT (SELECT count(*) FROM block_task) AS tasks, (SELECT count(*) FROM block_mark) AS marks, (SELECT count(*) FROM block_set) AS sets"); got[0] != "tasks=0 marks=0 sets=1" {
		t.Error(got)
	}
	if err := s.BeginBlocks(ctx, m); err != nil {
		t.Fatal(err)
	}
	b := next(t, s, m, 9, 1_000)
	if len(b.Records) != 3 || !b.Records[0].Current || b.Records[0].Text != "" || b.Records[1].Current {
		t.Errorf("%+v", b.Records)
	}
	build(t, s, m, setsOf(m))
	if got := codes(t, s, m, 1); len(got) != 3 {
		t.Errorf("%v", got)
	}
	sound(t, s, "missing_vectors")
}

// TestNewSplitterBuildsAgain: sets of another splitter are right, not current,
// and replaced one by one.
// BR-126, BR-144
func TestNewSplitterBuildsAgain(t *testing.T) {
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	m := measured(t, s, 9)
	store(t, s, notes("a", 1, 3)...)
	build(t, s, m, setsOf(m))
	foreign(t, path, "UPDATE block_set SET policy = 0", "UPDATE block_mark SET policy = 0")
	sound(t, s, "missing_vectors", "foreign_writer")
	if got := codes(t, s, m, 1); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if order := build(t, s, m, setsOf(m)); len(order) != 3 || len(codes(t, s, m, 1)) != 3 {
		t.Errorf("looked at %v", order)
	}
}

// TestGivenIdsAreNotForgotten: a record that was given an id below the marks,
// before or while its neighbours are looked at, waits as well.
// BR-108
func TestGivenIdsAreNotForgotten(t *testing.T) {
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	m := measured(t, s, 9)
	store(t, s, notes("a", 1, 5)...)
	give := func(id int64) {
		foreign(t, path, fmt.Sprintf("DELETE FROM memory WHERE id = %d", id), fmt.Sprintf(`INSERT INTO memory (id, cell, pool, digest, message_id, version, locked, time_offset, created, created_offset, updated, updated_offset, source_type, source_id, source_name, content)
			SELECT %d, cell, pool, x'e2dac1722dcb65b6a00f6c6ba35cc471', '', 1, 0, 0, 0, 0, 0, 0, '', '', '', 'given %d' FROM memory WHERE id = 1`, id, id))
	}
	if err := s.BeginBlocks(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(t.Context(), "a", []memory.Ref{mem(2), mem(4)}); err != nil {
		t.Fatal(err)
	}
	b := next(t, s, m, 2, 1_000) // 1 and 3
	give(2)
	finish(t, s, b, outcomes(b, setsOf(m))...)
	give(4)
	b = next(t, s, m, 9, 1_000)
	if got := refsOf(b); !slices.Equal(got, []string{"mem:2"}) {
		t.Errorf("%v", got)
	}
	finish(t, s, b, outcomes(b, func(sqlite.BlockRecord) sqlite.BlockOutcome { return sqlite.BlockOutcome{} })...)
	b = next(t, s, m, 9, 1_000)
	finish(t, s, b, outcomes(b, func(sqlite.BlockRecord) sqlite.BlockOutcome { return sqlite.BlockOutcome{} })...)
	give(4)
	if got := refsOf(next(t, s, m, 9, 1_000)); !slices.Equal(got, []string{"mem:4"}) {
		t.Errorf("%v", got)
	}
}

// TestPublicationIsWholeOrNot: when a batch cannot be published nothing of it is,
// and it can be tried again.
// BR-100, BR-104, BR-105
func TestPublicationIsWholeOrNot(t *testing.T) {
	ctx := context.Background()
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	m := measured(t, s, 9)
	store(t, s, notes("a", 1, 3)...)
	if err := s.BeginBlocks(ctx, m); err != nil {
		t.Fatal(err)
	}
	b := next(t, s, m, 9, 1_000)
	sets := outcomes(b, setsOf(m))
	for _, fault := range []string{"block_set", "block_vec", "block_stats", "block_mark", "index_changes"} {
		event := "INSERT"
		if fault == "block_mark" {
			event = "UPDATE"
		}
		when := map[string]string{"block_set": " WHEN new.key & 0xFFFFFFFFFF = 3", "block_vec": " WHEN new.id = 3"}[fault] // the last set of the batch
		foreign(t, path, "CREATE TRIGGER fault BEFORE "+event+" ON "+fault+when+" BEGIN SELECT raise(ABORT, 'injected'); END")
		if _, err := s.FinishBlocks(ctx, b, sets); err == nil || !strings.Contains(err.Error(), "injected") {
			t.Errorf("%s: %v", fault, err)
		}
		foreign(t, path, "DROP TRIGGER fault")
		if got := rows(t, path, "SELECT (SELECT count(*) FROM block_set) + (SELECT count(*) FROM block_vec) + (SELECT max(done) FROM block_mark) + (SELECT count(*) FROM index_changes WHERE op = 6) AS n"); got[0] != "n=0" {
			t.Errorf("%s left something: %v", fault, got)
		}
		if !slices.Equal(refsOf(next(t, s, m, 9, 1_000)), refsOf(b)) {
			t.Errorf("%s: the batch is not there any more", fault)
		}
	}
	if built := finish(t, s, b, sets...); built != 3 {
		t.Errorf("%d", built)
	}
	b.Records = append(b.Records, b.Records...)
	bad := sets[0]
	worse := *bad.Set
	worse.Bits = nil
	var refused *memory.FieldError
	if _, err := s.FinishBlocks(ctx, b, []sqlite.BlockOutcome{{Set: &worse}}); !errors.As(err, &refused) {
		t.Error(err)
	}
	sound(t, s, "missing_vectors", "foreign_writer")
}

// TestBlockStatsOfAScope: what waits is counted for the cells that are asked
// about and no others, whichever part of the marks it is in.
// DECISIONS 1, BR-117
func TestBlockStatsOfAScope(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, _ := openStore(t, sqlite.Options{Clock: fixed, Readers: 1})
		defer s.Close()
		m := measured(t, s, 9)
		number := 0
		put := func(label string) {
			for range rapid.IntRange(0, 6).Draw(rt, label) {
				number++
				store(t, s, notes(rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "agent"), number, number)...)
			}
		}
		work := func(label string) {
			for range rapid.IntRange(0, 3).Draw(rt, label) {
				b := next(t, s, m, rapid.IntRange(1, 4).Draw(rt, "batch"), 1_000)
				finish(t, s, b, outcomes(b, setsOf(m))...)
			}
		}
		put("before")
		if rapid.Bool().Draw(rt, "begin") {
			if err := s.BeginBlocks(t.Context(), m); err != nil {
				rt.Fatal(err)
			}
			work("first")
			put("then")
			if number > 0 {
				id := int64(rapid.IntRange(1, number).Draw(rt, "edit"))
				for _, agent := range []string{"a", "b"} {
					if _, err := s.Update(t.Context(), agent, mem(id), sqlite.Patch{Content: pointer("edited, and long enough")}); err != nil && !errors.Is(err, memory.ErrNotFound) {
						rt.Fatal(err)
					}
				}
			}
			work("second")
		}
		v := view(t, s)
		defer v.Close()
		for _, agent := range []string{"a", "b"} {
			cells, err := v.Cells(memory.Scope{Agent: agent})
			if err != nil {
				rt.Fatal(err)
			}
			var ids []int64
			records, sets := int64(0), int64(0)
			for _, c := range cells {
				ids = append(ids, c.ID)
				records += c.Memories
			}
			if err := v.BlockBits(m, ids, func(sqlite.BlockCodes) error { sets++; return nil }); err != nil {
				rt.Fatal(err)
			}
			if st, err := v.BlockStats(m, ids); err != nil || st.Sets != sets || st.Sets+st.Waiting != records {
				rt.Fatalf("%s: %+v of %d records with %d sets, %v", agent, st, records, sets, err)
			}
		}
	})
}

// TestOneSweepPublishes: of two who took the same batch one publishes it; the
// other is refused and leaves nothing.
// BR-110
func TestOneSweepPublishes(t *testing.T) {
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	m := measured(t, s, 9)
	store(t, s, notes("a", 1, 3)...)
	if err := s.BeginBlocks(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	first, second := next(t, s, m, 2, 1_000), next(t, s, m, 3, 1_000)
	if built := finish(t, s, second, outcomes(second, setsOf(m))...); built != 3 {
		t.Errorf("%d", built)
	}
	before := rows(t, path, "SELECT max(seq) AS seq FROM index_changes")
	if n, err := s.FinishBlocks(t.Context(), first, outcomes(first, setsOf(m))); !errors.Is(err, sqlite.ErrMarkMoved) || n != 0 {
		t.Errorf("%d, %v", n, err)
	}
	if after := rows(t, path, "SELECT max(seq) AS seq FROM index_changes"); !slices.Equal(before, after) {
		t.Errorf("it left %v after %v", after, before)
	}
	sound(t, s, "missing_vectors")
}
