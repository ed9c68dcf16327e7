package shards

import (
	"context"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"recalld/memory"
	"recalld/scanner/client"
	"recalld/sqlite"
)

// DECISIONS 4, 20: what is stored is answered by the scanner in the next call,
// from files and from what came after them.
func TestCodesAnswerLikeTheStore(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	w.fill(cellOf("mia"), 40)
	w.fill(memory.Cell{Agent: "ken", Project: "p"}, 10)
	w.notBuilt("mia")
	w.tidy()
	w.same("mia")
	w.same("ken")
	if s := w.codes.State(t.Context()); s.Rows != 4*50 || s.DeltaRows != 0 || s.Built != 2 || s.Total != 2 || s.Lag != 0 || s.Trouble != "" {
		t.Errorf("%+v", s)
	}
	w.fill(cellOf("mia"), 5)
	w.same("mia")
	w.same("ken")
	if s := w.codes.State(t.Context()); s.DeltaRows != 4*5 {
		t.Errorf("%+v", s)
	}
}

// DECISIONS 29: two names with one key are not told apart in a file: whoever has
// such names is not answered from files, and nobody sees another's rows.
func TestCodesOfNamesWithOneKeyAreNotKept(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	keys := map[string]uint64{"mia": 5, "ken": 5, "ann": 7, "eve": 9, "bob": 9, "p": 1, "q": 1, "c": 2, "d": 2, "zero": 0, "sam": 11, "tom": 12}
	w.codes.names = newDirectory(func(name string) uint64 { return keys[name] })
	for _, cell := range []memory.Cell{
		{Agent: "mia"}, {Agent: "ken"}, {Agent: "ann", Project: "p"}, {Agent: "ann", Project: "q"},
		{Agent: "eve", Project: "p"}, {Agent: "sam", Channel: "c"}, {Agent: "sam", Channel: "d"}, {Agent: "tom", Project: "zero"},
	} {
		w.fill(cell, 4)
	}
	w.tidy()
	w.same("eve")
	for _, agent := range []string{"mia", "ken", "ann", "sam", "tom"} {
		w.notBuilt(agent)
	}
	q := "q"
	view := w.view()
	if err := w.askBlocks(view, w.blockQuery(memory.Scope{Agent: "eve", Project: &q}, 7)); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("a project that has the key of another: %v", err)
	}
	if err := w.askBlocks(view, w.blockQuery(memory.Scope{Agent: "bob"}, 7)); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("an agent that has the key of another: %v", err)
	}
	view.Close()
	if s := w.codes.State(t.Context()); s.Built != 1 || s.Total != 8 {
		t.Errorf("%+v", s)
	}
	w.fill(cellOf("bob"), 2)
	w.notBuilt("bob")
	w.notBuilt("eve")
}

// DECISIONS 4: a generation of another store, another history, or another kind is
// not used.
func TestCodesOfAnotherHistoryAreBuiltAnew(t *testing.T) {
	for name, change := range map[string]func(*catalog){
		"another store":           func(k *catalog) { k.Truth = "another" },
		"another lineage":         func(k *catalog) { k.Lineage++ },
		"rows of another lineage": func(k *catalog) { k.SeenLineage++ },
		"rows of the future":      func(k *catalog) { k.Seen += 1_000_000 },
		"a change of the future":  func(k *catalog) { k.Sequence += 1_000_000 },
		"another splitter":        func(k *catalog) { k.Policy++ },
		"another version":         func(k *catalog) { k.Version++ },
		"another format":          func(k *catalog) { k.Format-- },
		"another form":            func(k *catalog) { k.Lean = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := newCodesWorld(t, 20, CodesOptions{})
			w.fill(cellOf("mia"), 20)
			w.tidy()
			w.closeCodes()
			k, err := readCatalog(w.opts.Folder, false)
			if err != nil {
				t.Fatal(err)
			}
			before := w.filesOf()
			change(&k)
			if err := k.write(w.opts.Folder); err != nil {
				t.Fatal(err)
			}
			w.open()
			if begun, err := w.codes.load(t.Context()); err != nil || !begun {
				t.Fatal(begun, err)
			}
			if files := w.filesOf(); len(before) == 0 || len(files) > 0 {
				t.Errorf("before %v, after %v", before, files)
			}
			w.notBuilt("mia")
			w.tidy()
			w.same("mia")
		})
	}
}

