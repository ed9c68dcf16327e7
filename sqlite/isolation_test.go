package sqlite_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"recalld/memory"
	"recalld/sqlite"
)

// names is small so that rows meet on every axis; it has look-alikes, LIKE's
// wildcards, a name that differs in case only, and three scripts.
var names = []string{"", "a", "A", "b", "a%", "_", "a'--", "東京", "上海", "é", "e\u0301"}

// axis is the names of one axis that a check uses, distinct, ” first.
func axis(t *rapid.T, label string) []string {
	drawn := rapid.SliceOfNDistinct(rapid.SampledFrom(names[1:]), 2, 2, rapid.ID[string]).Draw(t, label)
	return append([]string{""}, drawn...)
}

// optional is every value that a scope's axis can take: absent, each name, and
// one that no row has.
func optional(names []string) []*string {
	values := []*string{nil, pointer("elsewhere")}
	for _, n := range names {
		values = append(values, &n)
	}
	return values
}

// TestPredicateIsScope plants a memory and an episode that match everything in
// every cell of two agents, three projects and three channels, and reads them in
// every scope in every way: each read returns the rows that
// memory.Scope.Contains names and no other.
// RR-439, RR-440, RR-441, RR-016, DECISIONS 3
func TestPredicateIsScope(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, err := sqlite.Open(context.Background(), t.TempDir()+"/recall.db", sqlite.Options{Clock: fixed, Readers: 1})
		if err != nil {
			rt.Fatal(err)
		}
		defer s.Close()
		ctx := context.Background()
		m, err := s.PutModel(ctx, sqlite.Model{Backend: "b", Name: "n", Dims: 1, State: sqlite.ModelActive})
		if err != nil {
			rt.Fatal(err)
		}
		agents, projects, channels := axis(rt, "agents")[1:], axis(rt, "projects"), axis(rt, "channels")
		cells := map[memory.Ref]memory.Cell{}
		var memories []sqlite.NewMemory
		var episodes []sqlite.NewEpisode
		for _, agent := range agents {
			for _, project := range projects {
				for _, channel := range channels {
					c, n := cell(agent, project, channel), len(memories)
					memories = append(memories, sqlite.NewMemory{Cell: c, Content: fmt.Sprint("planted needle ", n), Vector: []float32{1}, Model: m, Time: memory.Time{Milli: int64(n), Known: true}})
					episodes = append(episodes, sqlite.NewEpisode{Cell: c, Summary: fmt.Sprint("planted needle ", n), Queue: []int64{m}})
				}
			}
		}
		stored, err := s.StoreMemories(ctx, memories)
		if err != nil {
			rt.Fatal(err)
		}
		var refs []memory.Ref
		for i, r := range stored {
			cells[r.Ref], refs = memories[i].Cell, append(refs, r.Ref)
		}
		stored, err = s.StoreEpisodes(ctx, episodes)
		if err != nil {
			rt.Fatal(err)
		}
		for i, r := range stored {
			cells[r.Ref], refs = episodes[i].Cell, append(refs, r.Ref)
		}
		if len(cells) != 36 {
			rt.Fatalf("%d rows of 36 were stored", len(cells))
		}
		for _, agent := range append(agents, "nobody") {
			for _, project := range optional(projects) {
				for _, channel := range optional(channels) {
					readsAre(rt, s, m, memory.Scope{Agent: agent, Project: project, Channel: channel}, refs, cells)
				}
			}
		}
	})
}

