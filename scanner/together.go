package scanner

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"recalld/layout"
	"recalld/scanner/kernel"
)

// passes lets scans that go over the same rows share the reading, and ranks as
// well. The first one starts at once. Those that come while it reads join at the next
// tile or piece, read on to the end with it, and then what they missed at the
// beginning: each goes once around, and what two of them have in common is read once.
type passes struct {
	turns   *turns
	threads int
	clock   func() time.Time
	hold    func(*lease) // keeps files open, as release lets go of them
	release func(*lease)
	lane    chan struct{} // has room for the pass of maintenance that runs
	tasks   sync.WaitGroup

	mu     sync.Mutex
	groups map[passKey][]*group

	passed, shared, nanoseconds, bytes atomic.Uint64
}

// passKey is what scans, or ranks, that can share have in common, but for the records
// that take part.
type passKey struct {
	state              *state
	model              int64
	agent              uint64
	project, channel   uint64
	inProject, inClass bool // whether a project is given; whether only some records take part
	perParent          int
	batch              bool
	ranks              bool // whether they read record vectors: ranks, not scans
}

// group is the scans or ranks that share the reading, and exists while there are any.
type group struct {
	key     passKey
	of      rowsOf
	plan    *plan    // nil until it is made
	waiting []*asked // for the next tile, or for one of [kernel.MaxQueries] queries to end
	active  []*asked
	changed atomic.Bool // whether somebody came or went: go no further than this tile
}

// asked is one scan or rank.
type asked struct {
	ctx     context.Context
	queries []kernel.Query // of a scan
	rank    *ranking       // nil: a scan
	most    uint64
	left    int  // rows to go
	shared  bool // whether something was read for others as well

	done    chan struct{} // closed when what follows is set
	plan    *plan
	answers []best // of a scan
	err     error
}

// size is how many of the queries of a pass are its own.
func (a *asked) size() int {
	if a.rank != nil {
		return 1
	}
	return len(a.queries)
}

// serve makes the passes those of a server.
func (p *passes) serve(s *Server, threads int) {
	p.turns, p.threads, p.clock = s.turns, threads, s.clock
	p.hold, p.release = s.hold, s.release
	p.lane = make(chan struct{}, 1)
	p.groups = make(map[passKey][]*group)
}

func newPassKey(a *asked, st *state, model int64, of rowsOf, batch bool) passKey {
	key := passKey{state: st, model: model, agent: of.scope.Agent, perParent: of.perParent, batch: batch, ranks: a.rank != nil, inClass: of.only != nil}
	if of.scope.Project != nil {
		key.project, key.inProject = *of.scope.Project, true
	}
	if of.scope.Channel != nil {
		key.channel = *of.scope.Channel // 0 is as good as none
	}
	return key
}

// ask returns when a scan or rank has gone once around, or its context has ended.
// Nobody else is disturbed by that.
func (p *passes) ask(a *asked, st *state, model int64, of rowsOf, batch bool) error {
	g, first := p.join(a, st, newPassKey(a, st, model, of, batch), of)
	if first {
		p.start(g, a)
	}
	select {
	case <-a.done:
		return a.err
	case <-a.ctx.Done():
		if g != nil {
			g.changed.Store(true)
		}
		return a.ctx.Err()
	}
}

// join adds a scan to those over the same rows; first says that there are none, and
// that the caller starts the group. It returns nil when there is nothing to wait for.
func (p *passes) join(a *asked, st *state, key passKey, of rowsOf) (g *group, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.groups[key] {
		if !sameOnly(g.of.only, of.only) {
			continue
		}
		if g.plan != nil && g.plan.over(a.most) {
			a.plan = g.plan
			close(a.done)
			return nil, false
		}
		g.waiting = append(g.waiting, a)
		g.changed.Store(true)
		return g, false
	}
	g = &group{key: key, of: of, waiting: []*asked{a}}
	p.groups[key] = append(p.groups[key], g)
	p.hold(st.lease)
	return g, true
}

// walk is a group's way around its rows. Whoever takes it further, one goroutine
// at a time, has its turn.
type walk struct {
	*group
	pass
	stretch, row int  // where to go on
	checked      bool // whether the files are as they were opened, a moment ago
}

// start begins a group with its first scan. When a processor is free, that scan
// reads on the goroutine that asks, as nobody else has to be woken for it; what
// others have to go when it is done, and whatever has to wait, is another's.
func (p *passes) start(g *group, a *asked) {
	w := &walk{group: g, pass: pass{turns: p.turns, agent: g.key.agent, batch: g.key.batch, threads: p.threads, stop: &g.changed}}
	if g.key.batch {
		w.threads = 1
		p.tasks.Go(func() { p.run(w, nil) })
		return
	}
	if err := layout.Guard(func() error { return p.prepare(w) }); err != nil {
		p.fail(w, err)
		return
	}
	w.turn = p.turns.want(w.agent, false)
	if !w.turn.granted() {
		p.tasks.Go(func() { p.run(w, nil) })
		return
	}
	w.checked = true
	unwatch := context.AfterFunc(a.ctx, func() { g.changed.Store(true) })
	defer unwatch()
	if p.run(w, a) {
		p.tasks.Go(func() { p.run(w, nil) })
	}
}

