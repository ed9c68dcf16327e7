package shards

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"recalld/lexical"
	"recalld/memory"
	"recalld/sqlite"
)

// DECISIONS 1, 2, 4; ARCHITECTURE 8.1, 8.5: whatever is stored, changed, moved
// and deleted, and however it is sealed, merged, built anew, deleted below the
// index or reopened, a search gives what reading its snapshot directly gives,
// in the newest snapshot and in one that stayed open.
func TestSearchIsWhatDirectReadingGives(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		folder, err := os.MkdirTemp("", "shards-")
		if err != nil {
			r.Fatal(err)
		}
		w := &world{t: t, folder: folder, opts: Options{
			Folder: filepath.Join(folder, "derived", "lexical"), SealRows: 1 << 40, SealText: 1 << 40,
			BuildText: int64(rapid.SampledFrom([]int{1, 60, 1 << 20}).Draw(r, "build")), DirectRows: int64(rapid.SampledFrom([]int{1, 1000}).Draw(r, "direct")),
		}}
		w.openStore()
		w.open()
		defer os.RemoveAll(folder)
		defer w.close()

		agents := []string{"mia", "ken", "林"}
		projects := []string{"", "atlas"}
		var live []memory.Ref
		owner := map[memory.Ref]string{}
		cell := func() memory.Cell {
			return memory.Cell{Agent: rapid.SampledFrom(agents).Draw(r, "agent"), Project: rapid.SampledFrom(projects).Draw(r, "project")}
		}
		pick := func() (memory.Ref, bool) {
			if len(live) == 0 {
				return memory.Ref{}, false
			}
			return live[rapid.IntRange(0, len(live)-1).Draw(r, "which")], true
		}
		var old *sqlite.View
		defer func() {
			if old != nil {
				old.Close()
			}
		}()
		ctx := context.Background()
		check := func(view *sqlite.View) {
			scope := memory.Scope{Agent: rapid.SampledFrom(agents).Draw(r, "asking")}
			if rapid.Bool().Draw(r, "in project") {
				scope.Project = &projects[1]
			}
			kind := rapid.SampledFrom([]memory.Kind{memory.KindMemory, memory.KindEpisode}).Draw(r, "kind")
			if _, err := w.ask(view, scope, words(rapid.IntRange(0, 30).Draw(r, "query")), kind); err != nil {
				r.Fatal(err)
			}
		}
		actions := map[string]func(*rapid.T){
			"store": func(*rapid.T) {
				c := cell()
				ref := w.say(c, rapid.SampledFrom([]string{"", "s1", "s2"}).Draw(r, "session"), words(rapid.IntRange(0, 60).Draw(r, "text")))
				if owner[ref] == "" {
					live = append(live, ref)
					owner[ref] = c.Agent
				}
			},
			"episode": func(*rapid.T) {
				c := cell()
				res, err := w.store.StoreEpisodes(ctx, []sqlite.NewEpisode{{Cell: c, Summary: words(rapid.IntRange(0, 60).Draw(r, "summary")), Keywords: []string{words(len(live))}}})
				if err != nil {
					r.Fatal(err)
				}
				if ref := res[0].Ref; ref.ID != 0 && owner[ref] == "" {
					live = append(live, ref)
					owner[ref] = c.Agent
				}
			},
			"change": func(*rapid.T) {
				if ref, ok := pick(); ok {
					text := words(rapid.IntRange(0, 60).Draw(r, "new text"))
					_ = w.update(owner[ref], ref, sqlite.Patch{Content: &text}) // a text that is there already is refused
				}
			},
			"move": func(*rapid.T) {
				if ref, ok := pick(); ok {
					to := rapid.SampledFrom(projects).Draw(r, "to")
					_ = w.update(owner[ref], ref, sqlite.Patch{Project: &to})
				}
			},
			"change source or time": func(*rapid.T) {
				if ref, ok := pick(); ok && ref.Kind == memory.KindMemory {
					p := sqlite.Patch{Time: &memory.Time{Milli: rapid.Int64Range(0, 1<<40).Draw(r, "time"), Known: true}, Source: &memory.Source{ID: rapid.SampledFrom([]string{"", "s1", "s3"}).Draw(r, "to session")}}
					_ = w.update(owner[ref], ref, p) // it may be deleted
				}
			},
			"delete": func(*rapid.T) {
				if ref, ok := pick(); ok {
					w.delete(owner[ref], ref)
				}
			},
			"delete agent": func(*rapid.T) {
				if _, err := w.store.DeleteAgent(ctx, rapid.SampledFrom(agents).Draw(r, "leaving")); err != nil {
					r.Fatal(err)
				}
			},
			"seal": func(*rapid.T) {
				if err := w.index.publish(ctx, true, nil); err != nil {
					r.Fatal(err)
				}
			},
			"merge": func(*rapid.T) {
				err := w.index.publish(ctx, rapid.Bool().Draw(r, "seal too"), func(f []*file) []*file { return f })
				if err != nil {
					r.Fatal(err)
				}
			},
			"erase": func(*rapid.T) {
				if err := w.index.Erase(ctx); err != nil {
					r.Fatal(err)
				}
			},
			"reopen": func(*rapid.T) {
				w.closeIndex()
				w.open()
			},
			"delete derived": func(*rapid.T) {
				// The goroutine may be writing there.
				for os.RemoveAll(filepath.Join(w.folder, "derived")) != nil {
				}
			},
			"trim": func(*rapid.T) {
				if err := w.store.TrimChanges(ctx, w.index.Sealed()-1); err != nil {
					r.Fatal(err)
				}
			},
			"trim too much": func(*rapid.T) {
				view := w.view()
				defer view.Close()
				if err := w.store.TrimChanges(ctx, view.Seq()); err != nil {
					r.Fatal(err)
				}
			},
			"keep a snapshot": func(*rapid.T) {
				if old != nil {
					old.Close()
				}
				old = w.view()
			},
			"ask the kept snapshot": func(*rapid.T) {
				if old != nil {
					check(old)
				}
			},
			"ask": func(*rapid.T) {
				view := w.view()
				defer view.Close()
				check(view)
			},
		}
		r.Repeat(actions)
	})
}

