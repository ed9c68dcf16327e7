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
	// Drained is called when every record has a vector, waits for a retry, or is
	// unembeddable. It may be nil.
	Drained func(ctx context.Context, model int64) error
	Clock   func() time.Time
	Log     *slog.Logger
}

// QueueWorker embeds queued records until it is stopped. What it has claimed
// when the process dies is claimed again after the lease or the next start;
// vectors and queue entries change in one transaction, so nothing is embedded
// into a text that has changed (BR-103) and nothing is lost.
type QueueWorker struct {
	o    QueueOptions
	wake chan struct{}

	mu    sync.Mutex // one batch at a time
	fails int        // failures in a row
}

// NewQueueWorker returns a worker that is not running.
func NewQueueWorker(o QueueOptions) *QueueWorker {
	if o.Observe == nil {
		o.Observe = func(error) {}
	}
	if o.Drained == nil {
		o.Drained = func(context.Context, int64) error { return nil }
	}
	return &QueueWorker{o: o, wake: make(chan struct{}, 1)}
}

// Wake tells the worker that there is work. It never blocks.
func (w *QueueWorker) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run works until the context ends. Whoever starts it waits for its return.
func (w *QueueWorker) Run(ctx context.Context) {
	for ctx.Err() == nil {
		more, wait, err := w.step(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.o.Log.Warn("embedding queue", "error", err, "next try in", wait)
		case more:
			continue
		}
		w.sleep(ctx, wait)
	}
}

// Drain works until every record has a vector, waits for a retry, or is
// unembeddable, or until the first failure, which it returns. It takes turns
// with Run.
func (w *QueueWorker) Drain(ctx context.Context) error {
	for {
		more, _, err := w.step(ctx)
		if err != nil || !more {
			return err
		}
	}
}

func (w *QueueWorker) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-w.wake:
	}
}

// step embeds one batch. more says that there may be another one at once, wait
// how long to rest otherwise.
func (w *QueueWorker) step(ctx context.Context) (more bool, wait time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, 0, err
	}
	model, id, err := w.o.Model(ctx)
	if errors.Is(err, embed.ErrNoModel) {
		return false, QueueIdle, nil
	}
	if err != nil {
		w.o.Observe(err)
		return false, w.retry(), fmt.Errorf("embedding model: %w", err)
	}
	more, err = w.batch(ctx, model, id)
	if err != nil {
		return false, w.rest(), err
	}
	return more, QueueIdle, nil
}

// retry counts a failure of the model and returns the wait after it.
func (w *QueueWorker) retry() time.Duration {
	w.fails++
	return w.rest()
}

// rest doubles with every failure in a row, up to half a minute.
func (w *QueueWorker) rest() time.Duration {
	return min(firstRetry<<min(max(w.fails-1, 0), 10), longestRetry)
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
	if err != nil || n > 0 {
		return n > 0, err
	}
	return false, w.o.Drained(ctx, id)
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
	w.fails = 0
	return w.keep(ctx, id, tasks, vectors)
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