// A catalog that is torn, or that somebody wrote to, is not used either.
func TestCodesWithoutACatalogAreBuiltAnew(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"torn":  func(path string) error { return os.Truncate(path, 100) },
		"gone":  os.Remove,
		"empty": func(path string) error { return os.Truncate(path, 0) },
		"folder": func(path string) error {
			return errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "x"), 0o700))
		},
		"flipped": func(path string) error {
			b, err := os.ReadFile(path)
			b[50] ^= 1
			return errors.Join(err, os.WriteFile(path, b, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCodesWorld(t, 20, CodesOptions{})
			w.fill(cellOf("mia"), 20)
			w.tidy()
			w.closeCodes()
			if err := spoil(filepath.Join(w.opts.Folder, catalogName)); err != nil {
				t.Fatal(err)
			}
			w.open()
			w.notBuilt("mia")
			w.tidy()
			w.same("mia")
		})
	}
}

// DECISIONS 4: when the log was trimmed past what the scanner holds, everything is
// built anew.
func TestCodesBehindATrimmedLogAreBuiltAnew(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	refs := w.fill(cellOf("mia"), 20)
	w.tidy()
	if _, err := w.store.Delete(t.Context(), "mia", refs[:5]); err != nil {
		t.Fatal(err)
	}
	if sealed := w.codes.Sealed(); sealed >= w.newest() {
		t.Fatalf("the files hold everything up to %d", sealed)
	}
	if err := w.store.TrimChanges(t.Context(), w.newest()); err != nil {
		t.Fatal(err)
	}
	w.notBuilt("mia")
	w.tidy()
	w.same("mia")
	// The same for files that are behind while nobody asks.
	if _, err := w.store.Delete(t.Context(), "mia", refs[5:9]); err != nil {
		t.Fatal(err)
	}
	if err := w.store.TrimChanges(t.Context(), w.newest()); err != nil {
		t.Fatal(err)
	}
	if err := w.codes.Seal(t.Context()); !errors.Is(err, errTrimmed) {
		t.Errorf("a seal ends with %v", err)
	}
	if err := w.codes.Erase(t.Context()); err != nil {
		t.Errorf("an erasure ends with %v", err)
	}
	w.tidy()
	w.same("mia")
}

// newest is the newest change.
func (w *codesWorld) newest() int64 {
	view := w.view()
	defer view.Close()
	return view.Seq()
}

// ARCHITECTURE 6: a restart goes on from the files, and reads nothing anew but
// what came since.
func TestCodesGoOnFromTheirFiles(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	w.fill(cellOf("mia"), 20)
	w.tidy()
	w.fill(cellOf("mia"), 3)
	w.same("mia")
	before := w.filesOf()
	w.closeCodes()
	w.open()
	w.tidy()
	w.same("mia")
	if s := w.codes.State(t.Context()); !slices.Equal(w.filesOf(), before) || s.DeltaRows != 4*3 || s.Rows != 4*20 {
		t.Errorf("%+v, %v", s, w.filesOf())
	}
	if err := w.codes.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.same("mia")
	if s := w.codes.State(t.Context()); s.DeltaRows != 0 || s.Rows != 4*23 || w.codes.Sealed() != w.newest() {
		t.Errorf("%+v, sealed up to %d of %d", s, w.codes.Sealed(), w.newest())
	}
}

// The process of a store with few rows is not started, and the log need not be
// kept for it.
func TestCodesOfSmallStoresAreNotBuilt(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{MinRows: 100})
	w.fill(cellOf("mia"), 20)
	w.tidy()
	w.notBuilt("mia")
	if w.codes.client.Starts() != 0 || w.codes.Sealed() != math.MaxInt64 {
		t.Errorf("%d processes, sealed up to %d", w.codes.client.Starts(), w.codes.Sealed())
	}
	if w.codes.State(t.Context()).Building {
		t.Error("it says that it is building, and there is nothing to build")
	}
	w.fill(cellOf("mia"), 5)
	if !w.codes.State(t.Context()).Building {
		t.Error("it says that there is nothing to build before it looked again")
	}
	w.tidy()
	w.same("mia")
	if stats := w.codes.Stats(t.Context()); stats.GetProcess() == 0 || stats.GetScans() == 0 {
		t.Errorf("%v", stats)
	}
	if w.codes.client.Starts() != 1 {
		t.Errorf("%d processes", w.codes.client.Starts())
	}
}

