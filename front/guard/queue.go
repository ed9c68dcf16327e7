package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Bounds of a [Queue] where nothing else is said. Together they leave room for
// health checks among a server's connections.
const (
	// MaxConcurrent is how many requests are answered at once.
	MaxConcurrent = 256
	// MaxWaiting is how many wait for one of these to end.
	MaxWaiting = 512
)

// RetryAfter is when a request that was turned away may come again, in seconds.
const RetryAfter = 1

// ErrOverloaded is what the error of a request wraps that a full queue turned away.
var ErrOverloaded = errors.New("overloaded")

// Queue bounds how many requests are answered at once and how many wait for their
// turn, in the order in which they came. One queue may stand before several servers.
// It is safe for concurrent use.
type Queue struct {
	most, mostWaiting int

	mu      sync.Mutex
	running int
	waiting []chan struct{} // each closed when its turn has come; the first one waits longest
}

// NewQueue returns a queue with such bounds; 0 is the package's, and below 0 nobody
// waits.
func NewQueue(most, waiting int) *Queue {
	if most == 0 {
		most = MaxConcurrent
	}
	if waiting == 0 {
		waiting = MaxWaiting
	}
	return &Queue{most: max(1, most), mostWaiting: max(0, waiting)}
}

// Enter waits for a place, and returns how to leave it again, which must be called
// once. A full queue returns an error that wraps [ErrOverloaded] at once; a context
// that ends returns its own.
func (q *Queue) Enter(ctx context.Context) (leave func(), err error) {
	turn, err := q.join()
	if err != nil || turn == nil {
		return q.leave, err
	}
	select {
	case <-turn:
		return q.leave, nil
	case <-ctx.Done():
		q.withdraw(turn)
		return nil, ctx.Err()
	}
}

// join takes a place, with nil, or stands in line for the turn that it returns.
func (q *Queue) join() (turn chan struct{}, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.running < q.most:
		q.running++
		return nil, nil
	case len(q.waiting) >= q.mostWaiting:
		return nil, fmt.Errorf("%w: %d requests wait, at most %d; retry after %d second", ErrOverloaded, len(q.waiting), q.mostWaiting, RetryAfter)
	}
	turn = make(chan struct{})
	q.waiting = append(q.waiting, turn)
	return turn, nil
}

// leave gives the place to whoever waits longest.
func (q *Queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.running--
		return
	}
	close(q.waiting[0])
	q.waiting = q.waiting[1:]
}

// withdraw leaves the line, or the place when the turn has come meanwhile.
func (q *Queue) withdraw(turn chan struct{}) {
	q.mu.Lock()
	for i, other := range q.waiting {
		if other == turn {
			q.waiting = append(q.waiting[:i:i], q.waiting[i+1:]...)
			q.mu.Unlock()
			return
		}
	}
	q.mu.Unlock()
	q.leave()
}

// Waiting is how many requests wait now.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}
