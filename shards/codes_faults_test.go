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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"recalld/layout"
	"recalld/memory"
	"recalld/scanner"
	"recalld/scanner/client"
	"recalld/sqlite"
)

// ARCHITECTURE 6: a file of any kind that is damaged, cut, lengthened or gone is
// set aside; until its agents are built again there is no answer for them, and
// never a wrong one.
func TestCodesDamagedFilesAreSetAside(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	w.fill(cellOf("mia"), 30)
	w.fill(cellOf("ken"), 30)
	w.tidy()
	r := rand.New(rand.NewPCG(1, 2))
	wrong := map[string]func(path string, size int) error{
		"flipped": func(path string, size int) error {
			b, err := os.ReadFile(path)
			b[r.IntN(size)] ^= 1 << r.IntN(8)
			return errors.Join(err, os.Chmod(path, 0o600), os.WriteFile(path, b, 0o600))
		},
		"cut": func(path string, size int) error {
			return errors.Join(os.Chmod(path, 0o600), os.Truncate(path, int64(r.IntN(size))))
		},
		"long": func(path string, size int) error {
			return errors.Join(os.Chmod(path, 0o600), os.Truncate(path, int64(size+1+r.IntN(9000))))
		},
		"gone": func(path string, _ int) error { return os.Remove(path) },
	}
	found := 0
	for round := range 24 {
		for _, suffix := range []string{layout.SegmentSuffix, layout.ValuesSuffix, layout.FloatsSuffix} {
			names := slices.DeleteFunc(w.filesOf(), func(s string) bool { return !strings.HasSuffix(s, suffix) })
			name := names[r.IntN(len(names))]
			what := []string{"flipped", "cut", "long", "gone"}[round%4]
			path := filepath.Join(w.opts.Folder, name)
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := wrong[what](path, int(info.Size())); err != nil {
				t.Fatal(err)
			}
			if round%3 == 0 {
				w.closeCodes() // the scanner reads it for the first time
				w.open()
			}
			for _, agent := range []string{"mia", "ken"} {
				view := w.view()
				if err := w.ask(view, agent); err != nil && !errors.Is(err, ErrNotBuilt) {
					t.Fatalf("%s %s: %v", name, what, err)
				}
				view.Close()
			}
			// A damage behind what was read once is the scrub's to find.
			damaged, err := w.codes.Verify(t.Context(), true, nil)
			if err != nil {
				t.Fatal(err)
			}
			found += len(damaged)
			if w.codes.current().names()[name] {
				t.Errorf("%s, %s, is still in use; %v are damaged", name, what, damaged)
			}
			w.heal()
			w.same("mia")
			w.same("ken")
		}
	}
	if s := w.codes.State(t.Context()); s.Quarantined == 0 || found == 0 {
		t.Errorf("%d by the scrub, %+v", found, s)
	}
	if damaged, err := w.codes.Verify(t.Context(), false, nil); err != nil || len(damaged) > 0 {
		t.Errorf("%v, %v", damaged, err)
	}
}

