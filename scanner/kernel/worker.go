package kernel

import (
	"context"
	"sync/atomic"
)

// room is how many hits of one query a worker takes before it looks at its limits
// again.
const room = 1024

// Worker takes tiles of a [Scan] in turn. One goroutine uses it at a time.
type Worker struct {
	scan    *Scan
	targets []target
	limits  []uint32 // per query, for the filter
	hits    []Hit    // room for each query
	found   []uint32 // hits per query
	seen    int      // rows compared
}

// target is where the hits of one query go. Either selection is nil when nothing
// was asked of it.
type target struct {
	rows    *selection
	parents *selection
	fold    fold
	limit   uint32 // of the query
}

// Worker returns a new worker. Any number may work at the same time.
func (s *Scan) Worker() *Worker {
	n := len(s.job.Queries)
	w := &Worker{scan: s, targets: make([]target, n), limits: make([]uint32, n), found: make([]uint32, n), hits: make([]Hit, n*room)}
	bits := s.job.Matrix.Bits
	for i, q := range s.job.Queries {
		t := &w.targets[i]
		t.limit = uint32(bits) + 1
		if q.Limit > 0 {
			t.limit = uint32(min(bits+1, q.Limit))
		}
		if q.Rows > 0 {
			t.rows = newSelection(q.Rows, bits, s.job.Precedes)
		}
		if q.Parents > 0 {
			t.parents = newSelection(q.Parents, bits, s.job.Precedes)
			t.fold = fold{parents: s.job.Parents, into: t.parents}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers = append(s.workers, w)
	return w
}

// Run takes tiles until none is left or the context ends, and returns its error.
func (w *Worker) Run(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, more := w.Step(); !more {
			return nil
		}
	}
}

// Step takes one tile, and returns how many rows it read and whether there may be
// more. With the best path that is 8 MB of codes of 1,024 bits, a fifth of a
// millisecond or less.
func (w *Worker) Step() (rows int, more bool) {
	s := w.scan
	i := s.next.Add(1) - 1
	if s.job.From+int(i)*s.tileRows >= s.job.To {
		return 0, false
	}
	from, to := s.tile(i)
	for row := from; row < to; {
		w.setLimits()
		clear(w.found)
		// The limits of a worker that has seen little are about to fall.
		n := filter(&s.job, s.queries, row, min(to, row+max(chunk, w.seen/4)), w.limits, w.hits, w.found)
		w.take()
		w.seen += n
		row += n
	}
	w.share()
	return to - from, true
}

// setLimits makes each query's limit the highest distance that its selections
// could still use. A worker's own limit is sharp, because its rows come in
// ascending order; what other workers know admits equals (DECISIONS 2).
func (w *Worker) setLimits() {
	for i := range w.targets {
		t := &w.targets[i]
		var useful uint32
		if t.rows != nil {
			useful = min(t.rows.limit(), w.scan.nearest[2*i].Load()+1)
		}
		if t.parents != nil {
			useful = max(useful, min(t.parents.limit(), w.scan.nearest[2*i+1].Load()+1))
		}
		w.limits[i] = min(useful, t.limit)
	}
}

// take moves the hits of the filter into the selections.
func (w *Worker) take() {
	for i := range w.targets {
		t := &w.targets[i]
		for _, h := range w.hits[i*room:][:w.found[i]] {
			if t.rows != nil {
				t.rows.push(h)
			}
			if t.parents != nil {
				t.fold.push(h)
			}
		}
	}
}

// share ends a tile: parents in hand are complete, and the others may know how
// near the k-th best is.
func (w *Worker) share() {
	for i := range w.targets {
		t := &w.targets[i]
		if t.rows != nil {
			lower(&w.scan.nearest[2*i], t.rows.worst)
		}
		if t.parents != nil {
			t.fold.flush()
			lower(&w.scan.nearest[2*i+1], t.parents.worst)
		}
	}
}

// lower makes a value the least of itself and another.
func lower(value *atomic.Uint32, to uint32) {
	for {
		now := value.Load()
		if now <= to || value.CompareAndSwap(now, to) {
			return
		}
	}
}
