package coordinator

import (
	"context"
	"sync"
	"time"

	"recalld/memory"
)

// recalled collects which memories answers returned and writes the counts in
// batches, off the path of any answer (RR-420). A count that could not be
// written is lost and nobody's error.
type recalled struct {
	write func(ctx context.Context, refs []memory.Ref, at memory.Time) error

	mu      sync.Mutex
	waiting []recall
}

type recall struct {
	refs []memory.Ref
	at   int64
}

// maxWaiting bounds the answers that wait for a flush; later ones are lost
// until then.
const maxWaiting = 10_000

func (r *recalled) add(refs []memory.Ref, at int64) {
	if len(refs) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) < maxWaiting {
		r.waiting = append(r.waiting, recall{refs: refs, at: at})
	}
}

// flush writes what waits.
func (r *recalled) flush(ctx context.Context) error {
	r.mu.Lock()
	waiting := r.waiting
	r.waiting = nil
	r.mu.Unlock()
	for _, w := range waiting {
		if err := r.write(ctx, w.refs, memory.TimeOf(time.UnixMilli(w.at).UTC())); err != nil {
			return err
		}
	}
	return nil
}
