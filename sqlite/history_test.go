package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"recalld/memory"
	"recalld/sqlite"
)

// world is what a store ought to hold, kept in plain maps.
type world struct {
	records map[memory.Ref]memory.Record
	vectors map[memory.Ref]bool
	queued  map[memory.Ref]bool
	blocks  map[memory.Ref]bool
	cells   map[int64]memory.Cell // by id, as the change log names them
	applied int64                 // the change sequence that shadow has seen
	shadow  map[memory.Ref]int64  // a consumer of the change log: records and their cells
}

// TestHistories draws histories of stores, versions, edits, retags, deletions,
// locks, vectors and restarts, compares every record with plain maps, follows
// the change log like an index would, and runs every check.
// DECISIONS 4, DECISIONS 8, DECISIONS 11, BR-091, BR-094, BR-095, BR-096, BR-103
func TestHistories(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ctx := context.Background()
		path := filepath.Join(t.TempDir(), "recall.db")
		o := sqlite.Options{Clock: fixed, Readers: 2}
		open := func() *sqlite.Store {
			s, err := sqlite.Open(ctx, path, o)
			if err != nil {
				rt.Fatal(err)
			}
			return s
		}
		s := open()
		defer func() { s.Close() }()
		m, err := s.PutModel(ctx, sqlite.Model{Backend: "b", Name: "n", Dims: 1, Probes: [][]float32{{1}}, State: sqlite.ModelActive})
		if err != nil {
			rt.Fatal(err)
		}
		w := world{records: map[memory.Ref]memory.Record{}, vectors: map[memory.Ref]bool{}, blocks: map[memory.Ref]bool{}, queued: map[memory.Ref]bool{}, cells: map[int64]memory.Cell{}, shadow: map[memory.Ref]int64{}}
		agents, projects := []string{"a", "b"}, []string{"", "p"}
		texts := []string{"one", "two", "三つ", "四个", "five and more words"}
		draw := func() memory.Cell {
			return cell(rapid.SampledFrom(agents).Draw(rt, "agent"), rapid.SampledFrom(projects).Draw(rt, "project"), rapid.SampledFrom(projects).Draw(rt, "channel"))
		}
		when := func() memory.Time {
			if rapid.Bool().Draw(rt, "dated") {
				return memory.Time{Milli: rapid.Int64Range(-5, 5).Draw(rt, "time"), Known: true}
			}
			return memory.Time{}
		}
		pick := func() (memory.Ref, bool) {
			if len(w.records) == 0 {
				return memory.Ref{}, false
			}
			var refs []memory.Ref
			for ref := range w.records {
				refs = append(refs, ref)
			}
			slices.SortFunc(refs, memory.CompareRefs)
			return rapid.SampledFrom(refs).Draw(rt, "ref"), true
		}
		load := func(ref memory.Ref) memory.Record {
			v, err := s.ViewRecords(ctx)
			if err != nil {
				rt.Fatal(err)
			}
			defer v.Close()
			for _, agent := range agents {
				got, err := v.Hydrate(memory.Scope{Agent: agent}, []memory.Ref{ref})
				if err != nil {
					rt.Fatal(err)
				}
				if len(got) == 1 {
					return got[0]
				}
			}
			rt.Fatalf("%s is gone", ref)
			return memory.Record{}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"store": func(*rapid.T) {
				c := draw()
				item := sqlite.NewMemory{Cell: c, Content: rapid.SampledFrom(texts).Draw(rt, "text"), Time: when(),
					MessageID: rapid.SampledFrom([]string{"", "", "m1", "m2"}).Draw(rt, "message")}
				if item.MessageID != "" && rapid.Bool().Draw(rt, "version") {
					item.OnConflict = sqlite.OnConflictVersion
				}
				embed := rapid.Bool().Draw(rt, "embed")
				if embed {
					item.Vector, item.Model = []float32{1}, m
				} else {
					item.Queue = []int64{m}
				}
				r, err := s.StoreMemories(ctx, []sqlite.NewMemory{item})
				if err != nil || r[0].Err != nil {
					rt.Fatal(err, r)
				}
				if r[0].Outcome == sqlite.OutcomeSkipped {
					old := w.records[r[0].Existing]
					if old.Cell.Agent != c.Agent || old.Content != item.Content && old.MessageID != item.MessageID {
						rt.Fatalf("skipped %+v for %+v", item, old)
					}
					return
				}
				rec := memory.Record{Ref: r[0].Ref, Cell: c, Content: item.Content, Time: item.Time, MessageID: item.MessageID, Version: 1, Created: memory.TimeOf(fixed()), Updated: memory.TimeOf(fixed())}
				if r[0].Outcome == sqlite.OutcomeVersioned {
					old := w.records[r[0].Existing]
					if old.MessageID != item.MessageID || old.Cell.Agent != c.Agent || old.Cell.Project != c.Project || old.SupersededBy != (memory.Ref{}) {
						rt.Fatalf("%+v follows %+v", item, old)
					}
					rec.Version = old.Version + 1
					old.SupersededBy = rec.Ref
					w.records[old.Ref] = old
				}
				w.records[rec.Ref], w.vectors[rec.Ref], w.queued[rec.Ref] = rec, embed, !embed
			},
			"store an episode": func(*rapid.T) {
				item := sqlite.NewEpisode{Cell: draw(), Summary: rapid.SampledFrom(texts).Draw(rt, "text"), Start: when(), Keywords: []string{"k"}, Vector: []float32{1}, Model: m}
				r, err := s.StoreEpisodes(ctx, []sqlite.NewEpisode{item})
				if err != nil || r[0].Err != nil {
					rt.Fatal(err, r)
				}
				if r[0].Outcome == sqlite.OutcomeStored {
					w.records[r[0].Ref] = memory.Record{Ref: r[0].Ref, Cell: item.Cell, Content: item.Summary, Time: item.Start, Keywords: item.Keywords, Version: 1, Created: memory.TimeOf(fixed()), Updated: memory.TimeOf(fixed())}
					w.vectors[r[0].Ref] = true
				}
			},
			"edit": func(*rapid.T) {
				ref, ok := pick()
				if !ok {
					return
				}
				old := w.records[ref]
				text, at := rapid.SampledFrom(texts).Draw(rt, "text"), when()
				c := draw()
				p := sqlite.Patch{}
				want := old
				if rapid.Bool().Draw(rt, "change text") {
					p.Content, want.Content = &text, text
				}
				if rapid.Bool().Draw(rt, "change time") {
					p.Time, want.Time = &at, at
				}
				if rapid.Bool().Draw(rt, "retag") {
					p.Project, p.Channel = &c.Project, &c.Channel
					want.Cell.Project, want.Cell.Channel = c.Project, c.Channel
				}
				_, err := s.Update(ctx, old.Cell.Agent, ref, p)
				switch {
				case old.Locked && !errors.Is(err, memory.ErrLocked):
					rt.Fatalf("%s is locked: %v", ref, err)
				case errors.Is(err, memory.ErrInvalid), errors.Is(err, memory.ErrLocked):
					return // a duplicate; nothing may have changed, as the comparison shows
				case err != nil:
					rt.Fatal(err)
				}
				w.records[ref] = want
				if want.Content != old.Content {
					w.queued[ref] = w.queued[ref] || w.vectors[ref]
					w.vectors[ref] = false
					delete(w.blocks, ref)
				}
			},
			"lock": func(*rapid.T) {
				if ref, ok := pick(); ok {
					rec := w.records[ref]
					rec.Locked = rapid.Bool().Draw(rt, "locked")
					if _, err := s.SetLocked(ctx, rec.Cell.Agent, []memory.Ref{ref}, rec.Locked); err != nil {
						rt.Fatal(err)
					}
					w.records[ref] = rec
				}
			},
			"delete": func(*rapid.T) {
				ref, ok := pick()
				if !ok {
					return
				}
				old := w.records[ref]
				r, err := s.Delete(ctx, old.Cell.Agent, []memory.Ref{ref})
				if err != nil || (r[0].Outcome == sqlite.OutcomeLocked) != old.Locked {
					rt.Fatal(err, r, old)
				}
				if old.Locked {
					return
				}
				for other, rec := range w.records {
					if rec.SupersededBy == ref {
						rec.SupersededBy = old.SupersededBy
						w.records[other] = rec
					}
				}
				delete(w.records, ref)
				delete(w.vectors, ref)
				delete(w.queued, ref)
				delete(w.blocks, ref)
			},
			"embed": func(*rapid.T) {
				tasks, err := s.Claim(ctx, m, 3, 0)
				if err != nil {
					rt.Fatal(err)
				}
				for _, task := range tasks {
					if !w.queued[task.Ref] || w.records[task.Ref].Content != task.Text || w.records[task.Ref].Cell.Agent != task.Agent {
						rt.Fatalf("claimed %+v", task)
					}
					written, err := s.PutVectors(ctx, []sqlite.Vector{{Ref: task.Ref, Model: m, Revision: task.Revision, Values: []float32{0.5}}})
					if err != nil || !written[0] {
						rt.Fatal(written, err)
					}
					w.vectors[task.Ref], w.queued[task.Ref] = true, false
				}
			},
			"build blocks": func(*rapid.T) {
				if err := s.BeginBlocks(ctx, m); err != nil {
					rt.Fatal(err)
				}
				b, err := s.NextBlocks(ctx, m, 3, 100)
				if err != nil {
					rt.Fatal(err)
				}
				var outcomes []sqlite.BlockOutcome
				for _, rec := range b.Records {
					if old := w.records[rec.Ref]; rec.Current != w.blocks[rec.Ref] || !rec.Current && rec.Text != old.Content {
						rt.Fatalf("to look at %+v, it is %+v", rec, old)
					}
					var o sqlite.BlockOutcome
					if !rec.Current && len(rec.Text) > 3 {
						set := setOf(rec.Ref, m, rec.Text, 2, len(rec.Text), 1)
						o.Set, w.blocks[rec.Ref] = &set, true
					}
					outcomes = append(outcomes, o)
				}
				if _, err := s.FinishBlocks(ctx, b, outcomes); err != nil {
					rt.Fatal(err)
				}
			},
			"restart": func(*rapid.T) {
				if err := s.Close(); err != nil {
					rt.Fatal(err)
				}
				s = open()
			},
			"": func(*rapid.T) { w.compare(rt, s, load, m) },
		})
		for _, c := range s.Checks() {
			if f, err := c.Run(ctx); err != nil || !f.OK && c.Name != "duplicates" {
				rt.Fatalf("check %s: %v, %v", c.Name, f.Evidence, err)
			}
		}
	})
}

