package scanner

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner/kernel"
)

// maxCandidates is how many records an answer of a rank may have: what more means
// is that hardly any two can be told apart by their codes.
const maxCandidates = 1_000_000

// ranked is a stretch of record vectors.
type ranked struct {
	values       kernel.Values
	scale, bound []float32
	from, to     int
	live         kernel.Live
	at           func(row int) (memory.Ref, int)
	segment      *segment // nil: delta
	part         *vectors // of the delta, else nil
}

func (t *ranked) span() (from, to int) { return t.from, t.to }

func (t *ranked) rowBytes() int { return t.values.Dims }

// candidate is a record that could be one of the best, and where it stands.
type candidate struct {
	ref         memory.Ref
	least, most float64
	in          *ranked
	row         int
}

// cosine is the middle of the bounds, -1 to 1; 0 where they are not numbers.
func (c candidate) cosine() float32 {
	middle := (c.least + c.most) / 2
	if math.IsNaN(middle) {
		return 0
	}
	return float32(min(max(middle, -1), 1))
}

// rank answers one request (DECISIONS 20).
func (s *Server) rank(ctx context.Context, st *state, r *scannerv1.RankRequest) (*scannerv1.RankReply, error) {
	m, err := st.model(r.GetSequence(), r.GetModel())
	if err != nil {
		return nil, err
	}
	of, err := rowsOfRequest(r.GetScope(), r.GetOnly())
	if err != nil {
		return nil, err
	}
	if err := m.checkRank(r); err != nil {
		return nil, err
	}
	a := &asked{ctx: ctx, rank: newRanking(r), done: make(chan struct{})}
	if err := s.passes.ask(a, st, r.GetModel(), of, r.GetBatch()); err != nil {
		return nil, err
	}
	reply := &scannerv1.RankReply{State: st.wire(), RowsScanned: a.plan.scanned}
	candidates := a.rank.candidates()
	if f := a.rank.finer; f != nil && len(candidates) > 0 && len(candidates) <= maxCandidates {
		decided, err := s.passes.decide(ctx, m, candidates, f, r)
		if err != nil {
			return nil, err
		}
		if decided != nil {
			reply.Refs, reply.Scores = wireScored(decided)
			return reply, nil
		}
	}
	most := uint64(maxCandidates)
	if r.GetMost() > 0 {
		most = min(most, r.GetMost())
	}
	if uint64(len(candidates)) > most {
		reply.Over = true
		return reply, nil
	}
	slices.SortFunc(candidates, func(a, b candidate) int { return memory.CompareRefs(a.ref, b.ref) })
	reply.Refs = wireRefs(candidates)
	if len(r.GetVector()) > 0 {
		return reply, nil
	}
	reply.Cosines = make([]float32, len(candidates))
	for i, c := range candidates {
		reply.Cosines[i] = c.cosine()
	}
	return reply, nil
}

func (m *model) checkRank(r *scannerv1.RankRequest) error {
	if n := len(r.GetCode()); n != m.source.Dims {
		return invalid("code", "has %d components, the model has %d", n, m.source.Dims)
	}
	if r.GetK() < 1 || r.GetK() > maxWanted {
		return invalid("k", "is %d, not 1 to %d", r.GetK(), maxWanted)
	}
	if n := len(r.GetVector()); n != 0 && n != m.source.Dims {
		return invalid("vector", "has %d components, the model has %d", n, m.source.Dims)
	}
	if !reasonable(r.GetScale()) || !reasonable(r.GetError()) {
		return invalid("scale, error", "are %g and %g, not 0 to %g", r.GetScale(), r.GetError(), maxScale)
	}
	return nil
}

// maxScale is the largest step or error of a code of a unit vector, with room. Only
// vectors of a length of about a million could pass it, and no model's do: package
// embed brings what a server answers to length one, static and hash make nothing else,
// and vectors that come with an import are brought to length one as well.
const maxScale = 1e6

func reasonable(x float64) bool { return x >= 0 && x <= maxScale }

// recordPlan finds the ranges of record vectors, which are not verified yet.
func (m *model) recordPlan(of rowsOf) (*plan, error) {
	p := &plan{}
	for _, g := range m.records {
		ranges, table, live, err := g.rowsOf(of)
		if err != nil {
			return nil, inFile(g.Name(), err)
		}
		for _, r := range ranges {
			p.add(&ranked{values: kernel.Values{Dims: m.source.Dims, Stride: g.RowBytes(), Data: g.Codes()}, scale: g.Scales(), bound: g.Bounds(),
				from: r.From, to: r.To, live: live, at: table.At, segment: g}, live)
		}
	}
	within(m.vectors, of.scope, func(d *vectors) {
		live := d.rowsOf(of)
		p.add(&ranked{values: kernel.Values{Dims: m.source.Dims, Stride: m.source.Dims, Data: d.codes}, scale: d.scales, bound: d.bounds,
			to: len(d.refs), live: live, at: d.at, part: d}, live)
	})
	return p, nil
}