// bytesBelow reports which files below a folder contain a text.
func bytesBelow(t testing.TB, folder, text string) (in []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err == nil && bytes.Contains(raw, []byte(text)) {
			in = append(in, filepath.Base(path))
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return in
}

// DECISIONS 14: an erasure that failed though the new files were there, as where a
// manifest cannot be written or a file cannot be removed, is made up for in the background.
func TestErasureThatFailedIsMadeUp(t *testing.T) {
	for what, name := range map[string]func(w *world) string{
		"no manifest can be written": func(*world) string { return manifestName },
		"a file cannot be removed":   func(w *world) string { return w.index.files[0].Name },
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, Options{})
			w.settled()
			ref := w.say(cellOf("mia"), "s", "the zanzibarite was deleted")
			w.say(cellOf("mia"), "s", "another one")
			if err := w.index.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
			// A folder has the name.
			name := filepath.Join(w.opts.Folder, name(w))
			aside := filepath.Join(t.TempDir(), "aside")
			if err := errors.Join(os.Rename(name, aside), os.MkdirAll(filepath.Join(name, "in the way"), 0o700)); err != nil {
				t.Fatal(err)
			}
			w.delete("mia", ref)
			if err := w.index.Erase(t.Context()); err == nil {
				t.Fatal("the erasure did not fail")
			}
			if len(bytesBelow(t, w.opts.Folder, "zanzibarit"))+len(bytesBelow(t, filepath.Dir(aside), "zanzibarit")) == 0 {
				t.Fatal("the word is in no file, though the erasure failed")
			}
			w.index.work.Lock() // a try between the two would find nothing to remove
			err := errors.Join(os.RemoveAll(name), os.Rename(aside, name))
			w.index.work.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			w.eventually("the word is in no file", func() bool { return len(bytesBelow(t, w.opts.Folder, "zanzibarit")) == 0 })
			w.closeIndex()
			w.open()
			if a := w.same("mia", "zanzibarite another"); len(a.Hits) != 1 {
				t.Errorf("after a restart: %v", refs(a.Hits))
			}
		})
	}
}

