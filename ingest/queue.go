package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"recalld/embed"
	"recalld/sqlite"
)

// Figures of the queue worker.
const (
	// QueueBatch is how many records one round embeds. It is fixed, and records
	// come in the order of their queueing, because quantised servers return other
	// vectors for other batch mates (BR-178).
	QueueBatch = 64
	// QueueLease is how long a claimed record is safe from another worker.
	QueueLease = 10 * time.Minute
	// QueueIdle is how often an idle worker looks by itself.
	QueueIdle = 15 * time.Second
	// enqueueBatch is how many records without a vector are queued at a time.
	enqueueBatch = 1_000
	// blockGather is how long texts are gathered before their blocks are built, so
	// that a record stored alone costs no commit of its own.
	blockGather  = 250 * time.Millisecond
	firstRetry   = time.Second
	longestRetry = 30 * time.Second
)

// Queue is the part of the store that a worker uses.
type Queue interface {
	Claim(ctx context.Context, model int64, n int, lease time.Duration) ([]sqlite.Task, error)
	Fail(ctx context.Context, ids []int64, cause string, notBefore time.Time) error
	Release(ctx context.Context, ids []int64) error
	MarkUnembeddable(ctx context.Context, ids []int64) error
	EnqueueMissing(ctx context.Context, model int64, limit int) (int, error)
	PutVectors(ctx context.Context, vectors []sqlite.Vector) ([]bool, error)
}

// QueueOptions is what a [QueueWorker] works with.
type QueueOptions struct {
	Queue Queue
	// Model says which model embeds now and its id in the store. An error means
	// none can: the worker asks again later.
	Model func(ctx context.Context) (embed.Model, int64, error)
	// Observe is told how each use of the model went; nil error is success. It
	// may be nil.
	Observe func(error)
	// Blocks is where blocks are built; nil builds none. BuildBlocks says whether they
	// are wanted now: when not, no model is asked, nothing is queued, and what was
	// queued is forgotten (BR-129).
	Blocks      BlockQueue
	BuildBlocks func() bool
	// GiveWay is called before each record whose blocks are built, and may wait for
	// work that is more urgent. It may be nil.
	GiveWay func(ctx context.Context)
	// Drained is called when every record has what it can have, waits for a retry,
	// or is unembeddable. It may be nil.
	Drained func(ctx context.Context, model int64) error
	Clock   func() time.Time
	Log     *slog.Logger
}

// QueueWorker embeds queued records until it is stopped. What it has claimed
// when the process dies is claimed again after the lease or the next start;
// vectors and queue entries change in one transaction, so nothing is embedded
// into a text that has changed (BR-103) and nothing is lost.
//
// Blocks are built by the same worker once no vector is left to make, in runs with
// limits between which the vectors have their turn (BR-108 to BR-116). There is one
// worker, and so one sweep.
type QueueWorker struct {
	o       QueueOptions
	wake    chan struct{}
	written chan struct{}

	mu    sync.Mutex // one batch at a time
	fails int        // steps in a row that failed
	begun int64      // the model whose blocks are being built; notBegun, or building is off
}

// States of QueueWorker.begun beside a model's id.
const (
	notBegun    = 0
	buildingOff = -1
)

// NewQueueWorker returns a worker that is not running.
func NewQueueWorker(o QueueOptions) *QueueWorker {
	if o.Observe == nil {
		o.Observe = func(error) {}
	}
	if o.Drained == nil {
		o.Drained = func(context.Context, int64) error { return nil }
	}
	if o.GiveWay == nil {
		o.GiveWay = func(context.Context) {}
	}
	if o.BuildBlocks == nil {
		o.BuildBlocks = func() bool { return o.Blocks != nil }
	}
	return &QueueWorker{o: o, wake: make(chan struct{}, 1), written: make(chan struct{}, 1)}
}

// Wake tells the worker that a record waits for a vector. It never blocks.
func (w *QueueWorker) Wake() { tell(w.wake) }

// Written tells the worker that a record has a text which may need blocks. It never
// blocks, and what follows is built together.
func (w *QueueWorker) Written() { tell(w.written) }

func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run works until the context ends. Whoever starts it waits for its return.
func (w *QueueWorker) Run(ctx context.Context) {
	for vectors := true; ctx.Err() == nil; {
		more, wait, err := w.step(ctx, vectors)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.o.Log.Warn("embedding queue", "error", err, "next try in", wait)
		case more:
			vectors = vectors || w.woken()
			continue
		}
		vectors = w.sleep(ctx, wait)
	}
}