// leg is that of a [stretch], for ranks, in pieces of a turn each.
func (t *ranked) leg(p *pass, from, to int, ranks []*asked) (rows int, err error) {
	ctx := context.Background() // ended by stop
	if t.segment != nil {
		// Before anybody helps: a helper that waits for a turn in the middle of a piece
		// would be waited for by one that keeps its own.
		if to, err = t.segment.verifyUntil(ctx, layout.Range{From: from, To: to}, &p.reading, p.stop); err != nil || to <= from {
			return 0, err
		}
	}
	job := kernel.BoundJob{Values: t.values, Live: t.live, Scale: t.scale, Error: t.bound, Path: kernel.Best()}
	for _, a := range ranks {
		job.Queries = append(job.Queries, a.rank.query)
	}
	piece := max(1, int(p.turns.quantum)/t.rowBytes())
	var next, read atomic.Int64
	err = p.together(ctx, (to-from+piece-1)/piece, func(_, idle context.Context, r *reading) error {
		for {
			job := job
			job.From = from + (int(next.Add(1))-1)*piece
			if job.From >= to {
				return nil
			}
			job.To = min(job.From+piece, to)
			if err := t.compare(ctx, job, ranks); err != nil {
				return err
			}
			n := int64(job.To - job.From)
			read.Add(n)
			if err := r.add(idle, n*int64(t.rowBytes())); err != nil || p.stop.Load() {
				return err
			}
		}
	})
	return int(read.Load()), err
}

// compare adds the candidates of a piece to each rank.
func (t *ranked) compare(ctx context.Context, piece kernel.BoundJob, ranks []*asked) error {
	all, err := kernel.BoundScans(ctx, piece, 1)
	if err != nil {
		return err
	}
	for i, a := range ranks {
		if err := a.rank.add(t, all[i]); err != nil {
			return err
		}
	}
	return nil
}

// ranking is what a rank looks for, and what it has found.
type ranking struct {
	query kernel.BoundQuery
	finer *finer // may be nil

	mu    sync.Mutex
	found shortlist
}

func newRanking(r *scannerv1.RankRequest) *ranking {
	k := int(r.GetK())
	return &ranking{query: kernel.BoundQuery{Code: r.GetCode(), K: k, Scale: r.GetScale(), Error: r.GetError(), Floor: kernel.NewFloor()}, finer: newFiner(r), found: shortlist{k: k}}
}

// add takes what was found in a piece. In which order pieces come, and how rows are
// cut into them, changes nothing: what is dropped is certainly not among the k best.
func (r *ranking) add(t *ranked, found []kernel.Candidate) error {
	if r.finer != nil {
		if err := r.finer.tighten(t, r.query.Scale, found); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range found {
		ref, _ := t.at(int(c.Row))
		r.found.candidates = append(r.found.candidates, candidate{ref, c.Least, c.Most, t, int(c.Row)})
	}
	if len(r.found.candidates) >= r.found.shortenAt {
		r.query.Floor.Lift(r.found.shorten())
	}
	return nil
}

// candidates are the records that could be among the k best, in no order.
func (r *ranking) candidates() []candidate {
	r.found.shorten()
	return r.found.candidates
}

// shortlist is the candidates that are known.
type shortlist struct {
	k          int
	candidates []candidate
	shortenAt  int // this many
}

// shorten drops those that k others are certainly better than, and returns what
// these reach.
func (l *shortlist) shorten() (floor float64) {
	floor = math.Inf(-1)
	if len(l.candidates) > l.k {
		least := make([]float64, len(l.candidates))
		for i, c := range l.candidates {
			least[i] = c.least
			if math.IsNaN(c.least) {
				least[i] = math.Inf(-1) // it tells nothing
			}
		}
		slices.Sort(least)
		floor = least[len(least)-l.k]
		l.candidates = slices.DeleteFunc(l.candidates, func(c candidate) bool { return c.most < floor })
	}
	l.shortenAt = max(256, 2*len(l.candidates))
	return floor
}

// wireRefs makes all messages in one piece: there can be many.
func wireRefs(candidates []candidate) []*scannerv1.Ref {
	refs := make([]scannerv1.Ref, len(candidates))
	list := make([]*scannerv1.Ref, len(candidates))
	for i, c := range candidates {
		refs[i].Kind, refs[i].Id = scannerv1.Kind(c.ref.Kind), c.ref.ID
		list[i] = &refs[i]
	}
	return list
}

// wireScored is wireRefs for records whose vectors decided.
func wireScored(best []memory.Candidate) (list []*scannerv1.Ref, scores []float32) {
	refs := make([]scannerv1.Ref, len(best))
	for i, c := range best {
		refs[i].Kind, refs[i].Id = scannerv1.Kind(c.Ref.Kind), c.Ref.ID
		list, scores = append(list, &refs[i]), append(scores, float32(c.Key))
	}
	return list, scores
}