// ARCHITECTURE 6, BR-101: a damaged file that cannot be set aside, as in a folder that nobody may
// write to, is removed when that can be done: what it holds may be deleted later.
func TestCodesFileThatCannotBeSetAside(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	w.fill(cellOf("mia"), 30)
	w.tidy()
	blocked := filepath.Join(w.opts.Folder, quarantined)
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name := range w.codes.current().names() {
		path := filepath.Join(w.opts.Folder, name)
		if err := errors.Join(os.Chmod(path, 0o600), os.Truncate(path, 9)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.codes.Verify(t.Context(), true, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	w.heal()
	w.same("mia")
	used := w.codes.current().names()
	for _, name := range w.filesOf() {
		if !used[name] {
			t.Errorf("%s is still there", name)
		}
	}
}

// BR-101: a path that cannot be looked at may hold what has to be erased; one
// without a folder holds nothing.
func TestHoldsFiles(t *testing.T) {
	dir := t.TempDir()
	file, loop := filepath.Join(dir, "file"), filepath.Join(dir, "loop")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(loop, loop)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{dir: true, loop: true, file: false, filepath.Join(file, "x"): false, filepath.Join(dir, "none"): false} {
		if got := holdsFiles(path); got != want {
			t.Errorf("%s: %v", filepath.Base(path), got)
		}
	}
}

// heal tidies until that goes without an error: each damage is found on its own.
func (w *codesWorld) heal() {
	w.t.Helper()
	for range 200 {
		err := w.codes.tidy(context.Background())
		var bad *badFile
		switch {
		case err == nil:
			return
		case errors.As(err, &bad):
			if err := w.codes.setAside(context.Background(), bad); err != nil {
				w.t.Fatal(err)
			}
		case !errors.Is(err, ErrNotBuilt):
			w.t.Fatal(err)
		}
	}
	w.t.Fatal("it does not heal")
}

// ARCHITECTURE 6: the folder may go at any moment, also while a server runs.
func TestCodesFolderDeletedWhileServing(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	w.fill(cellOf("mia"), 30)
	w.tidy()
	for _, gone := range []string{w.opts.Folder, filepath.Dir(w.opts.Folder)} {
		w.same("mia")
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
		w.fill(cellOf("mia"), 2)
		w.same("mia") // the scanner has the files open
		stats, err := w.codes.client.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(int(stats.GetProcess()), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		w.notBuilt("mia") // and another one cannot open them
		w.heal()
		w.same("mia")
	}
}

// ARCHITECTURE 6: while files cannot be written there is no answer of files, the
// state says why, and once they can everything is built.
func TestCodesFolderThatCannotBeUsed(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	w.fill(cellOf("mia"), 10)
	if err := os.MkdirAll(filepath.Dir(w.opts.Folder), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.opts.Folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.closeCodes()
	c, err := OpenCodes(context.Background(), w.store, w.opts)
	if err != nil {
		t.Fatal(err)
	}
	w.codes = c
	eventually(t, c, "the trouble is said", func() bool { return strings.Contains(c.State(t.Context()).Trouble, "not a directory") })
	w.notBuilt("mia")
	if err := os.Remove(w.opts.Folder); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, "the trouble is over", func() bool { s := c.State(t.Context()); return s.Trouble == "" && !s.Building })
	w.same("mia")
}

// A disk that is full while files are built changes no answer and leaves no file;
// when there is room again everything is built. The limit on the length of files
// stands for the disk; it is a whole process's, and so that of a child.
func TestCodesFullDiskWhileBuilding(t *testing.T) {
	w := newCodesWorld(t, 256, CodesOptions{})
	w.fill(cellOf("mia"), 200)
	w.closeCodes()
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), fullDiskChild+"="+w.folder)
	out, err := child.CombinedOutput()
	if err != nil || string(out) != "full, and whole again\n" {
		t.Errorf("%v: %s", err, out)
	}
	w.open()
	w.tidy()
	w.same("mia")
}

const fullDiskChild = "CODES_TEST_FULL_DISK_FOLDER"

// childWorld opens the folder of the process that started this one.
func childWorld(folder string) *codesWorld {
	w := &codesWorld{t: complainer{}, folder: folder, seed: os.Getpid() * 1000}
	sockets, err := os.MkdirTemp("/tmp", "r")
	if err != nil {
		w.t.Fatal(err)
	}
	w.opts = CodesOptions{Folder: filepath.Join(folder, "derived", "codes"), Command: []string{os.Args[0]}, Runtime: sockets, SealRows: 20, Patience: time.Minute}
	w.openStore()
	models, err := w.store.Models(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	w.model, w.dims = models[0].ID, models[0].Dims
	w.open()
	return w
}

// In the child of the test above this fills the disk.
func init() {
	folder := os.Getenv(fullDiskChild)
	if folder == "" || os.Getenv(scanner.Handshake().MagicCookieKey) != "" {
		return
	}
	w := childWorld(folder)
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		w.t.Fatal(err)
	}
	full := syscall.Rlimit{Cur: 20_000, Max: limit.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		w.t.Fatal(err)
	}
	err := w.codes.tidy(context.Background())
	w.notBuilt("mia")
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		w.t.Fatal(err)
	}
	if !errors.Is(err, syscall.EFBIG) || len(w.filesOf()) > 0 {
		w.t.Fatalf("%v, and files %v", err, w.filesOf())
	}
	w.tidy()
	w.same("mia")
	err = errors.Join(w.codes.Close(), w.store.Close(), os.RemoveAll(w.opts.Runtime))
	if err != nil {
		w.t.Fatal(err)
	}
	fmt.Println("full, and whole again")
	os.Exit(0)
}

// ARCHITECTURE 6: the scanner may be killed at any moment: answers are right, or
// there is none, and one of a known kind.
func TestCodesScannerKilledUnderLoad(t *testing.T) { scannerDeaths(t, 20) }

func scannerDeaths(t *testing.T, deaths int) {
	w := newCodesWorld(t, 20, CodesOptions{SealRows: 60})
	w.closeCodes()
	w.fill(cellOf("mia"), 30)
	w.fill(cellOf("ken"), 5)
	c, err := OpenCodes(context.Background(), w.store, w.opts)
	if err != nil {
		t.Fatal(err)
	}
	w.codes = c
	eventually(t, c, "everything is built", func() bool { return !c.State(t.Context()).Building })
	ctx, stop := context.WithCancel(t.Context())
	var right, passed, notBuilt, gone atomic.Int64
	var tasks sync.WaitGroup
	tasks.Go(func() { // one writer
		for ctx.Err() == nil {
			w.fill(cellOf("mia"), 1)
		}
	})
	for _, agent := range []string{"mia", "ken", "mia"} {
		tasks.Go(func() {
			for ctx.Err() == nil {
				view := w.view()
				err := w.ask(view, agent)
				view.Close()
				switch {
				case err == nil:
					right.Add(1)
				case errors.Is(err, ErrPassed):
					passed.Add(1)
				case errors.Is(err, ErrNotBuilt):
					notBuilt.Add(1)
				case errors.Is(err, client.ErrUnavailable), errors.Is(err, client.ErrBehind):
					gone.Add(1)
				default:
					t.Errorf("%s: %v", agent, err)
					return
				}
			}
		})
	}
	for kills, before := 0, int64(0); kills < deaths; {
		// Between kills some answers come.
		if right.Load() <= before || t.Failed() {
			if t.Failed() {
				break
			}
			time.Sleep(time.Millisecond)
			continue
		}
		stats, err := c.client.Stats(ctx)
		if err != nil {
			continue
		}
		if syscall.Kill(int(stats.GetProcess()), syscall.SIGKILL) == nil {
			kills, before = kills+1, right.Load()
		}
	}
	stop()
	tasks.Wait()
	t.Logf("%d answers, %d in passed snapshots, %d not built, %d without a scanner, %d restarts", right.Load(), passed.Load(), notBuilt.Load(), gone.Load(), c.State(t.Context()).Restarts)
	eventually(t, c, "it is whole again", func() bool { return c.State(t.Context()).Trouble == "" })
	w.same("mia")
	w.same("ken")
}

// ARCHITECTURE 6, 8.1: a process that is killed at any moment, while building,
// sealing, compacting, erasing or publishing, leaves files that answer like the
// store, or none.
func TestCodesKilledWhileMakingFiles(t *testing.T) { makerDeaths(t, 5) }

func makerDeaths(t *testing.T, deaths int) {
	w := newCodesWorld(t, 20, CodesOptions{})
	w.fill(cellOf("mia"), 20)
	w.closeCodes()
	r := rand.New(rand.NewPCG(3, 4))
	built := 0
	for round := range deaths {
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		killChild(t, codesChild, w.folder, time.Duration(r.IntN(200))*time.Millisecond)
		w.openStore()
		w.open()
		if begun, err := w.codes.load(t.Context()); err != nil || !begun {
			t.Fatal(begun, err)
		}
		if err := w.codes.revive(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, agent := range []string{"mia", "ken"} {
			view := w.view()
			err := w.ask(view, agent)
			view.Close()
			if err == nil {
				built++
			} else if !errors.Is(err, ErrNotBuilt) {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		w.heal()
		w.same("mia")
		w.same("ken")
		if names := w.codes.current().names(); len(names) != len(w.filesOf()) {
			t.Errorf("round %d: %d files, %d of them named", round, len(w.filesOf()), len(names))
		}
		if damaged, err := w.codes.Verify(t.Context(), false, nil); err != nil || len(damaged) > 0 {
			t.Errorf("round %d: %v, %v", round, damaged, err)
		}
		w.closeCodes()
	}
	w.open()
	if built == 0 {
		t.Error("nothing was ever built when the process was killed")
	}
}

const codesChild = "CODES_TEST_CHILD_FOLDER"

// In the child of the test above this makes files without end.
func init() {
	folder := os.Getenv(codesChild)
	if folder == "" {
		return
	}
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if err := os.Unsetenv(codesChild); err != nil { // its scanner is another child
		check(err)
	}
	ctx := context.Background()
	sockets, err := os.MkdirTemp(folder, "r")
	check(err)
	store, err := sqlite.Open(ctx, filepath.Join(folder, "recall.db"), sqlite.Options{})
	check(err)
	c, err := newCodes(store, CodesOptions{Folder: filepath.Join(folder, "derived", "codes"), Command: []string{os.Args[0]}, Runtime: sockets, SealRows: 20, Patience: time.Minute})
	check(err)
	c.segmentBytes, c.valueBytes, c.pieceBytes, c.stop = 256, 4096, 1<<13, func() {}
	models, err := store.Models(ctx)
	check(err)
	w := &codesWorld{t: complainer{}, folder: folder, store: store, codes: c, model: models[0].ID, dims: models[0].Dims, seed: os.Getpid() * 1000}
	r := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	var kept []memory.Ref
	for i := 0; ; i++ {
		agent := []string{"mia", "ken"}[r.IntN(2)]
		kept = append(kept, w.fill(cellOf(agent), 2)...)
		if i == 3 {
			fmt.Println("making files")
		}
		switch i % 5 {
		case 0:
			check(c.Seal(ctx))
		case 1:
			ref := kept[r.IntN(len(kept))]
			for _, agent := range []string{"mia", "ken"} {
				_, err := store.Delete(ctx, agent, []memory.Ref{ref})
				check(err)
			}
			check(c.Erase(ctx))
		case 2:
			_, err := c.Compact(ctx, nil)
			check(err)
		case 3:
			check(c.tidy(ctx))
		case 4:
			if i%20 == 4 {
				check(c.Rebuild(ctx, nil))
			}
		}
	}
}

// complainer is the [testing.TB] of a process that is no test.
type complainer struct{ testing.TB }

func (complainer) Helper() {}

// Cleanup does nothing: what the process holds ends with it.
func (complainer) Cleanup(func()) {}

func (complainer) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(1)
}

func (complainer) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}
