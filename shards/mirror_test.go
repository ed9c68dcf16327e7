package shards

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"recalld/lexical"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner/client"
	"recalld/sqlite"
)

// patience bounds calls that must come back: nothing is measured with it.
const patience = time.Minute

// process is a scanner's, and counts the answers that it gave to searches.
type process struct {
	*client.Client
	answers atomic.Int64
	before  atomic.Pointer[func()] // the next search; nil: nothing
}

func (p *process) SearchWords(ctx context.Context, r *scannerv1.SearchWordsRequest) (*scannerv1.SearchWordsReply, error) {
	if before := p.before.Swap(nil); before != nil {
		(*before)()
	}
	reply, err := p.Client.SearchWords(ctx, r)
	if err == nil && !reply.GetPassed() {
		p.answers.Add(1)
	}
	return reply, err
}

// newProcess returns a client for indexes whose folders are in derived. With no
// command the test's own program is the scanner.
func newProcess(t *testing.T, derived string, command ...string) *process {
	t.Helper()
	if command == nil {
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		command = []string{program}
	}
	sockets, err := os.MkdirTemp("", "rs") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{Command: command, Folder: filepath.Join(derived, "codes"), TruthID: "truth-1", Runtime: sockets, Stderr: io.Discard,
		StartTimeout: patience, HangTimeout: 100 * time.Millisecond, MinBackOff: time.Millisecond, MaxBackOff: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), os.RemoveAll(sockets)); err != nil {
			t.Error(err)
		}
	})
	return &process{Client: c}
}

// number is that of the scanner, which is started if there is none.
func (p *process) number(t testing.TB) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for ctx.Err() == nil {
		stats, err := p.Stats(ctx)
		if err == nil {
			return int(stats.GetProcess())
		}
		if errors.Is(err, client.ErrBehind) {
			_, _ = p.Publish(ctx, &scannerv1.PublishRequest{Generation: 1}) // it is asked again
		}
	}
	t.Fatal("there is no scanner")
	return 0
}

// signal sends a signal to the scanner.
func (p *process) signal(t testing.TB, s os.Signal) {
	t.Helper()
	for {
		child, err := os.FindProcess(p.number(t))
		if err == nil && child.Signal(s) == nil {
			return
		} // else it was dropped meanwhile
	}
}

// newMirrored is a world whose index has a copy in a scanner.
func newMirrored(t *testing.T, o Options) (*world, *process) {
	t.Helper()
	w := &world{t: t, folder: t.TempDir(), opts: o}
	p := newProcess(t, filepath.Join(w.folder, "derived"))
	w.opts.Folder = filepath.Join(w.folder, "derived", "lexical")
	w.opts.Remote, w.opts.RemoteRows = p, 1
	if o.RemotePatience == 0 {
		w.opts.RemotePatience = patience
	}
	w.openStore()
	w.open()
	t.Cleanup(w.close)
	return w, p
}

// copied waits until the scanner has a copy of what is stored now.
func (w *world) copied() {
	w.t.Helper()
	view := w.view()
	err := w.index.follow(view)
	if err := errors.Join(err, view.Close()); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("the scanner has a copy", func() bool {
		s := w.index.State()
		return s.Copied || s.Rows+s.Recent == 0 // of which there is none
	})
}

// cut is the version at which files changed places last.
func (w *world) cut() uint64 {
	w.index.mirror.mu.Lock()
	defer w.index.mirror.mu.Unlock()
	return w.index.mirror.cut
}

// twice asks the index, which may ask the scanner, and demands the answer that
// the index gives in this process: every byte of it, the work done included.
func (w *world) twice(view *sqlite.View, scope memory.Scope, q WordQuery) (Answer, error) {
	cells, err := view.Cells(scope)
	if err != nil {
		return Answer{}, err
	}
	q.Patient = true
	for {
		cut := w.cut()
		got, err := w.index.Search(context.Background(), view, cells, q)
		if err != nil {
			return got, err
		}
		q.Keep = q.Only.keep()
		want, err := w.index.here(context.Background(), view, cells, q)
		if err != nil {
			return got, err
		}
		if cut != w.cut() {
			continue // the work depends on the cut into files, which changed
		}
		want.Unavailable = got.Unavailable
		if !reflect.DeepEqual(got, want) {
			return got, fmt.Errorf("%q in %s:\nthrough the process %+v\nin this one        %+v", q.Text, scope.Agent, got, want)
		}
		return got, nil
	}
}

