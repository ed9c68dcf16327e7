package client

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner"
)

// TestMain lets the test's own program be the scanner, a process like any other.
func TestMain(m *testing.M) {
	if os.Getenv(scanner.Handshake().MagicCookieKey) != "" {
		if slices.Contains(os.Args, silent) {
			_, _ = io.Copy(io.Discard, os.NewFile(3, "lifeline")) // until its parent is gone
			os.Exit(0)
		}
		scanner.Serve(scanner.Options{Lock: slices.Contains(os.Args, "--mlock")})
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const truthID, dims = "truth-1", 64

// silent is the argument of a process that never shakes hands.
const silent = "silent"

// patience bounds calls that must come back: nothing is measured with it.
const patience = 2 * time.Minute

func identity() [32]byte { return sha256.Sum256([]byte("model")) }

func code(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// segment writes a file of so many records of one block, whose codes are their
// numbers.
func segment(t *testing.T, dir string, records int) string {
	t.Helper()
	w, err := layout.Create(dir, layout.Spec{Source: layout.Source{TruthID: truthID, Model: 1, Identity: identity(), Dims: dims}, Kind: layout.Signs, Lean: true, Sequence: 1, Lineage: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(records) {
		if err := w.Add(layout.Row{Cell: layout.Cell{Agent: 1}, Ref: memory.Ref{Kind: memory.KindMemory, ID: i + 1}, Code: code(uint64(i + 1))}); err != nil {
			t.Fatal(err)
		}
	}
	name, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func published(generation uint64, names ...string) *scannerv1.PublishRequest {
	id := identity()
	p := &scannerv1.PublishRequest{Generation: generation, Sequence: 1, Models: []*scannerv1.Model{{Number: 1, Identity: id[:], Dims: dims}}}
	for _, name := range names {
		p.Segments = append(p.Segments, &scannerv1.Segment{Model: 1, Name: name})
	}
	return p
}

func options(t *testing.T, dir string) Options {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sockets, err := os.MkdirTemp("", "rs") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(sockets) })
	return Options{Command: []string{program}, Folder: dir, TruthID: truthID, Runtime: sockets, StartTimeout: patience,
		MinBackOff: time.Millisecond, MaxBackOff: 10 * time.Millisecond}
}

func newClient(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(o.Runtime); err != nil || len(left) != 0 {
			t.Errorf("left of sockets: %v, %v", left, err)
		}
	})
	return c
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// child is the running process; nil: none. Signals go through it, so that none
// reaches another process under the same number.
func (c *Client) child() *os.Process {
	c.mu.Lock()
	a := c.attempt
	c.mu.Unlock()
	if a == nil {
		return nil
	}
	<-a.done
	if a.process == nil {
		return nil
	}
	return a.process.command.Process
}

func nearestTo(n uint64) *scannerv1.ScanRequest {
	return &scannerv1.ScanRequest{Sequence: 1, Model: 1, Scope: &scannerv1.Scope{Agent: 1}, Queries: []*scannerv1.Query{{Code: code(n), Rows: 1}}}
}

// finds reports whether an answer is that of record n, which has the query's code.
func finds(reply *scannerv1.ScanReply, n uint64, rows uint64) bool {
	if len(reply.GetAnswers()) != 1 {
		return false
	}
	hits := reply.GetAnswers()[0].GetRows()
	return slices.Equal(hits.GetIds(), []int64{int64(n)}) && slices.Equal(hits.GetDistances(), []uint32{0}) && reply.GetRowsScanned() == rows
}

func put(n int64) *scannerv1.Change {
	return &scannerv1.Change{Model: 1, Cell: &scannerv1.Cell{Agent: 1}, Ref: &scannerv1.Ref{Kind: scannerv1.Kind_KIND_MEMORY, Id: n},
		Blocks: []*scannerv1.Block{{Code: code(uint64(n))}}}
}

// A process killed again and again, while others ask and records come, gives
// right answers or errors that say so; every change that was applied is in the
// next process.
//
// DECISIONS 4
func TestKilledScannerComesBack(t *testing.T) {
	const kills, records, askers = 6, 500, 3
	dir := t.TempDir()
	c := newClient(t, options(t, dir))
	ctx := soon(t)
	if _, err := c.Publish(ctx, published(1, segment(t, dir, records))); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	stop := make(chan struct{})
	for asker := range uint64(askers) {
		wait.Go(func() {
			for n := uint64(0); ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				want := 1 + (n*7+asker)%records
				reply, err := c.Scan(ctx, nearestTo(want))
				switch {
				case errors.Is(err, ErrUnavailable): // said
				case err != nil:
					t.Errorf("scan: %v", err)
				case !slices.Equal(reply.GetAnswers()[0].GetRows().GetIds(), []int64{int64(want)}):
					t.Errorf("wrong answer to %d: %v", want, reply)
				}
			}
		})
	}
	for i := range int64(kills) {
		for killed := false; !killed; {
			if _, err := c.Stats(ctx); err != nil && !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
				t.Fatal(err)
			}
			p := c.child()
			killed = p != nil && p.Kill() == nil // else it was dropped meanwhile
		}
		apply := &scannerv1.ApplyRequest{Generation: 1, Sequence: 2 + i, Changes: []*scannerv1.Change{put(records + 1 + i)}}
		if _, err := c.Apply(ctx, apply); err != nil && !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		want := uint64(records + 1 + i)
		r := nearestTo(want)
		r.Sequence = 2 + i
		for {
			reply, err := c.Scan(ctx, r)
			if errors.Is(err, ErrUnavailable) && ctx.Err() == nil {
				continue
			}
			if err != nil || !finds(reply, want, want) {
				t.Fatalf("after kill %d: %v, %v", i, reply, err)
			}
			break
		}
	}
	close(stop)
	wait.Wait()
	if n := c.Starts(); n < kills {
		t.Errorf("%d starts after %d kills", n, kills)
	}
}

// One call survives the death of its process without the caller noticing.
func TestLostCallIsMadeAgain(t *testing.T) {
	dir := t.TempDir()
	c := newClient(t, options(t, dir))
	ctx := soon(t)
	if _, err := c.Publish(ctx, published(1, segment(t, dir, 9))); err != nil {
		t.Fatal(err)
	}
	if err := c.child().Kill(); err != nil {
		t.Fatal(err)
	}
	reply, err := c.Scan(ctx, nearestTo(4))
	if err != nil || !finds(reply, 4, 9) {
		t.Fatal(reply, err)
	}
	if c.Starts() != 2 {
		t.Errorf("%d starts, not 2", c.Starts())
	}
}

// Record vectors that came after the files are in the next process as well.
//
// DECISIONS 4, 20
func TestKilledScannerRanksAgain(t *testing.T) {
	c := newClient(t, options(t, t.TempDir()))
	ctx := soon(t)
	if _, err := c.Publish(ctx, published(1)); err != nil {
		t.Fatal(err)
	}
	vector := make([]byte, dims)
	vector[0] = 127
	apply := &scannerv1.ApplyRequest{Generation: 1, Sequence: 2, Vectors: []*scannerv1.VectorChange{{Model: 1, Cell: &scannerv1.Cell{Agent: 1},
		Ref: &scannerv1.Ref{Kind: scannerv1.Kind_KIND_MEMORY, Id: 7}, Code: vector, Scale: 1. / 127}}}
	if _, err := c.Apply(ctx, apply); err != nil {
		t.Fatal(err)
	}
	if err := c.child().Kill(); err != nil {
		t.Fatal(err)
	}
	reply, err := c.Rank(ctx, &scannerv1.RankRequest{Sequence: 2, Model: 1, Scope: &scannerv1.Scope{Agent: 1}, Code: vector, Scale: 1. / 127, K: 1})
	if err != nil || len(reply.GetRefs()) != 1 || reply.GetRefs()[0].GetId() != 7 || c.Starts() != 2 {
		t.Errorf("%v, %v after %d starts", reply, err, c.Starts())
	}
}

// A process that stands still costs the call its deadline, and is then replaced.
func TestHangingScannerIsReplaced(t *testing.T) {
	dir := t.TempDir()
	o := options(t, dir)
	o.HangTimeout = 250 * time.Millisecond
	c := newClient(t, o)
	if _, err := c.Publish(soon(t), published(1, segment(t, dir, 9))); err != nil {
		t.Fatal(err)
	}
	stopped := c.child()
	if err := stopped.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	patient := soon(t)
	for { // the signal takes effect some time later
		hurried, cancel := context.WithTimeout(patient, 250*time.Millisecond)
		reply, err := c.Scan(hurried, nearestTo(4))
		cancel()
		if patient.Err() != nil || err != nil && !errors.Is(err, ErrUnavailable) || err == nil && !finds(reply, 4, 9) {
			t.Fatal(reply, err)
		}
		if err == nil && c.child() != stopped {
			break
		}
	}
}

// What cannot start is ErrUnavailable, not a wait.
func TestProgramThatIsNoScanner(t *testing.T) {
	dir := t.TempDir()
	for _, command := range [][]string{{filepath.Join(dir, "missing")}, {"/bin/true"}, {"/bin/echo", "1|99|unix|nowhere|grpc"}} {
		o := options(t, dir)
		o.Command = command
		c := newClient(t, o)
		if _, err := c.Stats(soon(t)); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%v: %v", command, err)
		}
	}
}

