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

// passes lets scans that go over the same rows share a pass. The first one starts
// at once; those that come while it runs wait for its end and then go together,
// up to [kernel.MaxQueries] queries at a time, in the order in which they came.
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

// passKey is what scans of one pass have in common, but for the records that
// take part.
type passKey struct {
	state              *state
	model              int64
	agent              uint64
	project, channel   uint64
	inProject, inClass bool // whether a project is given; whether only some records take part
	perParent          int
	batch              bool
}

// group is the scans that can share a pass, and exists while one runs.
type group struct {
	key     passKey
	of      rowsOf
	plan    *plan // nil until the first pass made it
	waiting []*asked
}

// asked is one scan that waits for its pass.
type asked struct {
	ctx     context.Context
	queries []kernel.Query
	most    uint64

	done    chan struct{} // closed when what follows is set
	plan    *plan
	answers []best
	err     error
}

// serve makes the passes those of a server.
func (p *passes) serve(s *Server, threads int) {
	p.turns, p.threads, p.clock = s.turns, threads, s.clock
	p.hold, p.release = s.hold, s.release
	p.lane = make(chan struct{}, 1)
	p.groups = make(map[passKey][]*group)
}

func newPassKey(st *state, model int64, of rowsOf, batch bool) passKey {
	key := passKey{state: st, model: model, agent: of.scope.Agent, perParent: of.perParent, batch: batch, inClass: of.only != nil}
	if of.scope.Project != nil {
		key.project, key.inProject = *of.scope.Project, true
	}
	if of.scope.Channel != nil {
		key.channel = *of.scope.Channel // 0 is as good as none
	}
	return key
}

// ask returns when a scan's pass has ended, or the scan's context has. Nobody else
// is disturbed by that.
func (p *passes) ask(a *asked, st *state, model int64, of rowsOf, batch bool) error {
	key := newPassKey(st, model, of, batch)
	p.mu.Lock()
	i := slices.IndexFunc(p.groups[key], func(g *group) bool { return sameOnly(g.of.only, of.only) })
	var g *group
	if i >= 0 {
		g = p.groups[key][i]
		if g.plan != nil && g.plan.over(a.most) {
			p.mu.Unlock()
			a.plan = g.plan
			return nil
		}
		g.waiting = append(g.waiting, a)
	} else {
		g = &group{key: key, of: of, waiting: []*asked{a}}
		p.groups[key] = append(p.groups[key], g)
		p.hold(st.lease)
		p.tasks.Go(func() {
			defer p.release(st.lease)
			for together := p.next(g); together != nil; together = p.next(g) {
				p.run(g, together)
			}
		})
	}
	p.mu.Unlock()
	select {
	case <-a.done:
		return a.err
	case <-a.ctx.Done():
		return a.ctx.Err()
	}
}

// next takes the scans of the next pass out of a group. Without any the group
// ends.
func (p *passes) next(g *group) (together []*asked) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(a *asked) bool { return a.ctx.Err() != nil })
	queries := 0
	for len(g.waiting) > 0 && queries+len(g.waiting[0].queries) <= kernel.MaxQueries {
		queries += len(g.waiting[0].queries)
		together = append(together, g.waiting[0])
		g.waiting = g.waiting[1:]
	}
	if together != nil {
		return together
	}
	p.groups[g.key] = slices.DeleteFunc(p.groups[g.key], func(other *group) bool { return other == g })
	if len(p.groups[g.key]) == 0 {
		delete(p.groups, g.key)
	}
	return nil
}

// run makes one pass. It goes on as long as one of its scans is waited for.
func (p *passes) run(g *group, together []*asked) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var left atomic.Int64
	left.Store(int64(len(together)))
	for _, a := range together {
		defer context.AfterFunc(a.ctx, func() {
			if left.Add(-1) == 0 {
				stop()
			}
		})()
	}
	err := layout.Guard(func() error { return p.pass(ctx, g, together) })
	for _, a := range together {
		a.err = err
		close(a.done)
	}
}

// pass compares the queries of scans that are not over what they want compared.
func (p *passes) pass(ctx context.Context, g *group, together []*asked) error {
	if g.key.batch {
		select {
		case p.lane <- struct{}{}:
			defer func() { <-p.lane }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	m := g.key.state.models[g.key.model]
	if err := intact(m.segments); err != nil {
		return err
	}
	made := g.plan // set by this goroutine alone
	if made == nil {
		var err error
		if made, err = m.plan(g.of); err != nil {
			return err
		}
		p.mu.Lock()
		g.plan = made
		p.mu.Unlock()
	}
	ps := &pass{turns: p.turns, agent: g.key.agent, batch: g.key.batch, threads: p.threads}
	if g.key.batch {
		ps.threads = 1
	}
	for _, a := range together {
		a.plan = made
		if !made.over(a.most) {
			ps.queries = append(ps.queries, a.queries...)
		}
	}
	if len(ps.queries) == 0 {
		return nil
	}
	start := p.clock()
	if err := ps.run(ctx, made.targets); err != nil {
		return err
	}
	p.count(made.read*uint64(m.stride()), p.clock().Sub(start))
	if len(together) > 1 {
		p.shared.Add(uint64(len(ps.queries)))
	}
	answers := ps.answers
	for _, a := range together {
		if !made.over(a.most) {
			a.answers, answers = answers[:len(a.queries):len(a.queries)], answers[len(a.queries):]
		}
	}
	return nil
}

func (p *passes) count(bytes uint64, took time.Duration) {
	p.passed.Add(1)
	p.bytes.Add(bytes)
	p.nanoseconds.Add(uint64(max(0, took)))
}
