package sqlite

import (
	"context"
	"sync"
	"time"
)

// gate counts open snapshots and can hold new ones back for a moment, so that a
// checkpoint finds a log that nobody reads (DECISIONS 13).
type gate struct {
	mu      sync.Mutex
	open    map[*View]entry
	entered int64         // snapshots so far
	paused  chan struct{} // closed when the pause ends; nil when there is none
	drained chan struct{} // closed when the last snapshot closes; nil when nobody waits
}

// entry is one open snapshot: when it began, and which in order it is.
type entry struct {
	began  time.Time
	serial int64
}

func newGate() *gate { return &gate{open: make(map[*View]entry)} }

// enter waits for the end of a pause and registers the view.
func (g *gate) enter(ctx context.Context, v *View, now time.Time) error {
	for {
		g.mu.Lock()
		if g.paused == nil {
			g.entered++
			g.open[v] = entry{now, g.entered}
			g.mu.Unlock()
			return nil
		}
		wait := g.paused
		g.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (g *gate) leave(v *View) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, v)
	if len(g.open) == 0 && g.drained != nil {
		close(g.drained)
		g.drained = nil
	}
}

// pause holds new snapshots back and waits up to limit for the open ones. Only
// the writer calls it, and always resumes.
func (g *gate) pause(limit time.Duration) (empty bool) {
	g.mu.Lock()
	g.paused = make(chan struct{})
	if len(g.open) == 0 {
		g.mu.Unlock()
		return true
	}
	g.drained = make(chan struct{})
	drained := g.drained
	g.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-drained:
		return true
	case <-timer.C:
		g.mu.Lock()
		defer g.mu.Unlock()
		g.drained = nil
		return len(g.open) == 0
	}
}

func (g *gate) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.paused)
	g.paused = nil
}

// oldest returns when the oldest open snapshot began, and how many are open.
func (g *gate) oldest() (began time.Time, open int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range g.open {
		if began.IsZero() || e.began.Before(began) {
			began = e.began
		}
	}
	return began, len(g.open)
}

// last returns the serial of the snapshot that was opened last.
func (g *gate) last() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.entered
}

// holds reports whether a snapshot up to the given serial is still open.
func (g *gate) holds(serial int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range g.open {
		if e.serial <= serial {
			return true
		}
	}
	return false
}