// DECISIONS 10: a model that came later is told of; one that is gone is dropped,
// with its files.
func TestCodesOfModelsThatComeAndGo(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	refs := w.fill(cellOf("mia"), 20)
	w.tidy()
	second := w.putModel("second", 40)
	for i, ref := range refs {
		w.embed("mia", second, ref, vectorOfWidth(i, 40))
		w.block("mia", second, 40, ref, 2, i)
	}
	first := w.model
	for range 2 {
		w.model, w.dims = second, 40
		w.same("mia")
		w.model, w.dims = first, 20
		w.same("mia")
		if err := w.codes.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.store.SetModelState(t.Context(), first, sqlite.ModelRetired); err != nil {
		t.Fatal(err)
	}
	w.notBuilt("mia")
	w.tidy()
	w.notBuilt("mia")
	w.model, w.dims = second, 40
	w.same("mia")
	for _, s := range w.codes.current().Segments {
		if s.Model == first {
			t.Errorf("%s is left of a model that is gone", s.Name)
		}
	}
	if names := w.codes.current().names(); len(names) != len(w.filesOf()) {
		t.Errorf("files %v, named %v", w.filesOf(), slices.Collect(maps.Keys(names)))
	}
}

// BR-107: a model without a measured identity has no current sets, whatever files
// have.
func TestCodesOfAModelThatWasNotMeasured(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	w.fill(cellOf("mia"), 3)
	w.tidy()
	w.same("mia")
	if err := w.store.SetProbes(t.Context(), w.model, nil); err != nil {
		t.Fatal(err)
	}
	view := w.view()
	defer view.Close()
	if err := w.askBlocks(view, w.blockQuery(memory.Scope{Agent: "mia"}, 1)); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("the answer is %v", err)
	}
	if _, err := w.askRecords(view, RecordQuery{Model: w.model, Scope: memory.Scope{Agent: "mia"}, Vector: w.vector(1), K: 2}); err != nil {
		t.Errorf("its vectors are compared: %v", err)
	}
}

// A record whose codes fit no message is answered once it is in a file.
func TestCodesOfVeryLongRecordsWaitForAFile(t *testing.T) {
	w := newCodesWorld(t, 64, CodesOptions{})
	w.fill(cellOf("mia"), 3)
	w.tidy()
	w.codes.recordBytes = 100
	ref := w.keep(memory.KindMemory, cellOf("mia"))
	w.block("mia", w.model, 64, ref, 5, 9) // its codes alone have 40 bytes
	view := w.view()
	q := w.blockQuery(memory.Scope{Agent: "mia"}, 9)
	got, err := w.codes.Blocks(t.Context(), view, q)
	if err != nil || got.Scanned != 14 || got.Rows[0].Ref != ref || got.Rows[0].Norm != 0 {
		t.Errorf("without values: %+v, %v", got, err)
	}
	view.Close()
	w.codes.recordBytes = 30
	w.block("mia", w.model, 64, ref, 5, 10)
	w.notBuilt("mia")
	w.tidy()
	w.same("mia")
}