// files are those that a group reads.
func (g *group) files() []*segment {
	m := g.key.state.models[g.key.model]
	if g.key.ranks {
		return m.records
	}
	return m.segments
}

// prepare finds the rows of a group.
func (p *passes) prepare(w *walk) error {
	if err := intact(w.files()); err != nil {
		return err
	}
	m := w.key.state.models[w.key.model]
	find := m.blockPlan
	if w.key.ranks {
		find = m.recordPlan
	}
	made, err := find(w.of)
	if err != nil {
		return err
	}
	p.mu.Lock()
	w.plan = made
	p.mu.Unlock()
	return nil
}

// run reads until nobody is left, or only others than until, which more reports.
func (p *passes) run(w *walk, until *asked) (more bool) {
	start := p.clock()
	err := layout.Guard(func() (err error) {
		more, err = p.circle(w, until)
		return err
	})
	p.nanoseconds.Add(uint64(max(0, p.clock().Sub(start))))
	switch {
	case err != nil:
		p.fail(w, err)
		return false
	case !more: // the group ended with its last scan
		p.leave(w)
	}
	return more
}

// fail ends a group with an error of all of its scans.
func (p *passes) fail(w *walk, err error) {
	p.mu.Lock()
	for _, a := range slices.Concat(w.active, w.waiting) {
		a.err = err
		close(a.done)
	}
	p.end(w.group)
	p.mu.Unlock()
	p.leave(w)
}

// leave lets go of what a group had.
func (p *passes) leave(w *walk) {
	w.reading.end()
	p.passed.Add(1)
	p.release(w.key.state.lease)
}

// end takes a group off the list.
func (p *passes) end(g *group) {
	p.groups[g.key] = slices.DeleteFunc(p.groups[g.key], func(other *group) bool { return other == g })
	if len(p.groups[g.key]) == 0 {
		delete(p.groups, g.key)
	}
}

// circle goes around a group's rows for as long as somebody has some to go, or the
// scan until, if that is not nil. It reports whether others have.
func (p *passes) circle(w *walk, until *asked) (more bool, err error) {
	if w.batch {
		p.lane <- struct{}{}
		defer func() { <-p.lane }()
		if err := p.prepare(w); err != nil {
			return false, err
		}
		w.turn = p.turns.want(w.agent, true)
	}
	if err := w.turn.wait(context.Background()); err != nil {
		return false, err
	}
	for {
		came, more := p.admit(w.group)
		if came && !w.checked { // also when they are another goroutine's to read for
			if err := intact(w.files()); err != nil {
				return false, err
			}
		}
		if !more || until != nil && !slices.Contains(w.active, until) {
			return more, nil
		}
		w.checked = false
		for over := false; !over; {
			t := w.plan.stretches[w.stretch]
			from, end := t.span()
			from = max(w.row, from)
			to := end
			for _, a := range w.active {
				to = min(to, from+a.left)
			}
			n, err := t.leg(&w.pass, from, to, w.active)
			if err != nil {
				return false, err
			}
			p.bytes.Add(uint64(n) * uint64(t.rowBytes()))
			if w.row = from + n; w.row == end {
				w.stretch, w.row = (w.stretch+1)%len(w.plan.stretches), 0
			}
			over = w.changed.Load()
			for _, a := range w.active {
				a.left -= n
				over = over || a.left == 0
			}
		}
	}
}

// admit lets go of the scans that are done or gone, and takes in as many as there
// is room for. It reports whether any came, and whether any are there; if not, the
// group has ended.
func (p *passes) admit(g *group) (came, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g.changed.Store(false) // whatever changes from now on is seen the next time
	gone := func(a *asked) bool { return a.ctx.Err() != nil }
	g.waiting = slices.DeleteFunc(g.waiting, gone)
	g.active = slices.DeleteFunc(g.active, func(a *asked) bool {
		if a.left > 0 {
			return gone(a)
		}
		p.close(g, a)
		return true
	})
	queries := 0
	for _, a := range g.active {
		queries += a.size()
	}
	for len(g.waiting) > 0 && queries+g.waiting[0].size() <= kernel.MaxQueries {
		a := g.waiting[0]
		g.waiting = g.waiting[1:]
		a.left, a.answers = int(g.plan.read), make([]best, len(a.queries))
		if g.plan.over(a.most) || a.left == 0 {
			p.close(g, a)
			continue
		}
		queries += a.size()
		g.active = append(g.active, a)
		came = true
	}
	for _, a := range g.active {
		a.shared = a.shared || len(g.active) > 1
	}
	if len(g.active) == 0 {
		p.end(g)
	}
	return came, len(g.active) > 0
}

// close tells a scan that it is done.
func (p *passes) close(g *group, a *asked) {
	if a.shared {
		p.shared.Add(uint64(a.size()))
	}
	a.plan = g.plan
	close(a.done)
}