func memoriesOf(text string, k int) WordQuery {
	return WordQuery{Query: lexical.Query{Text: text, Kind: memory.KindMemory, K: k, Explain: true}}
}

// mirrored is twice in a new snapshot.
func (w *world) mirrored(agent, text string) Answer {
	w.t.Helper()
	view := w.view()
	defer view.Close()
	a, err := w.twice(view, memory.Scope{Agent: agent}, memoriesOf(text, 10))
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// DECISIONS 2, 4: whatever is stored, changed, moved and deleted, however it is
// sealed, merged, built anew or reopened, and whenever the scanner is killed, an
// answer through the scanner has the bytes of one in this process, in the newest
// snapshot and in one that stayed open.
func TestCopyInTheScannerGivesTheSameAnswers(t *testing.T) {
	derived := t.TempDir()
	p := newProcess(t, derived)
	check := 0
	rapid.Check(t, func(r *rapid.T) {
		folder, err := os.MkdirTemp("", "shards-")
		if err != nil {
			r.Fatal(err)
		}
		check++
		w := &world{t: t, folder: folder, opts: Options{
			Folder: filepath.Join(derived, fmt.Sprint("lexical", check)), SealRows: 1 << 40, SealText: 1 << 40, BuildText: 60, DirectRows: 1,
			Remote: p, RemoteRows: 1, RemotePatience: patience,
		}}
		w.openStore()
		w.open()
		defer os.RemoveAll(folder)
		defer w.close()
		agents, projects := []string{"mia", "ken"}, []string{"", "atlas"}
		ctx := context.Background()
		var live []memory.Ref
		owner := map[memory.Ref]string{}
		pick := func() (ref memory.Ref, ok bool) {
			if len(live) == 0 {
				return ref, false
			}
			return live[rapid.IntRange(0, len(live)-1).Draw(r, "which")], true
		}
		keep := func(ref memory.Ref, agent string) {
			if ref.ID != 0 && owner[ref] == "" {
				live = append(live, ref)
				owner[ref] = agent
			}
		}
		var old *sqlite.View
		defer func() {
			if old != nil {
				old.Close()
			}
		}()
		ask := func(view *sqlite.View) {
			scope := memory.Scope{Agent: rapid.SampledFrom(agents).Draw(r, "asking")}
			if rapid.Bool().Draw(r, "in project") {
				scope.Project = &projects[1]
			}
			q := memoriesOf(words(rapid.IntRange(0, 30).Draw(r, "query")), rapid.IntRange(1, 12).Draw(r, "k"))
			if rapid.Bool().Draw(r, "some") {
				q.Only = &Only{}
				for id := range int64(60) {
					if id%3 > 0 {
						q.Only.Memories = append(q.Only.Memories, id)
					}
				}
			}
			if rapid.Bool().Draw(r, "episodes") {
				q.Kind, q.Only = memory.KindEpisode, nil
			}
			w.settled()
			w.copied()
			if _, err := w.twice(view, scope, q); err != nil {
				r.Fatal(err)
			}
		}
		r.Repeat(map[string]func(*rapid.T){
			"store": func(*rapid.T) {
				for range rapid.IntRange(1, 4).Draw(r, "n") {
					c := memory.Cell{Agent: rapid.SampledFrom(agents).Draw(r, "agent"), Project: rapid.SampledFrom(projects).Draw(r, "project")}
					keep(w.say(c, rapid.SampledFrom([]string{"", "s1", "s2"}).Draw(r, "session"), words(rapid.IntRange(0, 60).Draw(r, "text"))), c.Agent)
				}
			},
			"episode": func(*rapid.T) {
				agent := rapid.SampledFrom(agents).Draw(r, "agent")
				res, err := w.store.StoreEpisodes(ctx, []sqlite.NewEpisode{{Cell: cellOf(agent), Summary: words(rapid.IntRange(0, 60).Draw(r, "summary"))}})
				if err != nil {
					r.Fatal(err)
				}
				keep(res[0].Ref, agent)
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
					_ = w.update(owner[ref], ref, sqlite.Patch{Time: &memory.Time{Milli: 1 << 40, Offset: -300, Known: true}, Source: &memory.Source{ID: "s3"}}) // it may be deleted
				}
			},
			"delete": func(*rapid.T) {
				if ref, ok := pick(); ok {
					w.delete(owner[ref], ref)
				}
			},
			"seal or merge": func(*rapid.T) {
				if err := w.index.publish(ctx, rapid.Bool().Draw(r, "seal"), func(f []*file) []*file { return f }); err != nil {
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
			"trim too much": func(*rapid.T) {
				view := w.view()
				defer view.Close()
				if err := w.store.TrimChanges(ctx, view.Seq()); err != nil {
					r.Fatal(err)
				}
			},
			"kill": func(*rapid.T) { p.signal(t, syscall.SIGKILL) },
			"keep a snapshot": func(*rapid.T) {
				if old != nil {
					old.Close()
				}
				old = w.view()
			},
			"ask the kept snapshot": func(*rapid.T) {
				if old != nil {
					ask(old)
				}
			},
			"ask": func(*rapid.T) {
				view := w.view()
				defer view.Close()
				ask(view)
			},
		})
	})
	if n := p.answers.Load(); n < 30 {
		t.Errorf("the scanner gave %d answers", n)
	}
}

// DECISIONS 4, ARCHITECTURE 8.5: while others store, change, delete, seal, merge
// and erase, and the scanner is killed, every search gives what reading its own
// snapshot gives.
func TestSearchesThroughTheScannerBesideEverythingElse(t *testing.T) {
	w, p := newMirrored(t, Options{SealRows: 40, BuildText: 500, MaxFile: 1 << 16})
	n := 0
	besideEverythingElse(w, func() {
		if n++; n%16 == 0 {
			p.signal(t, syscall.SIGKILL)
		}
	})
	if p.answers.Load() == 0 {
		t.Error("the scanner gave no answer")
	}
}

// A search in the scanner holds nothing that keeps others from storing and
// searching, and does not answer for a snapshot that its copy has passed.
func TestSearchInTheScannerKeepsNobodyWaiting(t *testing.T) {
	w, p := newMirrored(t, Options{})
	w.flood(cellOf("mia"), 50, words)
	w.flood(cellOf("ken"), 50, words)
	w.settled()
	w.copied()
	entered, leave := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(leave) })
	defer release()
	wait := func() {
		close(entered)
		<-leave
	}
	p.before.Store(&wait)
	type answer struct {
		Answer
		err error
	}
	done := make(chan answer)
	view := w.view()
	defer view.Close()
	cells, err := view.Cells(memory.Scope{Agent: "mia"})
	if err != nil {
		t.Fatal(err)
	}
	before := p.answers.Load()
	go func() {
		a, err := w.index.Search(context.Background(), view, cells, memoriesOf("harbor", 10))
		done <- answer{a, err}
	}()
	select {
	case <-entered:
	case a := <-done:
		t.Fatalf("the scanner was not asked: %+v", a)
	}
	w.say(cellOf("mia"), "s", "harbor harbor harbor")
	if a := w.mirrored("mia", "harbor"); a.Rows != 51 {
		t.Errorf("%d rows beside a search that waits", a.Rows)
	}
	w.say(cellOf("ken"), "s", "harbor")
	w.mirrored("ken", "harbor")
	if got := p.answers.Load() - before; got != 2 {
		t.Errorf("the scanner gave %d answers, not 2", got)
	}
	release()
	if a := <-done; a.err != nil || a.Rows != 50 || a.Unavailable != nil {
		t.Errorf("%d rows, %v, %v", a.Rows, a.err, a.Unavailable)
	}
	if got := p.answers.Load() - before; got != 2 {
		t.Error("the scanner answered for a snapshot that it has passed")
	}
}