// What cannot work is said at once.
func TestCodesOptionsAreChecked(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	for name, o := range map[string]CodesOptions{
		"no command":    {Folder: w.opts.Folder, Runtime: w.opts.Runtime},
		"long sockets":  {Folder: w.opts.Folder, Command: w.opts.Command, Runtime: "/" + strings.Repeat("x", 80)},
		"no socket dir": {Folder: w.opts.Folder, Command: w.opts.Command},
	} {
		if _, err := OpenCodes(t.Context(), w.store, o); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A scanner that cannot be started is said at once, by each question and by the
// state; files are built all the same, and it is used when it can be.
func TestCodesWithoutAScanner(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	w.closeCodes()
	right := w.opts.Command
	w.opts.Command = []string{filepath.Join(w.folder, "there-is-no-such-program")}
	w.open()
	w.fill(cellOf("mia"), 20)
	if err := w.codes.tidy(t.Context()); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("the goroutine finds %v", err)
	}
	view := w.view()
	for range 50 {
		if err := w.ask(view, "mia"); !errors.Is(err, client.ErrUnavailable) || errors.Is(err, ErrNotBuilt) {
			t.Fatalf("the answer is %v", err)
		}
	}
	view.Close()
	if s := w.codes.State(t.Context()); s.Trouble == "" || w.codes.Stats(t.Context()) != nil {
		t.Errorf("%+v", s)
	}
	if len(w.filesOf()) == 0 || len(w.codes.current().Missing) > 0 {
		t.Errorf("files %v", w.filesOf())
	}
	w.closeCodes()
	w.opts.Command = right
	w.open()
	w.tidy()
	w.same("mia")
}

// The goroutine does all of this on its own.
func TestCodesRunOnTheirOwn(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{SealRows: 40})
	w.closeCodes()
	w.fill(cellOf("mia"), 20)
	c, err := OpenCodes(context.Background(), w.store, w.opts)
	if err != nil {
		t.Fatal(err)
	}
	w.codes = c
	eventually(t, c, "everything is built", func() bool {
		view := w.view()
		defer view.Close()
		return w.ask(view, "mia") == nil
	})
	w.fill(cellOf("mia"), 30)
	w.same("mia")
	eventually(t, c, "the rest is sealed", func() bool { s := c.State(t.Context()); return s.DeltaRows == 0 && s.Rows == 4*50 })
	w.same("mia")
}

// DECISIONS 4: a snapshot that the scanner has passed is answered when nothing of
// the scope changed in between, by what came since or by files, and not otherwise.
func TestCodesOlderSnapshot(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	refs := w.fill(cellOf("mia"), 5)
	w.fill(memory.Cell{Agent: "ken", Project: "p"}, 5)
	w.tidy()
	old := w.view()
	w.fill(cellOf("mia"), 1)
	w.same("mia")
	if err := w.ask(old, "ken"); err != nil {
		t.Errorf("nothing of ken changed: %v", err)
	}
	if err := w.ask(old, "mia"); !errors.Is(err, ErrPassed) {
		t.Errorf("the scanner has one record more: %v", err)
	}
	old.Close()

	old = w.view()
	w.embed("mia", w.model, refs[0], w.vector(900))
	w.same("mia")
	if err := w.askBlocks(old, w.blockQuery(memory.Scope{Agent: "mia"}, 7)); err != nil {
		t.Errorf("no block changed: %v", err)
	}
	if _, err := w.askRecords(old, RecordQuery{Model: w.model, Scope: memory.Scope{Agent: "mia"}, Vector: w.vector(7), K: 3}); !errors.Is(err, ErrPassed) {
		t.Errorf("a vector changed: %v", err)
	}
	old.Close()

	old = w.view()
	w.fill(cellOf("mia"), 1)
	if err := w.codes.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.ask(old, "mia"); !errors.Is(err, ErrPassed) {
		t.Errorf("files have one record more: %v", err)
	}
	old.Close()
	w.same("mia")
}