// DECISIONS 14: when Erase returns after a delete, a change of text or the end
// of an agent, the words are in no file, a quarantined one included.
func TestErasedWordsAreInNoFile(t *testing.T) {
	w := newWorld(t, Options{})
	w.flood(cellOf("mia"), 200, words)
	deleted := w.say(cellOf("mia"), "s", "the zanzibarite was deleted")
	changed := w.say(cellOf("mia"), "s", "the quixotrope was changed")
	w.say(cellOf("ken"), "s", "the umbrellium left with its agent")
	ctx := context.Background()
	if err := w.index.publish(ctx, true, nil); err != nil {
		t.Fatal(err)
	}
	rare := []string{"zanzibarit", "quixotrop", "umbrellium"}
	for _, word := range rare {
		if len(bytesBelow(t, w.opts.Folder, word)) == 0 {
			t.Fatalf("%s is in no file to begin with", word)
		}
	}
	aside := filepath.Join(w.opts.Folder, quarantined)
	if err := os.MkdirAll(aside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(aside, "old"), []byte("zanzibarit"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.delete("mia", deleted)
	text := "the new wording"
	if err := w.update("mia", changed, sqlite.Patch{Content: &text}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.DeleteAgent(ctx, "ken"); err != nil {
		t.Fatal(err)
	}
	if err := w.index.Erase(ctx); err != nil {
		t.Fatal(err)
	}
	for _, word := range rare {
		if in := bytesBelow(t, w.opts.Folder, word); len(in) > 0 {
			t.Errorf("%s is still in %v", word, in)
		}
	}
	w.same("mia", "zanzibarite quixotrope wording")
	w.closeIndex()
	w.open()
	if a := w.same("mia", "zanzibarite quixotrope"); len(a.Hits) > 0 {
		t.Errorf("found again after a restart: %v", refs(a.Hits))
	}
	if a := w.same("mia", "new wording"); len(a.Hits) != 1 || a.Hits[0].Ref != changed {
		t.Errorf("the new text is found as %v", refs(a.Hits))
	}
}

// DECISIONS 14: what a process deleted and was killed or cancelled before it
// erased is erased without being asked for, after a restart too.
func TestOwedErasureIsMadeUpFor(t *testing.T) {
	w := newWorld(t, Options{})
	w.flood(cellOf("mia"), 200, words)
	here := w.say(cellOf("mia"), "s", "the zanzibarite was deleted")
	later := w.say(cellOf("mia"), "s", "the umbrellium was deleted before a restart")
	if err := w.index.Seal(context.Background()); err != nil {
		t.Fatal(err)
	}
	gone := func(word string) {
		t.Helper()
		for range 1_000 {
			if len(bytesBelow(t, w.opts.Folder, word)) == 0 {
				return
			}
			w.index.Wake()
			time.Sleep(5 * time.Millisecond)
		}
		t.Errorf("after five seconds %s is still in %v", word, bytesBelow(t, w.opts.Folder, word))
	}
	if len(bytesBelow(t, w.opts.Folder, "zanzibarit")) == 0 || len(bytesBelow(t, w.opts.Folder, "umbrellium")) == 0 {
		t.Fatal("the words are in no file to begin with")
	}
	w.delete("mia", here)
	gone("zanzibarit")
	w.closeIndex()
	w.delete("mia", later)
	w.open()
	gone("umbrellium")
	w.same("mia", "zanzibarite umbrellium deleted")
}

// ARCHITECTURE 6, DECISIONS 30: a damaged file is set aside, what it held is
// built again, and every answer meanwhile is whole or says what it lacks.
func TestDamagedFileIsSetAsideAndBuiltAgain(t *testing.T) {
	for _, damage := range []struct {
		name string
		do   func(path string) error
		open bool // while the index is open
	}{
		{"a bit, before the start", flip, false},
		{"cut short, before the start", cut, false},
		{"gone, before the start", os.Remove, false},
		{"a bit, while open", flip, true},
		{"cut short, while open", cut, true},
	} {
		t.Run(damage.name, func(t *testing.T) {
			w := newWorld(t, Options{DirectRows: 100})
			w.flood(cellOf("mia"), 300, words)
			w.flood(cellOf("ken"), 50, words)
			if err := w.index.publish(context.Background(), true, nil); err != nil {
				t.Fatal(err)
			}
			want := w.same("mia", "harbor lantern")
			if len(want.Hits) == 0 {
				t.Fatal("nothing found to begin with")
			}
			path := filepath.Join(w.opts.Folder, w.index.files[0].Name)
			if !damage.open {
				w.closeIndex()
			}
			if err := os.Chmod(path, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := damage.do(path); err != nil {
				t.Fatal(err)
			}
			if damage.open {
				// Forget which checksums were right.
				w.closeIndexKeepingFiles()
			} else {
				w.open()
			}
			for range 3 {
				if a := w.same("mia", "harbor lantern"); a.NotBuilt == 0 && fmt.Sprint(a.Hits) != fmt.Sprint(want.Hits) {
					t.Fatalf("%v, want %v", refs(a.Hits), refs(want.Hits))
				}
				w.same("ken", "harbor lantern")
			}
			w.settled()
			if a := w.same("mia", "harbor lantern"); a.NotBuilt > 0 || fmt.Sprint(a.Hits) != fmt.Sprint(want.Hits) {
				t.Fatalf("after building: %v, %d not built", refs(a.Hits), a.NotBuilt)
			}
			if damage.name != "gone, before the start" {
				if _, err := os.Stat(filepath.Join(w.opts.Folder, quarantined, filepath.Base(path))); err != nil {
					t.Errorf("the damaged file is not kept: %v", err)
				}
			}
		})
	}
}

func flip(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	raw[len(raw)/2] ^= 0x10
	// In place, as a failing disk does: the mapping sees it.
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(raw, 0); err != nil {
		return err
	}
	return f.Close()
}

func cut(path string) error { return os.Truncate(path, 100) }

// DECISIONS 4: a generation of another store, of another history, or one whose
// change is not in the log any more is not used.
func TestForeignGenerationIsNotUsed(t *testing.T) {
	w := newWorld(t, Options{})
	w.flood(cellOf("mia"), 50, words)
	if err := w.index.publish(context.Background(), true, nil); err != nil {
		t.Fatal(err)
	}
	w.closeIndex()
	good, err := readManifest(w.opts.Folder)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*manifest){
		"as it is": func(*manifest) {},
		"lineage":  func(m *manifest) { m.Lineage++ },
		"truth":    func(m *manifest) { m.Truth = "another" },
		"sequence": func(m *manifest) { m.Sequence, m.Lineage = m.Sequence+1_000, 0 },
		"analyser": func(m *manifest) { m.Analyser++ },
		"format":   func(m *manifest) { m.Format++ },
	} {
		m := good
		change(&m)
		if err := m.write(w.opts.Folder); err != nil {
			t.Fatal(err)
		}
		saved, err := os.ReadFile(filepath.Join(w.opts.Folder, good.Files[0].Name))
		if err != nil {
			t.Fatal(err)
		}
		view := w.view()
		l := &Lexical{store: w.store, opts: w.opts.withDefaults(), changed: make(map[lexical.Cell]int64)}
		if err := l.load(view); err != nil {
			t.Fatal(err)
		}
		view.Close()
		if used := len(l.files) > 0; used != (name == "as it is") {
			t.Errorf("%s: the generation was used: %v", name, used)
		}
		if err := l.release(); err != nil {
			t.Fatal(err)
		}
		if err := place(w.opts.Folder, good.Files[0].Name, saved, 0o400); err != nil {
			t.Fatal(err)
		}
	}
	w.open()
	w.settled()
	w.same("mia", words(3))
}

// DECISIONS 4, ARCHITECTURE 6: a manifest with any one bit wrong is not used.
func TestDamagedManifestIsNotUsed(t *testing.T) {
	folder := t.TempDir()
	m := manifest{Version: manifestVersion, Format: lexical.FormatVersion, Analyser: lexical.AnalyserVersion, Truth: "t", Sequence: 7, Lineage: -3,
		Missing: spans{{2, 9}}, Files: []entry{{Name: "a.postings", Bytes: 5, Rows: 1, First: 1, Last: 1}}}
	if err := m.write(folder); err != nil {
		t.Fatal(err)
	}
	if got, err := readManifest(folder); err != nil || !reflect.DeepEqual(got, m) {
		t.Fatalf("%+v %v", got, err)
	}
	raw, err := os.ReadFile(filepath.Join(folder, manifestName))
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(raw) * 8 {
		bad := bytes.Clone(raw)
		bad[i/8] ^= 1 << (i % 8)
		if err := os.WriteFile(filepath.Join(folder, manifestName), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readManifest(folder); !errors.Is(err, errNoManifest) {
			t.Fatalf("bit %d: %v", i, err)
		}
	}
}

// Spans are sets of cells, checked against a plain set.
func TestSpans(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var s spans
		set := map[lexical.Cell]bool{}
		for range rapid.IntRange(0, 12).Draw(r, "steps") {
			first := lexical.Cell(rapid.Int64Range(1, 20).Draw(r, "first"))
			x := Span{first, first + lexical.Cell(rapid.Int64Range(0, 5).Draw(r, "more"))}
			add := rapid.Bool().Draw(r, "add")
			if add {
				s = s.with(x)
			} else {
				s = s.without(x)
			}
			for c := x.First; c <= x.Last; c++ {
				set[c] = add
			}
		}
		for c := lexical.Cell(0); c < 30; c++ {
			if s.contains(c) != set[c] {
				r.Fatalf("%v contains %d: %v", s, c, !set[c])
			}
		}
		for i := 1; i < len(s); i++ {
			if s[i].First <= s[i-1].Last+1 {
				r.Fatalf("%v could be shorter", s)
			}
		}
	})
	if s := everyCell().without(Span{1, math.MaxInt64}); len(s) != 0 {
		t.Errorf("%v is left of everything", s)
	}
}

// ARCHITECTURE 8.6, DECISIONS 2: records whose cells are not built are read
// directly when they are few, else counted in the answer; the other cells of the
// scope answer.
func TestWhatIsNotBuiltIsSaid(t *testing.T) {
	w := newWorld(t, Options{})
	w.flood(memory.Cell{Agent: "mia", Project: "atlas"}, 300, words)
	w.flood(memory.Cell{Agent: "mia"}, 40, words)
	w.closeIndex()
	if err := os.RemoveAll(w.opts.Folder); err != nil {
		t.Fatal(err)
	}
	view := w.view()
	defer view.Close()
	cells, err := view.Cells(memory.Scope{Agent: "mia"})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(direct int64) Answer {
		o := w.opts
		o.DirectRows = direct
		l := &Lexical{store: w.store, opts: o.withDefaults(), changed: make(map[lexical.Cell]int64), forgotten: make(map[string]bool)}
		if err := l.load(view); err != nil {
			t.Fatal(err)
		}
		for _, c := range cells { // the smaller cell is built
			if c.Cell.Project == "" {
				id := lexical.Cell(c.ID)
				l.missing = l.missing.without(Span{id, id})
				for d, err := range texts(view, []lexical.Cell{id}) {
					if err != nil {
						t.Fatal(err)
					}
					if err := l.add([]lexical.Doc{d}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		a, err := l.Search(context.Background(), view, cells, WordQuery{Query: lexical.Query{Text: words(3), Kind: memory.KindMemory, K: 500}})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := ask(1_000); a.NotBuilt != 0 || a.Rows != 340 {
		t.Errorf("read directly: %d rows, %d not built", a.Rows, a.NotBuilt)
	}
	if a := ask(339); a.NotBuilt != 300 || a.Rows != 40 || len(a.Hits) == 0 {
		t.Errorf("too many to read directly: %d rows, %d not built, %d hits", a.Rows, a.NotBuilt, len(a.Hits))
	}
	w.open()
}

// DECISIONS 4: a snapshot that is older than what was searched since is answered
// as it was, with postings, by reading it, or not at all.
func TestOlderSnapshotIsReadAsItWas(t *testing.T) {
	w := newWorld(t, Options{DirectRows: 100})
	w.flood(cellOf("mia"), 30, words)
	w.flood(cellOf("ken"), 200, words)
	w.settled()
	w.same("mia", words(3)+" freshly")
	old := w.view()
	defer old.Close()
	fresh := w.say(cellOf("mia"), "s", "freshly stored harbor lantern")
	w.say(cellOf("ken"), "s", "freshly stored copper violet")
	if a := w.same("mia", words(3)+" freshly"); !slices.Contains(refs(a.Hits), fresh) {
		t.Fatalf("the new record is not found: %v", refs(a.Hits))
	}
	w.same("ken", words(3)+" freshly")
	for range 2 {
		a, err := w.ask(old, memory.Scope{Agent: "mia"}, words(3)+" freshly", memory.KindMemory)
		if err != nil {
			t.Fatal(err)
		}
		if a.Rows != 30 {
			t.Errorf("%d rows in the older snapshot", a.Rows)
		}
		cells, err := old.Cells(memory.Scope{Agent: "ken"})
		if err != nil {
			t.Fatal(err)
		}
		q := lexical.Query{Text: words(3), Kind: memory.KindMemory, K: 10}
		if _, err := w.index.Search(context.Background(), old, cells, WordQuery{Query: q}); !errors.Is(err, ErrPassed) {
			t.Errorf("too many rows to read: %v, want ErrPassed", err)
		}
		if a, err := w.index.Search(context.Background(), old, cells, WordQuery{Query: q, Patient: true}); err != nil || a.Rows != 200 {
			t.Errorf("with patience: %d rows, %v", a.Rows, err)
		}
		if err := w.index.Seal(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}
