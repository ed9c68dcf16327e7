package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"recalld/memory"
)

// Bounds of the writer.
const (
	maxBatch          = 256                    // jobs that share one commit
	walLimit          = 64 << 20               // bytes of log after which readers pause
	pauseLimit        = 50 * time.Millisecond  // longest pause of new readers
	retryErasure      = 500 * time.Millisecond // until an erasure is tried again
	maxInterned       = 100_000                // cells that the writer remembers
	maxUnindexed      = 64                     // records that may wait for the full-text index
	maxUnindexedBytes = 256 << 10              // bytes of their texts
)

// job is one request to the writer. run works inside the shared transaction and
// isolates its items with [tx.item]; alone runs outside any transaction.
type job struct {
	ctx   context.Context
	run   func(*tx) error
	alone func(*conn) error
	erase bool // the log must be emptied before the answer
	err   error
	done  chan struct{}
}

// tx is the writer's open transaction.
type tx struct {
	*conn
	w           *writer
	indexed     bool  // the full-text index was brought up to date
	behind      int64 // records stored since, or since the beginning
	behindBytes int64
}

// writer owns the only connection that writes.
type writer struct {
	conn           *conn
	store          *Store
	jobs           chan *job
	stop           chan struct{}
	stopped        chan struct{}
	cells          map[memory.Cell]interned
	dims           map[int64]int
	missing        map[int64]missingCursor // where EnqueueMissing goes on
	dataVersion    int64
	foreign        atomic.Int64
	commits        atomic.Int64
	written        atomic.Int64
	erasePending   atomic.Bool
	unindexed      atomic.Int64 // records that wait for the full-text index
	unindexedBytes int64
	blockedBy      int64 // the log cannot be emptied while a snapshot up to this serial is open
}

type interned struct{ id, pool int64 }

// write hands a job to the writer and waits for its commit. A cancelled context
// takes the job back only while it has not begun.
func (s *Store) write(ctx context.Context, run func(*tx) error) error {
	return s.submit(&job{ctx: ctx, run: run})
}

func (s *Store) submit(j *job) error {
	if s.writer == nil {
		return memory.ErrReadOnly
	}
	j.done = make(chan struct{})
	select {
	case <-s.writer.stop:
		return ErrClosed
	default:
	}
	select {
	case s.writer.jobs <- j:
	case <-s.writer.stop:
		return ErrClosed
	case <-j.ctx.Done():
		return j.ctx.Err()
	}
	select {
	case <-j.done:
		return j.err
	case <-s.writer.stopped:
	}
	select {
	case <-j.done:
		return j.err
	default:
		return ErrClosed
	}
}

// loop runs until stop is closed; what was accepted before is still written.
func (w *writer) loop() {
	defer close(w.stopped)
	retry := time.NewTicker(retryErasure)
	defer retry.Stop()
	for {
		select {
		case j := <-w.jobs:
			w.serve(j)
		case <-retry.C:
			if w.unindexed.Load() > 0 {
				w.serve(indexJob(context.Background()))
			}
			if w.erasePending.Load() {
				w.erase()
			}
		case <-w.stop:
			for {
				select {
				case j := <-w.jobs:
					w.serve(j)
				default:
					if w.unindexed.Load() > 0 {
						w.serve(indexJob(context.Background()))
					}
					return
				}
			}
		}
	}
}

// serve commits the job together with every job that waits behind it.
func (w *writer) serve(first *job) {
	batch := []*job{first}
	for len(batch) < maxBatch && batch[len(batch)-1].alone == nil {
		select {
		case j := <-w.jobs:
			batch = append(batch, j)
			continue
		default:
		}
		break
	}
	last := batch[len(batch)-1]
	if last.alone != nil {
		batch = batch[:len(batch)-1]
	}
	if len(batch) > 0 {
		w.commit(batch)
	}
	if last.alone != nil {
		if last.err = last.ctx.Err(); last.err == nil {
			last.err = last.alone(w.conn)
			w.forget()
		}
		close(last.done)
	}
	w.limitLog()
}

func (w *writer) commit(batch []*job) {
	err := w.transact(batch)
	erase := false
	for _, j := range batch {
		if err != nil {
			j.err = err
		} else if j.erase && j.err == nil {
			erase = true
		}
	}
	if erase {
		w.erasePending.Store(true)
		w.erase()
	}
	for _, j := range batch {
		close(j.done)
	}
}

