package scanner

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// turnBytes is how many bytes of codes an agent may read before others, who
	// wait, come first: half a millisecond of one processor.
	turnBytes = 8 << 20
	// leastBytes is what a turn counts as at least: starting one is work too.
	leastBytes = 256 << 10
)

// turns shares the processors between passes: a deficit round robin over agents
// in bytes of codes, paid behind each turn. While nobody waits, whoever has a turn
// goes on, at the price of a lock. Passes of maintenance take turns only while
// nobody else wants one.
//
// A turn that is wanted while n other agents want one waits for those that are
// taken and for at most turnBytes, and what is left of one tile, of each of the n.
type turns struct {
	clock   func() time.Time
	quantum int64 // turnBytes

	mu     sync.Mutex
	free   int
	shares map[uint64]*share // of agents that have or want turns
	ring   []*share          // of those that want some, the next one first
	batch  []*turn           // wanted by maintenance
	given  uint64
	waited time.Duration
	seen   func(agent uint64, batch bool) // what was given; of tests, nil otherwise
}

// share is one agent's part.
type share struct {
	agent  uint64
	left   int64 // bytes it may read before the others come first; below 0: read too many
	wanted []*turn
	taken  int
}

// turn is the right to keep one processor busy.
type turn struct {
	of    *turns
	agent uint64
	share *share        // nil: of maintenance
	ready chan struct{} // closed when it is given
}

func newTurns(processors int, clock func() time.Time) *turns {
	return &turns{clock: clock, quantum: turnBytes, free: processors, shares: make(map[uint64]*share)}
}

// take waits for a turn. It is given back with end.
func (s *turns) take(ctx context.Context, agent uint64, batch bool) (*turn, error) {
	t := s.want(agent, batch)
	return t, t.wait(ctx)
}

// want gets in line.
func (s *turns) want(agent uint64, batch bool) *turn {
	t := &turn{of: s, agent: agent}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !batch {
		t.share = s.shares[agent]
		if t.share == nil {
			t.share = &share{agent: agent, left: s.quantum}
			s.shares[agent] = t.share
		}
	}
	s.queue(t)
	s.give()
	return t
}

// queue puts a turn at the end of its line.
func (s *turns) queue(t *turn) {
	t.ready = make(chan struct{})
	if t.share == nil {
		s.batch = append(s.batch, t)
		return
	}
	if len(t.share.wanted) == 0 {
		s.ring = append(s.ring, t.share)
	}
	t.share.wanted = append(t.share.wanted, t)
}

// give hands out what is free.
func (s *turns) give() {
	for s.free > 0 {
		t := s.first()
		if t == nil {
			return
		}
		s.free--
		s.note(t)
		close(t.ready)
	}
}

func (s *turns) note(t *turn) {
	s.given++
	if s.seen != nil {
		s.seen(t.agent, t.share == nil)
	}
}

// first takes the next turn out of its line, nil when none is wanted.
func (s *turns) first() *turn {
	for len(s.ring) > 0 {
		next := s.ring[0]
		if next.left <= 0 {
			next.left = min(next.left+s.quantum, s.quantum)
			s.ring = append(s.ring[1:], next)
			continue
		}
		t := next.wanted[0]
		next.wanted = next.wanted[1:]
		if len(next.wanted) == 0 {
			s.ring = s.ring[1:]
		}
		next.taken++
		return t
	}
	if len(s.batch) > 0 {
		t := s.batch[0]
		s.batch = s.batch[1:]
		return t
	}
	return nil
}

// granted reports whether a turn need not be waited for.
func (t *turn) granted() bool {
	select {
	case <-t.ready:
		return true
	default:
		return false
	}
}

// wait returns when the turn is given, or out of line with the context's error.
func (t *turn) wait(ctx context.Context) error {
	if t.granted() {
		return nil
	}
	s := t.of
	start := s.clock()
	select {
	case <-t.ready:
		s.mu.Lock()
		s.waited += s.clock().Sub(start)
		s.mu.Unlock()
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waited += s.clock().Sub(start)
	select {
	case <-t.ready: // in the meantime
		s.back(t)
	default:
		s.leave(t)
	}
	return ctx.Err()
}

// leave takes a turn out of its line.
func (s *turns) leave(t *turn) {
	is := func(other *turn) bool { return other == t }
	if t.share == nil {
		s.batch = slices.DeleteFunc(s.batch, is)
		return
	}
	t.share.wanted = slices.DeleteFunc(t.share.wanted, is)
	if len(t.share.wanted) == 0 {
		s.ring = slices.DeleteFunc(s.ring, func(other *share) bool { return other == t.share })
	}
	s.forget(t.share)
}

// back returns a turn to those that are free.
func (s *turns) back(t *turn) {
	s.free++
	if t.share != nil {
		t.share.taken--
		s.forget(t.share)
	}
	s.give()
}

// forget drops an agent that neither has nor wants a turn.
func (s *turns) forget(h *share) {
	if h.taken == 0 && len(h.wanted) == 0 {
		delete(s.shares, h.agent)
	}
}

// end gives a turn back after so many bytes.
func (t *turn) end(bytes int64) {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	if t.share != nil {
		t.share.left -= max(bytes, leastBytes)
	}
	t.of.back(t)
}

// next goes on after so many bytes: at once when nobody waits or the agent has
// some left, else when it is its turn again. After an error the turn is given
// back.
func (t *turn) next(ctx context.Context, bytes int64) error {
	if err := ctx.Err(); err != nil {
		t.end(bytes)
		return err
	}
	if t.goOn(bytes) {
		return nil
	}
	return t.wait(ctx)
}

// goOn reports whether a turn goes on; else it is back in line.
func (t *turn) goOn(bytes int64) bool {
	s := t.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.mayGoOn(bytes) {
		s.note(t)
		return true
	}
	s.free++
	if t.share != nil {
		t.share.taken--
	}
	s.queue(t)
	s.give()
	return false
}

func (t *turn) mayGoOn(bytes int64) bool {
	others := len(t.of.ring) > 0
	if t.share == nil {
		return !others
	}
	if !others {
		t.share.left = t.of.quantum
		return true
	}
	t.share.left -= bytes
	return t.share.left > 0
}

// numbers are how many turns were given and how long they were waited for.
func (s *turns) numbers() (given uint64, waited time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.given, s.waited
}