// readsAre holds every read of a scope to the rows whose cells it contains.
func readsAre(rt *rapid.T, s *sqlite.Store, m int64, scope memory.Scope, refs []memory.Ref, cells map[memory.Ref]memory.Cell) {
	var want, wantMemories, wantEpisodes []memory.Ref
	for _, ref := range refs {
		if scope.Contains(cells[ref]) {
			want = append(want, ref)
			if ref.Kind == memory.KindMemory {
				wantMemories = append(wantMemories, ref)
			} else {
				wantEpisodes = append(wantEpisodes, ref)
			}
		}
	}
	v, err := s.View(context.Background())
	if err != nil {
		rt.Fatal(err)
	}
	defer v.Close()
	same := func(what string, got, want []memory.Ref) {
		got = slices.Clone(got)
		slices.SortFunc(got, memory.CompareRefs)
		want = slices.Clone(want)
		slices.SortFunc(want, memory.CompareRefs)
		if !slices.Equal(got, want) {
			rt.Fatalf("%s: got %v, want %v", what, got, want)
		}
	}
	refsOf := func(records []memory.Record, err error) []memory.Ref {
		if err != nil {
			rt.Fatal(err)
		}
		var refs []memory.Ref
		for _, r := range records {
			if r.Cell != cells[r.Ref] {
				rt.Fatalf("%s comes from %v, was stored in %v", r.Ref, r.Cell, cells[r.Ref])
			}
			refs = append(refs, r.Ref)
		}
		return refs
	}
	candidates := func(found []memory.Candidate, truncated bool, err error) []memory.Ref {
		if err != nil || truncated {
			rt.Fatal(truncated, err)
		}
		var refs []memory.Ref
		for _, c := range found {
			refs = append(refs, c.Ref)
		}
		return refs
	}
	same("hydrate", refsOf(v.Hydrate(scope, refs)), want)
	same("list memories", refsOf(v.List(scope, sqlite.Filter{Kind: memory.KindMemory, Limit: 100})), wantMemories)
	same("list episodes", refsOf(v.List(scope, sqlite.Filter{Kind: memory.KindEpisode, Limit: 100, NewestFirst: true})), wantEpisodes)
	same("recent", refsOf(v.Recent(scope, []memory.Kind{memory.KindMemory, memory.KindEpisode}, 100)), want)
	q := sqlite.BuildFTSQuery("needle")
	same("match memories", candidates(v.MatchFTS(scope, memory.KindMemory, q, 100, "")), wantMemories)
	same("match episodes", candidates(v.MatchFTS(scope, memory.KindEpisode, q, 100, "")), wantEpisodes)
	same("substring", candidates(v.Substring(scope, "needle", 100, "")), wantMemories)

	all, err := v.Cells(scope)
	if err != nil {
		rt.Fatal(err)
	}
	var sum sqlite.CellStats
	var ids []int64
	for _, c := range all {
		if !scope.Contains(c.Cell) {
			rt.Fatalf("cell %v is outside", c.Cell)
		}
		sum.Add(c)
		ids = append(ids, c.ID)
	}
	if sum.Memories != int64(len(wantMemories)) || sum.Episodes != int64(len(wantEpisodes)) || sum.Embedded[m] != int64(len(wantMemories)) {
		rt.Fatalf("counted %+v, want %d and %d", sum, len(wantMemories), len(wantEpisodes))
	}
	var streamed, texts []memory.Ref
	if err := v.Vectors(m, ids, func(ref memory.Ref, _ int64, _ []float32) error { streamed = append(streamed, ref); return nil }); err != nil {
		rt.Fatal(err)
	}
	same("vectors", streamed, wantMemories)
	if err := v.Texts(ids, func(x sqlite.Text) error { texts = append(texts, x.Ref); return nil }); err != nil {
		rt.Fatal(err)
	}
	same("texts", texts, want)
	if pending, err := v.PendingIn(scope, m); err != nil || pending != int64(len(wantEpisodes)) {
		rt.Fatal(pending, err)
	}
	times, err := v.Stats(scope)
	if err != nil || times.Dated != (len(wantMemories) > 0) {
		rt.Fatal(times, err)
	}
	if times.Dated && (times.MinTime != wantMemories[0].ID-1 || times.MaxTime != wantMemories[len(wantMemories)-1].ID-1) {
		rt.Fatalf("times %d to %d, want those of %v", times.MinTime, times.MaxTime, wantMemories)
	}
}

// TestForeignRefsAreUnknownRefs: asking for another agent's record, changing it,
// locking it and deleting it are answered like asking for nothing.
// RR-439
func TestForeignRefsAreUnknownRefs(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{})
	ctx := context.Background()
	store(t, s, sqlite.NewMemory{Cell: cell("owner", "p", ""), Content: "the safe is behind the map"})
	for _, ref := range []memory.Ref{mem(1), mem(99), ep(1)} {
		if got := recall(t, s, "other", ref); len(got) != 0 {
			t.Errorf("%s was read: %v", ref, got)
		}
		if _, err := s.Update(ctx, "other", ref, sqlite.Patch{Content: pointer("gone")}); !errorIs(err, memory.ErrNotFound) {
			t.Errorf("update %s: %v", ref, err)
		}
		if r, err := s.Delete(ctx, "other", []memory.Ref{ref}); err != nil || r[0].Outcome != sqlite.OutcomeMissing {
			t.Errorf("delete %s: %v, %v", ref, r, err)
		}
		if r, err := s.SetLocked(ctx, "other", []memory.Ref{ref}, true); err != nil || len(r.Done) != 0 || len(r.Missing) != 1 {
			t.Errorf("lock %s: %v, %v", ref, r, err)
		}
	}
	if got := recall(t, s, "owner", mem(1)); len(got) != 1 || got[0].Locked || got[0].Content != "the safe is behind the map" {
		t.Errorf("the owner's record: %+v", got)
	}
}