// flip changes bits of a file of the index. With touch the file says so, as when a
// program wrote to it; without, as when the disk did.
func (w *world) flip(path string, touch bool) {
	t := w.t.(*testing.T)
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	inPlace(t, path, func(f *os.File, size int64) error {
		b := make([]byte, size)
		if _, err := f.ReadAt(b, 0); err != nil {
			return err
		}
		for i := size / 4; i < size; i += 64 {
			b[i] ^= 1
		}
		_, err := f.WriteAt(b, 0)
		return err
	})
	if !touch {
		if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
}

// ARCHITECTURE 6: a file that is damaged while it is in use is in no answer: it
// is set aside, its cells are built anew, and the scanner answers again. Damage
// that came without a write is found by a scanner that opens the file.
func TestDamageWhileTheScannerServes(t *testing.T) {
	for _, touch := range []bool{true, false} {
		w, p := newMirrored(t, Options{})
		w.flood(cellOf("mia"), 200, words)
		if err := w.index.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.copied()
		want := w.mirrored("mia", "harbor lantern")
		w.index.mu.RLock()
		path := filepath.Join(w.opts.Folder, w.index.files[0].Name)
		w.index.mu.RUnlock()
		ask := func() {
			view := w.view()
			defer view.Close()
			cells, err := view.Cells(memory.Scope{Agent: "mia"})
			if err != nil {
				t.Fatal(err)
			}
			if _, ok, _ := w.index.elsewhere(t.Context(), view, cells, memoriesOf("harbor lantern", 10)); ok && !touch {
				t.Error("the scanner answered from a damaged file")
			}
		}
		w.flip(path, touch)
		if !touch {
			p.signal(t, syscall.SIGKILL) // the next one verifies anew
		}
		w.eventually("the file is set aside", func() bool {
			if touch {
				if got := w.mirrored("mia", "harbor lantern"); !reflect.DeepEqual(got.Hits, want.Hits) {
					t.Fatalf("got %+v, want %+v", got.Hits, want.Hits)
				}
			} else {
				ask()
			}
			_, err := os.Stat(filepath.Join(w.opts.Folder, quarantined, filepath.Base(path)))
			return err == nil
		})
		w.settled()
		w.copied()
		before := p.answers.Load()
		if got := w.mirrored("mia", "harbor lantern"); !reflect.DeepEqual(got.Hits, want.Hits) || p.answers.Load() == before {
			t.Errorf("after it was built anew: %+v, and the scanner answered %d times", got, p.answers.Load()-before)
		}
	}
}

// A data folder may be named relative to where the server was started.
func TestCopyInTheScannerOfARelativeFolder(t *testing.T) {
	w := &world{t: t, folder: t.TempDir()}
	t.Chdir(w.folder)
	p := newProcess(t, filepath.Join(w.folder, "derived"))
	w.opts = Options{Folder: filepath.Join("derived", "lexical"), Remote: p, RemoteRows: 1, RemotePatience: patience}
	w.openStore()
	w.open()
	t.Cleanup(w.close)
	w.flood(cellOf("mia"), 30, words)
	w.settled()
	w.copied()
	if err := w.mirrored("mia", "harbor").Unavailable; err != nil {
		t.Error(err)
	}
}

// What cannot start costs no answer, and the caller learns of it.
func TestScannerThatCannotStart(t *testing.T) {
	w := &world{t: t, folder: t.TempDir()}
	p := newProcess(t, filepath.Join(w.folder, "derived"), filepath.Join(w.folder, "missing"))
	w.opts = Options{Folder: filepath.Join(w.folder, "derived", "lexical"), Remote: p, RemoteRows: 1}
	w.openStore()
	w.open()
	t.Cleanup(w.close)
	w.flood(cellOf("mia"), 30, words)
	w.settled()
	w.eventually("a missing program is said", func() bool { return errors.Is(w.mirrored("mia", "harbor").Unavailable, client.ErrUnavailable) })
	if w.index.State().Copied {
		t.Error("there is a copy without a process")
	}
}

// What hangs costs no answer either, and another one takes its place.
func TestScannerThatHangs(t *testing.T) {
	w, p := newMirrored(t, Options{RemotePatience: 250 * time.Millisecond})
	w.flood(cellOf("mia"), 30, words)
	w.settled()
	w.copied()
	p.signal(t, syscall.SIGSTOP)
	w.eventually("a scanner that hangs is said", func() bool { return errors.Is(w.mirrored("mia", "harbor").Unavailable, client.ErrUnavailable) })
	before := p.answers.Load()
	w.eventually("another one answers", func() bool { return w.mirrored("mia", "harbor").Unavailable == nil && p.answers.Load() > before })
}

// DECISIONS 1: an agent's answer through the scanner, the work done included, is
// the same with and without neighbours.
func TestNeighboursAreNotInTheScannersAnswers(t *testing.T) {
	var answers []Answer
	for _, neighbours := range []int{0, 500} {
		w, p := newMirrored(t, Options{})
		w.flood(cellOf("mia"), 60, words)
		if err := w.index.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.flood(cellOf("ken"), neighbours, words)
		w.settled()
		w.copied()
		answers = append(answers, w.mirrored("mia", "harbor lantern copper 会議"))
		if p.answers.Load() == 0 {
			t.Error("the scanner gave no answer")
		}
	}
	if !reflect.DeepEqual(answers[0], answers[1]) {
		t.Errorf("alone %+v\nbeside %+v", answers[0], answers[1])
	}
}

// DECISIONS 4, 18: what a query could have said is read from the scanner's answer.
func TestAskedIsReadFromTheScannersAnswer(t *testing.T) {
	got, err := resultOf(memory.KindMemory, &scannerv1.SearchWordsReply{Asked: 7, Rows: 3})
	if err != nil || got.Asked != 7 || got.Rows != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}
