package shards

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"recalld/layout"
	"recalld/memory"
	"recalld/scanner"
	"recalld/sqlite"
)

// busyWorld is one whose rebuilds do a page at a time.
func busyWorld(t testing.TB, o CodesOptions) *codesWorld {
	o.Busy = func() bool { return true }
	return newCodesWorld(t, 20, o)
}

// beginRebuild begins one that the test goes on with.
func (w *codesWorld) beginRebuild() {
	w.t.Helper()
	if more, err := w.codes.beginRenewal(w.t.Context()); err != nil || !more {
		w.t.Fatal(more, err)
	}
}

// finishRebuild does what is left of it.
func (w *codesWorld) finishRebuild() {
	w.t.Helper()
	for more := true; more; {
		var err error
		if more, err = w.codes.renew(w.t.Context(), nil); err != nil {
			w.t.Fatal(err)
		}
	}
}

// whole fails unless the files that are there are those of the generation in use,
// and no file is damaged.
func (w *codesWorld) whole() {
	w.t.Helper()
	if names, files := w.codes.current().names(), w.filesOf(); len(names) != len(files) {
		w.t.Errorf("there are %d files, %d of them named", len(files), len(names))
	}
	if _, err := os.Stat(filepath.Join(w.opts.Folder, renewalFolder)); !errors.Is(err, os.ErrNotExist) {
		w.t.Errorf("of a rebuild something is left: %v", err)
	}
	if damaged, err := w.codes.Verify(context.Background(), false, nil); err != nil || len(damaged) > 0 {
		w.t.Errorf("damaged: %v, %v", damaged, err)
	}
}

// DECISIONS 1, 5, ARCHITECTURE 6: the files before a rebuild answer until the new
// ones are whole, for every agent and after each stretch, whatever is stored,
// changed, moved, deleted and sealed meanwhile; one generation follows the other.
func TestCodesRebuildServesFromTheFilesBefore(t *testing.T) {
	for _, lean := range []bool{false, true} {
		w := busyWorld(t, CodesOptions{Lean: lean})
		ctx := t.Context()
		agents := []string{"mia", "ken", "田中", "李雷"}
		kept := make(map[string][]memory.Ref)
		for _, agent := range agents {
			kept[agent] = append(w.fill(cellOf(agent), 9), w.fill(memory.Cell{Agent: agent, Project: "p"}, 4)...)
		}
		w.tidy()
		w.beginRebuild()
		before := w.codes.current().Number
		stretches, inside := 0, 0
		for more := true; more; stretches++ {
			if f := w.codes.renewal; f.after != (memory.Ref{}) {
				inside++
			}
			for i, agent := range agents {
				w.same(agent)
				refs, other := kept[agent], memory.Cell{Agent: agent, Project: fmt.Sprint("p", stretches%3)}
				switch ref := refs[(stretches*7+i)%len(refs)]; (stretches + i) % 5 {
				case 0:
					kept[agent] = append(refs, w.fill(other, 1)...)
				case 1:
					if _, err := w.store.Update(ctx, agent, ref, sqlite.Patch{Project: &other.Project}); err != nil && !errors.Is(err, memory.ErrNotFound) {
						t.Fatal(err)
					}
				case 2:
					w.block(agent, w.model, w.dims, ref, 4, 9_000+stretches)
					w.embed(agent, w.model, ref, w.vector(9_000+stretches))
				case 3:
					if stretches%3 == 0 {
						if _, err := w.store.Delete(ctx, agent, []memory.Ref{ref}); err != nil {
							t.Fatal(err)
						}
					}
				}
				w.same(agent)
			}
			number := w.codes.current().Number
			if stretches == 5 {
				if err := w.codes.Seal(ctx); err != nil {
					t.Fatal(err)
				}
				before = w.codes.current().Number
			} else if number != before {
				t.Fatalf("after stretch %d the generation is %d, not %d", stretches, number, before)
			}
			var err error
			if more, err = w.codes.renew(ctx, nil); err != nil {
				t.Fatal(err)
			}
		}
		if after := w.codes.current(); after.Number != before+1 || stretches < 20 || inside < 5 {
			t.Errorf("generation %d after %d, %d stretches, %d of them inside a cell", after.Number, before, stretches, inside)
		}
		for _, agent := range agents {
			w.same(agent)
		}
		w.whole()
		w.close()
	}
}