// Drain works until every record has what it can have, waits for a retry, or is
// unembeddable, or until the first failure, which it returns. It takes turns
// with Run.
func (w *QueueWorker) Drain(ctx context.Context) error {
	for {
		more, _, err := w.step(ctx, true)
		if err != nil || !more {
			return err
		}
	}
}

// woken reports whether a record waits for a vector since the worker last slept:
// it has its turn after a run of blocks.
func (w *QueueWorker) woken() bool {
	select {
	case <-w.wake:
		return true
	default:
		return false
	}
}

// sleep rests until there is work. vectors is false when texts were written and
// nothing else happened: then the search for records without a vector is not
// worth its time.
func (w *QueueWorker) sleep(ctx context.Context, d time.Duration) (vectors bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-w.wake:
	case <-w.written:
		gather := time.NewTimer(blockGather)
		defer gather.Stop()
		select {
		case <-ctx.Done():
		case <-gather.C:
			return false
		case <-w.wake:
		}
	}
	return true
}

// step does one batch of vectors, or one run of blocks when no vector is left to
// make. more says that there may be more at once, wait how long to rest otherwise.
func (w *QueueWorker) step(ctx context.Context, vectors bool) (more bool, wait time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, 0, err
	}
	model, id, err := w.o.Model(ctx)
	if errors.Is(err, embed.ErrNoModel) {
		return false, QueueIdle, w.endBlocksIfOff(ctx)
	}
	if err != nil {
		w.o.Observe(err)
		return false, w.failed(), fmt.Errorf("embedding model: %w", err)
	}
	if vectors {
		if more, err = w.batch(ctx, model, id); err != nil {
			return false, w.failed(), err
		}
	}
	if !more {
		if more, err = w.blocks(ctx, model, id); err != nil {
			return false, w.failed(), err
		}
	}
	if !more {
		err = w.o.Drained(ctx, id)
	}
	return more, QueueIdle, err
}

// failed counts a step that failed, by the model or by the store, and returns the
// rest after it. A full disk fails after the model has answered: what it answered
// is lost, and asking again at once would cost the same calls for nothing.
func (w *QueueWorker) failed() time.Duration {
	d := w.retry()
	w.fails++
	return d
}

// retry is the rest after one failure more; it doubles with every failure in a row,
// up to half a minute.
func (w *QueueWorker) retry() time.Duration { return retryAfter(w.fails) }

func retryAfter(fails int) time.Duration {
	return min(firstRetry<<min(fails, 10), longestRetry)
}

func (w *QueueWorker) batch(ctx context.Context, model embed.Model, id int64) (more bool, err error) {
	tasks, err := w.o.Queue.Claim(ctx, id, QueueBatch, QueueLease)
	if err != nil {
		return false, err
	}
	if len(tasks) > 0 {
		return true, w.embed(ctx, model, id, tasks)
	}
	n, err := w.o.Queue.EnqueueMissing(ctx, id, enqueueBatch)
	return n > 0, err
}

func (w *QueueWorker) embed(ctx context.Context, model embed.Model, id int64, tasks []sqlite.Task) error {
	texts := make([]string, len(tasks))
	for i, t := range tasks {
		texts[i] = t.Text
	}
	vectors, err := model.Embed(ctx, embed.Document, texts)
	if stopped := ctx.Err(); stopped != nil {
		return errors.Join(stopped, w.o.Queue.Release(context.WithoutCancel(ctx), idsOf(tasks)))
	}
	w.o.Observe(err)
	if err != nil {
		again := w.o.Clock().Add(w.retry())
		return errors.Join(fmt.Errorf("embed %d records: %w", len(tasks), err), w.o.Queue.Fail(ctx, idsOf(tasks), err.Error(), again))
	}
	if err := w.keep(ctx, id, tasks, vectors); err != nil {
		return err
	}
	w.fails = 0
	return nil
}

// keep stores a batch's vectors and ends the tasks that can never have one.
func (w *QueueWorker) keep(ctx context.Context, id int64, tasks []sqlite.Task, vectors [][]float32) error {
	var made []sqlite.Vector
	var hopeless []int64
	for i, t := range tasks {
		if vectors[i] == nil {
			hopeless = append(hopeless, t.ID)
			continue
		}
		made = append(made, sqlite.Vector{Ref: t.Ref, Model: id, Revision: t.Revision, Values: vectors[i]})
	}
	if len(hopeless) > 0 {
		if err := w.o.Queue.MarkUnembeddable(ctx, hopeless); err != nil {
			return err
		}
	}
	if len(made) == 0 {
		return nil
	}
	_, err := w.o.Queue.PutVectors(ctx, made)
	return err
}

func idsOf(tasks []sqlite.Task) []int64 {
	ids := make([]int64, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	return ids
}