// BR-095, DECISIONS 4: a record that moved is in its new cell alone, also after its
// move is in files.
func TestCodesOfARecordThatMoved(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	refs := w.fill(memory.Cell{Agent: "mia", Project: "p"}, 6)
	w.tidy()
	p, q, none := "p", "q", ""
	for i, to := range []*string{&q, &none, &p} {
		for _, ref := range refs[i*2 : i*2+2] {
			for _, project := range []*string{&q, to} {
				if _, err := w.store.Update(t.Context(), "mia", ref, sqlite.Patch{Project: project}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 2 {
			view := w.view()
			for _, project := range []*string{nil, &p, &q, &none} {
				if err := w.askBlocks(view, w.blockQuery(memory.Scope{Agent: "mia", Project: project}, 5)); err != nil {
					t.Fatal(err)
				}
			}
			view.Close()
			if err := w.codes.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// DECISIONS 4: when it is not known what the scanner holds, it is asked, and told
// the rest.
func TestCodesDoubtIsResolved(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	w.fill(cellOf("mia"), 5)
	w.tidy()
	w.fill(cellOf("mia"), 2)
	w.same("mia")
	doubt := func() {
		if err := w.codes.doubt(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	doubt()
	w.same("mia")
	// A generation of which the scanner was not told.
	w.codes.mu.take()
	w.codes.down = errors.New("for the test")
	w.codes.mu.unlock()
	w.fill(cellOf("mia"), 2)
	if err := w.codes.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.codes.mu.take()
	w.codes.down = nil
	w.codes.mu.unlock()
	w.same("mia")
	if stats := w.codes.Stats(t.Context()); stats.GetState().GetGeneration() != w.codes.current().Number {
		t.Errorf("the scanner has generation %d", stats.GetState().GetGeneration())
	}
	// Whoever is first to take changes over may leave, and the scanner may end: the
	// next one is answered.
	for range 4 {
		w.fill(cellOf("mia"), 1)
		older := w.view()
		w.fill(cellOf("mia"), 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		view := w.view()
		if err := w.codes.follow(ctx, view); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		view.Close()
		if err := w.ask(older, "mia"); err != nil && !errors.Is(err, ErrPassed) {
			t.Error(err)
		}
		older.Close()
		w.kill()
		w.same("mia")
	}
}

// kill ends the scanner's process.
func (w *codesWorld) kill() {
	w.t.Helper()
	stats := w.codes.Stats(context.Background())
	if err := syscall.Kill(int(stats.GetProcess()), syscall.SIGKILL); err != nil {
		w.t.Fatal(err)
	}
}

// ARCHITECTURE 6: a scanner that hangs is given up by who asks, also without a
// deadline of his own, and replaced.
func TestCodesScannerThatHangs(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	w.fill(cellOf("mia"), 5)
	w.tidy()
	w.same("mia")
	w.codes.askTime = 300 * time.Millisecond
	for _, more := range []int{0, 1} {
		w.fill(cellOf("mia"), more)
		stats := w.codes.Stats(t.Context())
		if err := syscall.Kill(int(stats.GetProcess()), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		view := w.view()
		err := w.ask(view, "mia")
		for range 10_000 {
			if err != nil {
				break
			}
			err = w.ask(view, "mia") // the signal takes a moment
		}
		if !errors.Is(err, client.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) && t.Context().Err() != nil {
			t.Errorf("the answer is %v", err)
		}
		view.Close()
		if err := syscall.Kill(int(stats.GetProcess()), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		w.heal()
		w.same("mia")
	}
}

// ARCHITECTURE 6: a generation that is made while no process can be started, and
// whose forerunner's files are gone, is what the next process is told.
func TestCodesGenerationOfAnOutage(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	w.fill(cellOf("mia"), 10)
	w.tidy()
	for range 2 {
		w.fill(cellOf("mia"), 10)
		if err := w.codes.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.same("mia")
		away := w.opts.Runtime + "-away"
		if err := os.Rename(w.opts.Runtime, away); err != nil {
			t.Fatal(err)
		}
		w.kill()
		view := w.view()
		if err := w.ask(view, "mia"); !errors.Is(err, client.ErrUnavailable) {
			t.Errorf("the answer is %v", err)
		}
		view.Close()
		if _, err := w.codes.Compact(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(away, w.opts.Runtime); err != nil {
			t.Fatal(err)
		}
		w.heal()
		w.same("mia")
	}
}

// What is far behind becomes files before the scanner hears of the rest: no
// question takes over the changes of an import.
func TestCodesFarBehindAreSealedFirst(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	w.fill(cellOf("mia"), 5)
	w.tidy()
	w.codes.changesBehind = 30
	w.fill(cellOf("mia"), 15) // three changes each
	w.notBuilt("mia")
	w.tidy()
	w.same("mia")
	if s := w.codes.State(t.Context()); s.Rows != 4*20 || s.DeltaRows != 0 {
		t.Errorf("%+v", s)
	}
	w.codes.changesBehind = changesBehind
	w.codes.opts.SealBytes = 1_000
	w.fill(cellOf("mia"), 12)
	w.same("mia") // in one step
	w.fill(cellOf("mia"), 1)
	w.notBuilt("mia")
	w.tidy()
	w.same("mia")
}
