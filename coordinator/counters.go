package coordinator

import (
	"context"
	"slices"
	"sync"
	"time"

	"recalld/memory"
	"recalld/sqlite"
)

// recalled collects which memories answers returned and writes the counts in
// one transaction, off the path of any answer (RR-420). A count that could not
// be written is lost and nobody's error.
type recalled struct {
	write func(ctx context.Context, all []sqlite.Recalls) error

	mu      sync.Mutex
	waiting map[memory.Ref]sqlite.Recalls
}

// maxWaiting bounds the records that wait for a flush, and so the length of its
// transaction; the recalls of further ones are lost until then.
const maxWaiting = 10_000

// add counts one recall of each ref at a time in UTC milliseconds.
func (r *recalled) add(refs []memory.Ref, at int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ref := range refs {
		w, known := r.waiting[ref]
		if !known && len(r.waiting) >= maxWaiting {
			continue
		}
		if r.waiting == nil {
			r.waiting = make(map[memory.Ref]sqlite.Recalls)
		}
		w.Ref, w.Count = ref, w.Count+1
		if !known || at > w.Last.Milli {
			w.Last = memory.TimeOf(time.UnixMilli(at).UTC())
		}
		r.waiting[ref] = w
	}
}

// flush writes what waits, in the order of references.
func (r *recalled) flush(ctx context.Context) error {
	r.mu.Lock()
	waiting := r.waiting
	r.waiting = nil
	r.mu.Unlock()
	if len(waiting) == 0 {
		return nil
	}
	all := make([]sqlite.Recalls, 0, len(waiting))
	for _, w := range waiting {
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b sqlite.Recalls) int { return memory.CompareRefs(a.Ref, b.Ref) })
	return r.write(ctx, all)
}