// transact runs the batch in one transaction. An error means that nothing of it
// was written.
func (w *writer) transact(batch []*job) error {
	if _, _, err := w.conn.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := w.noticeForeign()
	t := &tx{conn: w.conn, w: w}
	for _, j := range batch {
		if err != nil {
			break
		}
		if j.err = j.ctx.Err(); j.err != nil {
			continue
		}
		j.err = j.run(t)
		if w.conn.raw.AutoCommit() {
			err = fmt.Errorf("the transaction was rolled back: %w", orUnknown(j.err))
		} else if fatal(j.err) {
			err = j.err
		}
	}
	if err == nil && (w.unindexed.Load() >= maxUnindexed || w.unindexedBytes >= maxUnindexedBytes) {
		err = t.indexTexts()
	}
	if err == nil {
		_, _, err = w.conn.exec("COMMIT")
	}
	if err != nil {
		if !w.conn.raw.AutoCommit() {
			_, _, rollback := w.conn.exec("ROLLBACK")
			err = errors.Join(err, rollback)
		}
		w.forget()
		return err
	}
	t.settleIndex()
	w.commits.Add(1)
	w.written.Add(int64(len(batch)))
	return nil
}

func orUnknown(err error) error {
	if err == nil {
		return errors.New("no reason given")
	}
	return err
}

// item runs one item inside a savepoint of its own: when it fails, nothing of it
// remains and the others stay.
func (t *tx) item(run func() error) error {
	if _, _, err := t.exec("SAVEPOINT item"); err != nil {
		return err
	}
	err := run()
	if err == nil {
		_, _, err = t.exec("RELEASE item")
		return err
	}
	t.w.forget()
	if t.raw.AutoCommit() {
		return err
	}
	if _, _, undo := t.exec("ROLLBACK TO item"); undo != nil {
		return errors.Join(err, undo)
	}
	if _, _, undo := t.exec("RELEASE item"); undo != nil {
		return errors.Join(err, undo)
	}
	return err
}

// forget drops what the writer remembers of the file.
func (w *writer) forget() {
	clear(w.cells)
	clear(w.dims)
}

// noticeForeign compares the file's data version, which only other connections
// move. This store writes through one connection, so another value means
// another program (DECISIONS 13).
func (w *writer) noticeForeign() error {
	r, err := w.conn.first(context.Background(), "PRAGMA data_version")
	if err != nil {
		return err
	}
	version := r.int(0)
	if w.dataVersion != 0 && version != w.dataVersion {
		w.forget()
		if err := w.countUnindexed(); err != nil {
			return err
		}
		n := w.foreign.Add(1)
		w.store.log.Warn("another program wrote to the file", "path", w.store.path, "times", n)
		if w.store.onForeignWrite != nil {
			w.store.onForeignWrite()
		}
	}
	w.dataVersion = version
	return nil
}

// limitLog empties the log once it has passed its limit.
func (w *writer) limitLog() {
	if info, err := os.Stat(w.store.path + "-wal"); err == nil && info.Size() >= w.store.walLimit {
		w.truncateLog()
	}
}

// erase empties the log so that no old page image of deleted rows is left.
func (w *writer) erase() {
	if w.truncateLog() {
		w.erasePending.Store(false)
	}
}

// truncateLog holds new readers back for a moment and empties the log. A
// snapshot that outlasts the pause postpones it: readers are not held back
// again before that snapshot has closed.
func (w *writer) truncateLog() bool {
	if w.store.gate.holds(w.blockedBy) {
		return false
	}
	empty := w.store.gate.pause(pauseLimit)
	defer w.store.gate.resume()
	if !empty {
		w.blockedBy = w.store.gate.last()
		return false
	}
	busy, err := checkpoint(w.conn, "TRUNCATE")
	if err != nil {
		w.store.log.Error("checkpoint failed", "path", w.store.path, "error", err)
	}
	return err == nil && !busy
}

// checkpoint moves the log into the file; busy says that not all of it could be.
func checkpoint(c *conn, mode string) (busy bool, err error) {
	if err := c.script("PRAGMA busy_timeout = 200"); err != nil {
		return false, err
	}
	r, err := c.first(context.Background(), "PRAGMA wal_checkpoint("+mode+")")
	if restore := c.script("PRAGMA busy_timeout = 5000"); err == nil {
		err = restore
	}
	return err == nil && r.int(0) != 0, err
}