// What is stored where a rebuild has read already comes from the log, and what is
// stored where it still has to read does not come twice: the new files alone have
// every row once.
func TestCodesRebuildHasEveryRowOnce(t *testing.T) {
	w := busyWorld(t, CodesOptions{})
	refs := w.fill(cellOf("mia"), 12)
	w.tidy()
	w.beginRebuild()
	f := w.codes.renewal
	edges := 0
	for more := true; more; {
		// The record that was read last changes, and the one that is read next; most of
		// them never again.
		for _, at := range []int{slices.Index(refs, f.after), slices.Index(refs, f.after) + 1} {
			switch {
			case f.after == memory.Ref{} || at < 0 || at >= len(refs) || f.plan == len(f.plans):
			case f.plans[f.plan].kind == layout.Signs:
				w.block("mia", w.model, w.dims, refs[at], 3, at+700)
				w.embed("mia", w.model, refs[at], w.vector(at+900)) // which are read later
				edges++
			default:
				w.embed("mia", w.model, refs[at], w.vector(at+500))
				edges++
			}
		}
		err := errors.Join(f.cut(), f.m.catchUpAll())
		if err != nil {
			t.Fatal(err)
		}
		if more, err = w.codes.renew(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	live := int64(0)
	for _, s := range w.codes.current().Segments {
		live += s.Rows - s.Gone
	}
	if want := int64(len(refs) * (3 + 1)); live != want || edges < 10 {
		t.Errorf("the files have %d live rows, the store %d; %d changes", live, want, edges)
	}
	w.same("mia")
	w.whole()
}

// catchUpAll takes the whole log into files.
func (m *maker) catchUpAll() error {
	for {
		if more, err := m.seal(1); err != nil || !more {
			return err
		}
	}
}

// DECISIONS 14: when an erasure returns in the middle of a rebuild, no file, old,
// new or not yet finished, has codes or values of the text, and the rebuild goes on
// with what it has.
func TestCodesErasedWhileRebuilding(t *testing.T) {
	w := busyWorld(t, CodesOptions{})
	refs := w.fill(cellOf("mia"), 40)
	first := refs[0].ID
	traces := func(ref memory.Ref) (all [][]byte) {
		seed := int(ref.ID-first) + 1
		for i := range 3 {
			v := w.vector(1000 + 3*seed + i)
			values, _ := memory.Int8(v)
			all = append(all, values)
		}
		values, _ := memory.Int8(w.vector(seed))
		return append(all, values, layout.FloatBytes(nil, w.vector(seed)))
	}
	w.tidy()
	for i, trace := range traces(refs[3]) {
		if len(w.holding(trace)) == 0 {
			t.Fatalf("trace %d is in no file to begin with", i)
		}
	}
	w.beginRebuild()
	f := w.codes.renewal
	inNew := 0
	for i, more := 0, true; more; i++ {
		if i%4 == 3 && len(refs) > 8 {
			// The record that was read last, or one of long ago, or one not read yet.
			at := []int{slices.Index(refs, f.after), 0, len(refs) - 1}[i/4%3]
			ref := refs[max(at, 0)]
			refs = slices.DeleteFunc(refs, func(r memory.Ref) bool { return r == ref })
			text := fmt.Sprintf("another text of this record with number %d, of about the same length.", i)
			var err error
			if i%8 == 3 {
				_, err = w.store.Delete(t.Context(), "mia", []memory.Ref{ref})
			} else {
				_, err = w.store.Update(t.Context(), "mia", ref, sqlite.Patch{Content: &text})
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := f.cut(); err != nil {
				t.Fatal(err)
			}
			for _, name := range w.holding(traces(ref)[0]) {
				if _, err := os.Stat(filepath.Join(f.m.dir, name)); err == nil {
					inNew++
				}
			}
			if err := w.codes.Erase(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, trace := range traces(ref) {
				if in := w.holding(trace); len(in) > 0 {
					t.Fatalf("after stretch %d %v is still in %v", i, ref, in)
				}
			}
			if w.codes.renewal != f {
				t.Fatal("the rebuild was given up")
			}
			w.same("mia")
		}
		var err error
		if more, err = w.codes.renew(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if inNew == 0 {
		t.Error("nothing that was erased had been in a new file")
	}
	w.same("mia")
	w.whole()
}

// Rows that wait in a file which is not finished are erased with it.
func TestCodesErasedFromAnUnfinishedFile(t *testing.T) {
	w := busyWorld(t, CodesOptions{})
	w.codes.segmentBytes, w.codes.valueBytes = 1<<20, 1<<20
	refs := w.fill(cellOf("mia"), 9)
	w.tidy()
	w.beginRebuild()
	for range 2 {
		if more, err := w.codes.renew(t.Context(), nil); err != nil || !more {
			t.Fatal(more, err)
		}
	}
	f := w.codes.renewal
	if f.draft == nil || f.after != refs[3] {
		t.Fatalf("the rebuild is behind %v", f.after)
	}
	if _, err := w.store.Delete(t.Context(), "mia", refs[1:2]); err != nil {
		t.Fatal(err)
	}
	if err := w.codes.Erase(t.Context()); err != nil {
		t.Fatal(err)
	}
	values, _ := memory.Int8(w.vector(1000 + 3*2))
	if in := w.holding(values); len(in) > 0 || f.draft != nil {
		t.Errorf("the values are in %v, unfinished %v", in, f.draft != nil)
	}
	w.finishRebuild()
	if in := w.holding(values); len(in) > 0 {
		t.Errorf("after the rebuild the values are in %v", in)
	}
	w.same("mia")
	w.whole()
}

// The log is kept from where the files of a rebuild end, though those in use are
// further.
func TestCodesRebuildKeepsTheLog(t *testing.T) {
	w := busyWorld(t, CodesOptions{})
	w.fill(cellOf("mia"), 9)
	w.tidy()
	w.beginRebuild()
	begun := w.codes.current().Sequence
	w.fill(cellOf("mia"), 2)
	if err := w.codes.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sealed, used := w.codes.Sealed(), w.codes.current().Sequence; sealed != begun || used <= begun {
		t.Errorf("the log is kept from change %d, the rebuild needs %d, the files in use have %d", sealed, begun, used)
	}
	w.finishRebuild()
	if sealed, used := w.codes.Sealed(), w.codes.current().Sequence; sealed != used {
		t.Errorf("after the rebuild the log is kept from change %d, the files have %d", sealed, used)
	}
	w.same("mia")
}

// A rebuild that ends early, because who asked has gone, the matrices are closed or
// the process is killed, leaves the files before it, and nothing else.
func TestCodesRebuildThatEndsEarly(t *testing.T) {
	w := busyWorld(t, CodesOptions{})
	w.fill(cellOf("mia"), 9)
	w.tidy()
	before := w.codes.current()
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err := w.codes.Rebuild(ctx, func(int64, int64) {
		if calls++; calls == 5 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || w.codes.renewal != nil || w.codes.Sealed() != before.Sequence {
		t.Errorf("%v, renewal %v", err, w.codes.renewal)
	}
	w.same("mia")
	w.whole()
	for range 2 {
		w.beginRebuild()
		for range 6 {
			if _, err := w.codes.renew(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		if items, err := os.ReadDir(filepath.Join(w.opts.Folder, renewalFolder)); err != nil || len(items) == 0 {
			t.Fatal("a rebuild has no file", err)
		}
		w.closeCodes() // as a process that is killed
		w.open()
		if begun, err := w.codes.load(t.Context()); err != nil || !begun {
			t.Fatal(begun, err)
		}
		if err := w.codes.revive(t.Context()); err != nil {
			t.Fatal(err)
		}
		if now := w.codes.current(); now.Number != before.Number {
			t.Errorf("generation %d, before %d", now.Number, before.Number)
		}
		w.same("mia")
		w.whole()
	}
	w.beginRebuild()
	if err := w.codes.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.codes.renew(t.Context(), nil); !errors.Is(err, errClosed) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := os.Stat(filepath.Join(w.opts.Folder, renewalFolder)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a rebuild something is left: %v", err)
	}
	w.open()
	w.tidy()
}

// A rebuild in whose course everything is dropped ends with everything built.
func TestCodesDroppedWhileRebuilding(t *testing.T) {
	w := busyWorld(t, CodesOptions{})
	w.fill(cellOf("mia"), 9)
	w.tidy()
	calls := 0
	err := w.codes.Rebuild(t.Context(), func(int64, int64) {
		if calls++; calls == 4 {
			w.codes.mu.take() // as a question that finds the log trimmed
			view := w.view()
			err := errors.Join(w.codes.startOver(t.Context(), view), view.Close())
			w.codes.mu.unlock()
			if err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil || calls < 4 {
		t.Fatal(err, calls)
	}
	w.tidy()
	w.same("mia")
	w.whole()
}

// A file in use that is damaged is set aside though a rebuild has made one of the
// same name, and the rebuild brings its rows back.
func TestCodesDamagedWhileRebuilding(t *testing.T) {
	w := busyWorld(t, CodesOptions{Lean: true})
	w.fill(cellOf("mia"), 9)
	w.fill(cellOf("ken"), 3)
	w.tidy()
	old := w.codes.current()
	w.beginRebuild()
	name := old.Segments[0].Name
	for made := false; !made; {
		if more, err := w.codes.renew(t.Context(), nil); err != nil || !more {
			t.Fatal("the rebuild has made no file of that name", err)
		}
		_, err := os.Stat(filepath.Join(w.codes.renewal.m.dir, name))
		made = err == nil
	}
	if err := w.codes.setAside(t.Context(), &badFile{name, errors.New("as a test says")}); err != nil {
		t.Fatal(err)
	}
	missing := len(w.codes.current().Missing)
	w.finishRebuild()
	if missing == 0 || len(w.codes.current().Missing) > 0 {
		t.Errorf("%d ranges missing before, %v after", missing, w.codes.current().Missing)
	}
	w.same("mia")
	w.same("ken")
	w.whole()
}

// ARCHITECTURE 6, 8.1: a process that is killed at any moment of a rebuild leaves
// the files before it or the new ones, and every agent is answered by them at once.
func TestCodesKilledWhileRebuilding(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	for i := range 4 {
		w.fill(cellOf(fmt.Sprint("agent", i)), 30)
	}
	w.tidy()
	w.closeCodes()
	r := rand.New(rand.NewPCG(5, 6))
	for range 8 {
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		killChild(t, rebuildChild, w.folder, time.Duration(r.IntN(120))*time.Millisecond)
		w.openStore()
		w.open()
		if begun, err := w.codes.load(t.Context()); err != nil || !begun {
			t.Fatal(begun, err)
		}
		if err := w.codes.revive(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			w.same(fmt.Sprint("agent", i))
		}
		w.whole()
		w.closeCodes()
	}
	w.open()
}

const rebuildChild = "CODES_TEST_REBUILD_FOLDER"

// In the child of the test above this rebuilds without end.
func init() {
	folder := os.Getenv(rebuildChild)
	if folder == "" || os.Getenv(scanner.Handshake().MagicCookieKey) != "" {
		return
	}
	w := childWorld(folder)
	w.codes.segmentBytes, w.codes.valueBytes, w.codes.pageSets, w.codes.pageVectors = 256, 4096, 2, 3
	w.tidy()
	fmt.Println("rebuilding")
	for i := 0; ; i++ {
		if err := w.codes.Rebuild(context.Background(), nil); err != nil {
			w.t.Fatal(err)
		}
		w.fill(cellOf(fmt.Sprint("agent", i%4)), 1)
	}
}

// A disk that is full in the middle of a rebuild ends it with an error; the files
// before it answer, and nothing of it is left.
func TestCodesFullDiskWhileRebuilding(t *testing.T) {
	w := newCodesWorld(t, 256, CodesOptions{})
	w.fill(cellOf("mia"), 200)
	w.closeCodes()
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), fullRebuildChild+"="+w.folder)
	out, err := child.CombinedOutput()
	if err != nil || string(out) != "full, and as before\n" {
		t.Errorf("%v: %s", err, out)
	}
	w.open()
	w.tidy()
	w.same("mia")
}

const fullRebuildChild = "CODES_TEST_FULL_REBUILD_FOLDER"

// In the child of the test above this fills the disk.
func init() {
	folder := os.Getenv(fullRebuildChild)
	if folder == "" || os.Getenv(scanner.Handshake().MagicCookieKey) != "" {
		return
	}
	w := childWorld(folder)
	ctx := context.Background()
	w.tidy()
	before := w.filesOf()
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		w.t.Fatal(err)
	}
	full := syscall.Rlimit{Cur: 20_000, Max: limit.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		w.t.Fatal(err)
	}
	err := w.codes.Rebuild(ctx, nil)
	w.same("mia")
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		w.t.Fatal(err)
	}
	_, left := os.Stat(filepath.Join(w.opts.Folder, renewalFolder))
	if !errors.Is(err, syscall.EFBIG) || !slices.Equal(before, w.filesOf()) || !errors.Is(left, os.ErrNotExist) {
		w.t.Fatalf("%v, files %v, before %v, %v", err, w.filesOf(), before, left)
	}
	if err := w.codes.Rebuild(ctx, nil); err != nil {
		w.t.Fatal(err)
	}
	w.same("mia")
	if err := errors.Join(w.codes.Close(), w.store.Close(), os.RemoveAll(w.opts.Runtime)); err != nil {
		w.t.Fatal(err)
	}
	fmt.Println("full, and as before")
	os.Exit(0)
}

// A rebuild says from its beginning to its end, and no longer, how many rows of how
// many it has read, and since when; one that is given up and begins anew says so from
// then on.
func TestCodesRebuildSaysHowFarItIs(t *testing.T) {
	now := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	w := busyWorld(t, CodesOptions{Clock: func() time.Time { return now }})
	state := func() *RebuildState { return w.codes.State(t.Context()).Rebuild }
	w.fill(cellOf("mia"), 9)
	w.fill(cellOf("田中"), 4)
	const rows = (9 + 4) * (3 + 1)
	w.tidy()
	if r := state(); r != nil {
		t.Errorf("before it begins: %+v", r)
	}
	w.beginRebuild()
	begun := now
	now = now.Add(time.Hour)
	if r := state(); r == nil || *r != (RebuildState{Total: rows, Since: begun}) {
		t.Errorf("at its beginning: %+v", r)
	}
	last, between := int64(0), 0
	for more := true; more; {
		var err error
		if more, err = w.codes.renew(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		r := state()
		if !more {
			break
		}
		if r == nil || r.Rows < last || r.Rows > rows || r.Total != rows || !r.Since.Equal(begun) {
			t.Fatalf("after %d rows: %+v", last, r)
		}
		if last < r.Rows && r.Rows < rows {
			between++
		}
		last = r.Rows
	}
	if r := state(); r != nil || between < 5 || last < rows-3 {
		t.Errorf("at its end %+v, %d steps between, %d rows read before the last", r, between, last)
	}
	w.beginRebuild()
	if err := w.codes.dropRenewal(); err != nil {
		t.Fatal(err)
	}
	if r := state(); r != nil {
		t.Errorf("given up: %+v", r)
	}
	w.fill(cellOf("mia"), 1)
	w.beginRebuild()
	if r := state(); r == nil || *r != (RebuildState{Total: rows + 4, Since: now}) {
		t.Errorf("begun anew: %+v", r)
	}
	w.finishRebuild()
	w.whole()
}