// Each refusal has its kind, and leaves what was there.
func TestErrorsHaveKinds(t *testing.T) {
	dir := t.TempDir()
	c := newClient(t, options(t, dir))
	ctx := soon(t)
	if _, err := c.Scan(ctx, nearestTo(1)); !errors.Is(err, ErrBehind) {
		t.Errorf("before the first generation: %v", err)
	}
	good := segment(t, dir, 9)
	if _, err := c.Publish(ctx, published(1, good)); err != nil {
		t.Fatal(err)
	}
	behind := nearestTo(1)
	behind.Sequence = 2
	if _, err := c.Scan(ctx, behind); !errors.Is(err, ErrBehind) {
		t.Errorf("a change that is not there: %v", err)
	}
	narrow := nearestTo(1)
	narrow.Queries[0].Code = narrow.GetQueries()[0].GetCode()[1:]
	if _, err := c.Scan(ctx, narrow); !errors.Is(err, ErrRefused) {
		t.Errorf("a narrow query: %v", err)
	}
	var file *FileError
	if _, err := c.Publish(ctx, published(2, good, "missing.bits")); !errors.As(err, &file) || !errors.Is(err, ErrFile) || file.File != "missing.bits" {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := c.Apply(ctx, &scannerv1.ApplyRequest{Generation: 2, Sequence: 2}); !errors.Is(err, ErrRefused) {
		t.Errorf("another generation's change: %v", err)
	}
	// The refused ones are not given to the next process either.
	if err := c.child().Kill(); err != nil {
		t.Fatal(err)
	}
	reply, err := c.Scan(ctx, nearestTo(4))
	if err != nil || !finds(reply, 4, 9) || reply.GetState().GetGeneration() != 1 {
		t.Errorf("after all that: %v, %v", reply, err)
	}
}

// A generation that a file keeps a process from taking can be replaced.
func TestPublishAfterAFileIsGone(t *testing.T) {
	dir := t.TempDir()
	c := newClient(t, options(t, dir))
	ctx := soon(t)
	name := segment(t, dir, 9)
	if _, err := c.Publish(ctx, published(1, name)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	if err := c.child().Kill(); err != nil {
		t.Fatal(err)
	}
	var file *FileError
	if _, err := c.Scan(ctx, nearestTo(4)); !errors.As(err, &file) || file.File != name {
		t.Fatalf("with the file gone: %v", err)
	}
	state, err := c.Publish(ctx, published(2))
	if err != nil || state.GetGeneration() != 2 {
		t.Fatal(state, err)
	}
	reply, err := c.Scan(ctx, nearestTo(4))
	if err != nil || reply.GetRowsScanned() != 0 || reply.GetState().GetGeneration() != 2 {
		t.Error(reply, err)
	}
}

// The process ends when the lifeline does, as when its parent was killed.
func TestScannerEndsWithItsParent(t *testing.T) {
	c := newClient(t, options(t, t.TempDir()))
	if _, err := c.Publish(soon(t), published(1)); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	p := c.attempt.process
	c.mu.Unlock()
	if err := p.lifeline.Close(); err != nil {
		t.Fatal(err)
	}
	ctx := soon(t)
	for !p.plugin.Exited() {
		if ctx.Err() != nil {
			t.Fatal("the process is still there")
		}
		runtime.Gosched()
	}
}

func TestOptionsAreChecked(t *testing.T) {
	good := options(t, t.TempDir())
	for field, spoil := range map[string]func(*Options){
		"scanner command":        func(o *Options) { o.Command = nil },
		"scanner folder":         func(o *Options) { o.Folder = "derived" },
		"scanner runtime folder": func(o *Options) { o.Runtime = "/" + string(make([]byte, socketRoom)) },
	} {
		o := good
		spoil(&o)
		var refused *memory.FieldError
		if _, err := New(o); !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	c, err := New(good)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Stats(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A process that is to lock codes does, or says why not.
func TestCodesAreLocked(t *testing.T) {
	dir := t.TempDir()
	o := options(t, dir)
	o.Lock = true
	c := newClient(t, o)
	ctx := soon(t)
	if _, err := c.Publish(ctx, published(1, segment(t, dir, 9))); err != nil {
		t.Fatal(err)
	}
	for {
		stats, err := c.Stats(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if stats.GetLockedBytes() == stats.GetMappedBytes() || stats.GetLockProblem() != "" {
			break // the process does it in the background
		}
	}
}

func TestBackOffGrowsToItsLimit(t *testing.T) {
	o := Options{MinBackOff: 50 * time.Millisecond, MaxBackOff: 5 * time.Second}
	for failures, want := range map[int]time.Duration{0: 0, 1: 0, 2: 50 * time.Millisecond, 3: 100 * time.Millisecond, 8: 3200 * time.Millisecond, 9: 5 * time.Second, 1000: 5 * time.Second} {
		if got := o.backOff(failures); got != want {
			t.Errorf("after %d failures %v, not %v", failures, got, want)
		}
	}
}

// DECISIONS 33: a process that is started and says nothing does not keep a client
// from being closed.
func TestCloseDoesNotWaitForAHandshake(t *testing.T) {
	o := options(t, t.TempDir())
	o.Command, o.StartTimeout = append(o.Command, silent), 20*time.Second
	c := newClient(t, o)
	a, err := c.running()
	if err != nil {
		t.Fatal(err)
	}
	ctx := soon(t)
	for begun := []os.DirEntry(nil); len(begun) == 0; runtime.Gosched() {
		if begun, err = os.ReadDir(o.Runtime); err != nil || ctx.Err() != nil {
			t.Fatal(err, ctx.Err())
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if a.err == nil || strings.Contains(a.err.Error(), "timeout") {
		t.Errorf("the start ended with %v", a.err)
	}
}

// A call does not wait for a process that takes long to start: its caller has
// another way to answer.
func TestStartIsNotWaitedForLong(t *testing.T) {
	o := options(t, t.TempDir())
	o.Command, o.StartTimeout, o.Patience = append(o.Command, silent), 20*time.Second, time.Millisecond
	c := newClient(t, o)
	a, err := c.running()
	if err != nil {
		t.Fatal(err)
	}
	ctx := soon(t)
	if _, err := c.Scan(ctx, nearestTo(1)); !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
		t.Error(err)
	}
	select {
	case <-a.done:
		t.Errorf("the call waited for the start to end with %v", a.err)
	default:
	}
}

// Half of a call's own time is as long as it waits, however patient it may be.
func TestStartLeavesTheCallerHalfOfItsTime(t *testing.T) {
	a := &attempt{done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := a.wait(ctx, patience, time.Now); !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
		t.Errorf("%v, with the context at %v", err, ctx.Err())
	}
}

// A process that stands still is replaced long before the call's time is over, and
// the call is made again.
func TestHangingScannerDoesNotCostTheDeadline(t *testing.T) {
	dir := t.TempDir()
	o := options(t, dir)
	o.SignAfter, o.HangTimeout = time.Millisecond, 250*time.Millisecond
	c := newClient(t, o)
	ctx := soon(t)
	if _, err := c.Publish(ctx, published(1, segment(t, dir, 9))); err != nil {
		t.Fatal(err)
	}
	stopped := c.child()
	if err := stopped.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for c.child() == stopped { // the signal takes effect some time later
		if reply, err := c.Scan(ctx, nearestTo(4)); err != nil || !finds(reply, 4, 9) {
			t.Fatal(reply, err)
		}
	}
}

// What is wrong with the command is said in a line that names it.
func TestWrongCommandIsNamed(t *testing.T) {
	o := options(t, t.TempDir())
	o.Command = []string{"/bin/false", "scanner"}
	c := newClient(t, o)
	_, err := c.Stats(soon(t))
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), `"/bin/false scanner"`) || !strings.Contains(err.Error(), "must be recalld scanner") {
		t.Errorf("%v", err)
	}
}

// A stream serves one call after the other; one whose caller left, or that ended
// with an error, serves none.
func TestStreamsAreUsedAgain(t *testing.T) {
	dir := t.TempDir()
	c := newClient(t, options(t, dir))
	ctx := soon(t)
	if _, err := c.Publish(ctx, published(1, segment(t, dir, 9))); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	scans := &c.attempt.process.scans
	c.mu.Unlock()
	idle := func() []*stream[scannerv1.ScanRequest, scannerv1.ScanReply] {
		scans.mu.Lock()
		defer scans.mu.Unlock()
		return slices.Clone(scans.idle)
	}
	ask := func(n uint64) {
		t.Helper()
		if reply, err := c.Scan(ctx, nearestTo(n)); err != nil || !finds(reply, n, 9) {
			t.Fatal(reply, err)
		}
	}
	ask(1)
	first := idle()
	ask(2)
	if len(first) != 1 || !slices.Equal(idle(), first) {
		t.Errorf("%d streams after one call, %d after two", len(first), len(idle()))
	}
	behind := nearestTo(1)
	behind.Sequence = 2
	if _, err := c.Scan(ctx, behind); !errors.Is(err, ErrBehind) || len(idle()) != 0 || first[0].ctx.Err() == nil {
		t.Errorf("%v; %d streams after an error", err, len(idle()))
	}
	ask(3)
	left, leave := context.WithCancel(ctx)
	leave()
	if _, err := c.Scan(left, nearestTo(4)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	ask(5)
	if c.Starts() != 1 {
		t.Errorf("%d starts", c.Starts())
	}
}

// Columns of different lengths are no answer.
func TestTornAnswersAreRefused(t *testing.T) {
	good := func() *scannerv1.Hits {
		return &scannerv1.Hits{Kinds: make([]scannerv1.Kind, 2), Ids: make([]int64, 2), Blocks: make([]uint32, 2), Distances: make([]uint32, 2), Dots: make([]int32, 2), Norms: make([]uint32, 2)}
	}
	for name, spoil := range map[string]func(*scannerv1.Hits){
		"kinds":     func(h *scannerv1.Hits) { h.Kinds = h.Kinds[:1] },
		"ids":       func(h *scannerv1.Hits) { h.Ids = nil },
		"blocks":    func(h *scannerv1.Hits) { h.Blocks = h.Blocks[:1] },
		"distances": func(h *scannerv1.Hits) { h.Distances = append(h.Distances, 1) },
		"dots":      func(h *scannerv1.Hits) { h.Dots = h.Dots[:1] },
		"norms":     func(h *scannerv1.Hits) { h.Norms = nil },
		"both":      func(h *scannerv1.Hits) { h.Dots, h.Norms = h.Dots[:1], h.Norms[:1] },
	} {
		for _, parents := range []bool{false, true} {
			bad, a := good(), &scannerv1.Answer{Rows: good(), Parents: good()}
			spoil(bad)
			if !whole(&scannerv1.ScanReply{Answers: []*scannerv1.Answer{{}, a}}) {
				t.Fatal("a whole answer is refused")
			}
			if a.Rows = bad; parents {
				a.Rows, a.Parents = good(), bad
			}
			if whole(&scannerv1.ScanReply{Answers: []*scannerv1.Answer{{}, a}}) {
				t.Errorf("%s, of parents %v: taken", name, parents)
			}
		}
	}
}