// compare holds the store to the maps.
func (w *world) compare(t *rapid.T, s *sqlite.Store, load func(memory.Ref) memory.Record, model int64) {
	vectors, queued, pending := 0, 0, int64(0)
	for ref, want := range w.records {
		if got := load(ref); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Fatalf("stored %+v, want %+v", got, want)
		}
		if w.vectors[ref] {
			vectors++
		}
		if w.queued[ref] {
			queued++
		}
	}
	v, err := s.View(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	w.follow(t, v)
	sets := make(map[memory.Ref]bool)
	for id, cell := range w.cells {
		if err := v.BlockBits(model, []int64{id}, func(c sqlite.BlockCodes) error {
			if sets[c.Ref] = true; w.records[c.Ref].Cell != cell {
				t.Errorf("blocks of %s are in %v", c.Ref, cell)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if !maps.Equal(sets, w.blocks) {
		t.Fatalf("current sets of %v, want %v", sets, w.blocks)
	}
	var sum sqlite.CellStats
	for _, agent := range []string{"a", "b"} {
		st, err := v.Stats(memory.Scope{Agent: agent})
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(st)
		n, err := v.PendingIn(memory.Scope{Agent: agent}, model)
		if err != nil {
			t.Fatal(err)
		}
		pending += n
	}
	if sum.Memories+sum.Episodes != int64(len(w.records)) || sum.Embedded[model] != int64(vectors) || pending != int64(queued) {
		t.Fatalf("counted %+v and %d queued, want %d records, %d vectors, %d queued", sum, pending, len(w.records), vectors, queued)
	}
}

// follow applies the new changes to a shadow of the records and their cells, and
// compares it with the records.
func (w *world) follow(t *rapid.T, v *sqlite.View) {
	err := v.AllCells(func(c sqlite.CellStats) error { w.cells[c.ID] = c.Cell; return nil })
	if err != nil {
		t.Fatal(err)
	}
	lineages := map[int64]bool{}
	err = v.Changes(w.applied, 1_000_000, func(c sqlite.Change) error {
		if c.Seq != w.applied+1 || lineages[c.Lineage] {
			t.Fatalf("change %+v after %d", c, w.applied)
		}
		w.applied, lineages[c.Lineage] = c.Seq, true
		cell, known := w.shadow[c.Ref]
		switch c.Op {
		case sqlite.OpInsert:
			if known || c.OldCell != 0 {
				t.Fatalf("%+v of a known record", c)
			}
			w.shadow[c.Ref] = c.NewCell
		case sqlite.OpDelete:
			if !known || cell != c.OldCell || c.NewCell != 0 {
				t.Fatalf("%+v, the record was in cell %d", c, cell)
			}
			delete(w.shadow, c.Ref)
		case sqlite.OpRetag:
			if !known || cell != c.OldCell || c.NewCell == c.OldCell {
				t.Fatalf("%+v, the record was in cell %d", c, cell)
			}
			w.shadow[c.Ref] = c.NewCell
		case sqlite.OpText, sqlite.OpEmbedded, sqlite.OpBlocks:
			if !known {
				t.Fatalf("%+v of an unknown record", c)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if w.applied != v.Seq() {
		t.Fatalf("the log ends at %d, the snapshot says %d", w.applied, v.Seq())
	}
	if len(w.shadow) != len(w.records) {
		t.Fatalf("the log knows %d records of %d", len(w.shadow), len(w.records))
	}
	for ref, id := range w.shadow {
		if w.cells[id] != w.records[ref].Cell {
			t.Fatalf("the log has %s in %v, it is in %v", ref, w.cells[id], w.records[ref].Cell)
		}
	}
}
