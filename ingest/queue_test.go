package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"recalld/embed"
	"recalld/memory"
	"recalld/sqlite"
)

// flaky is the hashing model behind a switch: time and failure are the test's.
type flaky struct {
	embed.Model
	down  atomic.Bool
	slow  chan struct{} // when set, a call waits for it or for its context
	calls atomic.Int64
}

func (f *flaky) Embed(ctx context.Context, p embed.Purpose, texts []string) ([][]float32, error) {
	f.calls.Add(1)
	if f.slow != nil {
		select {
		case <-f.slow:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if f.down.Load() {
		return nil, fmt.Errorf("%w: nobody listens", embed.ErrUnavailable)
	}
	return f.Model.Embed(ctx, p, texts)
}

type queueWorld struct {
	store   *sqlite.Store
	model   *flaky
	id      int64
	now     atomic.Int64
	options QueueOptions
}

func newQueueWorld(t *testing.T) *queueWorld {
	t.Helper()
	w := &queueWorld{}
	w.now.Store(1_800_000_000_000)
	clock := func() time.Time { return time.UnixMilli(w.now.Load()) }
	var err error
	if w.store, err = sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "recall.db"), sqlite.Options{Clock: clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
	hash, err := embed.Open(embed.Config{Backend: "hash"})
	if err != nil {
		t.Fatal(err)
	}
	w.model = &flaky{Model: hash}
	identity, err := hash.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if w.id, err = w.store.PutModel(t.Context(), sqlite.Model{Backend: "hash", Name: "h", Dims: identity.Dims, Probes: identity.Probes, State: sqlite.ModelActive}); err != nil {
		t.Fatal(err)
	}
	w.options = QueueOptions{Queue: w.store, Clock: clock, Log: slog.New(slog.DiscardHandler),
		Model: func(context.Context) (embed.Model, int64, error) { return w.model, w.id, nil }}
	return w
}

func (w *queueWorld) put(t *testing.T, n int) {
	t.Helper()
	items := make([]sqlite.NewMemory, n)
	for i := range items {
		items[i] = sqlite.NewMemory{Cell: memory.Cell{Agent: "mia"}, Content: fmt.Sprint("note ", i)}
	}
	if _, err := w.store.StoreMemories(t.Context(), items); err != nil {
		t.Fatal(err)
	}
}

func (w *queueWorld) embedded(t *testing.T) int64 {
	t.Helper()
	view, err := w.store.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	stats, err := view.Stats(memory.Scope{Agent: "mia"})
	if err != nil {
		t.Fatal(err)
	}
	return stats.Embedded[w.id]
}

// Issue 2.4, BR-178: records without a vector are found, and embedded in fixed
// batches in the order of their queueing.
func TestQueueEmbedsWhatIsMissing(t *testing.T) {
	w := newQueueWorld(t)
	w.put(t, 2*QueueBatch+3)
	var drained []int64
	w.options.Drained = func(_ context.Context, model int64) error { drained = append(drained, model); return nil }
	if err := NewQueueWorker(w.options).Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.embedded(t); n != 2*QueueBatch+3 || w.model.calls.Load() != 3 || len(drained) != 1 || drained[0] != w.id {
		t.Errorf("%d embedded in %d calls, drained %v", n, w.model.calls.Load(), drained)
	}
}

// Issue 2.4: a failure is told, the tasks are due again later and not before,
// and the wait doubles.
func TestQueueRetriesLater(t *testing.T) {
	w := newQueueWorld(t)
	w.put(t, 2)
	w.model.down.Store(true)
	var observed []error
	w.options.Observe = func(err error) { observed = append(observed, err) }
	worker := NewQueueWorker(w.options)
	for i, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		if err := worker.Drain(t.Context()); !errors.Is(err, embed.ErrUnavailable) {
			t.Fatalf("failure %d: %v", i+1, err)
		}
		calls := w.model.calls.Load()
		w.now.Add(wait.Milliseconds() - 1)
		if err := worker.Drain(t.Context()); err != nil || w.model.calls.Load() != calls {
			t.Errorf("failure %d: tried again before %s: %v", i+1, wait, err)
		}
		w.now.Add(1)
	}
	w.model.down.Store(false)
	if err := worker.Drain(t.Context()); err != nil || w.embedded(t) != 2 {
		t.Errorf("%d embedded, %v", w.embedded(t), err)
	}
	if len(observed) != 4 || observed[2] == nil || observed[3] != nil {
		t.Errorf("observed %v", observed)
	}
	if q, err := w.store.QueueStats(t.Context()); err != nil || q.Pending != 0 {
		t.Errorf("%+v, %v", q, err)
	}
}

var errFullDisk = errors.New("disk is full")

// fullDisk is a store that keeps nothing while it is full.
type fullDisk struct {
	*sqlite.Store
	full bool
}

func (f *fullDisk) PutVectors(ctx context.Context, vectors []sqlite.Vector) ([]bool, error) {
	if f.full {
		return nil, errFullDisk
	}
	return f.Store.PutVectors(ctx, vectors)
}

func (f *fullDisk) FinishBlocks(ctx context.Context, b sqlite.BlockBatch, outcomes []sqlite.BlockOutcome) (int, error) {
	if f.full {
		return 0, errFullDisk
	}
	return f.Store.FinishBlocks(ctx, b, outcomes)
}

// A store that keeps nothing is tried at growing distances although the model
// answers every time, with vectors and with blocks; what is kept ends that.
// Issue 2.4, BR-111
func TestFullDiskIsTriedLessOften(t *testing.T) {
	for _, what := range []string{"vectors", "blocks"} {
		t.Run(what, func(t *testing.T) {
			w := newBlockWorld(t)
			disk := &fullDisk{Store: w.store, full: true}
			if what == "vectors" {
				w.options.Blocks, w.options.Queue = nil, disk
			} else {
				w.options.Blocks = disk
			}
			worker := NewQueueWorker(w.options)
			tryFor := func(want time.Duration) {
				t.Helper()
				for { // a step that puts records in the queue is work, not a failure
					more, wait, err := worker.step(t.Context(), true)
					if err == nil && more {
						continue
					}
					if !errors.Is(err, errFullDisk) || wait != want {
						t.Errorf("rests %s, want %s: %v", wait, want, err)
					}
					w.now.Add(QueueLease.Milliseconds()) // what was claimed is due again
					return
				}
			}
			w.say(t, sentences("one", 3))
			for _, s := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
				tryFor(s * time.Second)
			}
			disk.full = false
			if err := worker.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			disk.full = true
			w.say(t, sentences("two", 3))
			tryFor(time.Second)
		})
	}
}

// Issue 2.4: a stop in the middle of a batch gives the tasks back at once, and
// Run returns.
func TestQueueStopsCleanly(t *testing.T) {
	w := newQueueWorld(t)
	w.put(t, 3)
	w.model.slow = make(chan struct{})
	worker := NewQueueWorker(w.options)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { worker.Run(ctx) })
	for w.model.calls.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	stop()
	running.Wait()
	tasks, err := w.store.Claim(t.Context(), w.id, 10, time.Minute)
	if err != nil || len(tasks) != 3 || tasks[0].Attempts != 0 {
		t.Errorf("%+v, %v", tasks, err)
	}
}

// Issue 2.4: a worker that died with a claim blocks nobody for longer than the
// lease.
func TestQueueLeaseRunsOut(t *testing.T) {
	w := newQueueWorld(t)
	w.put(t, 3)
	if _, err := w.store.EnqueueMissing(t.Context(), w.id, 10); err != nil {
		t.Fatal(err)
	}
	if tasks, err := w.store.Claim(t.Context(), w.id, 10, QueueLease); err != nil || len(tasks) != 3 {
		t.Fatalf("%v, %v", tasks, err)
	}
	worker := NewQueueWorker(w.options)
	if err := worker.Drain(t.Context()); err != nil || w.embedded(t) != 0 {
		t.Errorf("claimed tasks were taken: %d, %v", w.embedded(t), err)
	}
	w.now.Add(QueueLease.Milliseconds() + 1)
	if err := worker.Drain(t.Context()); err != nil || w.embedded(t) != 3 {
		t.Errorf("%d embedded after the lease, %v", w.embedded(t), err)
	}
}

// Issue 2.4: new work wakes a sleeping worker.
func TestQueueWakes(t *testing.T) {
	w := newQueueWorld(t)
	idle := make(chan struct{}, 100)
	w.options.Drained = func(context.Context, int64) error { idle <- struct{}{}; return nil }
	worker := NewQueueWorker(w.options)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { worker.Run(ctx) })
	<-idle
	w.put(t, 1)
	worker.Wake()
	<-idle
	if n := w.embedded(t); n != 1 {
		t.Errorf("%d embedded", n)
	}
	stop()
	running.Wait()
}
