package scanner

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync/atomic"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner/kernel"
)

// maxCandidates is how many records an answer of a rank may have: what more means
// is that hardly any two can be told apart by their codes.
const maxCandidates = 1_000_000

// ranked is a range of record vectors of a file or of a part of the delta.
type ranked struct {
	values        kernel.Values
	scale, bound  []float32
	from, to      int
	live          kernel.Live
	at            func(row int) (memory.Ref, int)
	segment       *segment // nil: delta
	part          *vectors // of the delta, else nil
	first, pieces int      // number of its first piece, and how many it has
}

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
	if err := intact(m.records); err != nil {
		return nil, err
	}
	ranges, err := m.rankedRows(of)
	if err != nil {
		return nil, err
	}
	reply := &scannerv1.RankReply{State: st.wire()}
	var read uint64
	for _, t := range ranges {
		reply.RowsScanned += uint64(countLive(t.live, t.from, t.to))
		read += uint64(t.to - t.from)
	}
	p := &pass{turns: s.passes.turns, agent: of.scope.Agent, batch: r.GetBatch(), threads: s.passes.threads}
	if r.GetBatch() {
		p.threads = 1
		select {
		case s.passes.lane <- struct{}{}:
			defer func() { <-s.passes.lane }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	start := s.passes.clock()
	candidates, decided, err := p.nearest(ctx, m, ranges, r)
	if err != nil {
		return nil, err
	}
	s.passes.passed.Add(1)
	s.passes.nanoseconds.Add(uint64(max(0, s.passes.clock().Sub(start))))
	s.passes.bytes.Add(read * uint64(m.source.Dims))
	if decided != nil {
		reply.Refs, reply.Scores = wireScored(decided)
		return reply, nil
	}
	most := uint64(maxCandidates)
	if r.GetMost() > 0 {
		most = min(most, r.GetMost())
	}
	if uint64(len(candidates)) > most {
		reply.Over = true
		return reply, nil
	}
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

// rankedRows finds the ranges, not verified yet, and cuts them into pieces of a
// turn each.
func (m *model) rankedRows(of rowsOf) (ranges []*ranked, err error) {
	for _, g := range m.records {
		found, table, live, err := g.rowsOf(of)
		if err != nil {
			return nil, inFile(g.Name(), err)
		}
		for _, r := range found {
			ranges = append(ranges, &ranked{values: kernel.Values{Dims: m.source.Dims, Stride: g.RowBytes(), Data: g.Codes()}, scale: g.Scales(), bound: g.Bounds(),
				from: r.From, to: r.To, live: live, at: table.At, segment: g})
		}
	}
	within(m.vectors, of.scope, func(d *vectors) {
		ranges = append(ranges, &ranked{values: kernel.Values{Dims: m.source.Dims, Stride: m.source.Dims, Data: d.codes}, scale: d.scales, bound: d.bounds,
			to: len(d.refs), live: d.rowsOf(of), at: d.at, part: d})
	})
	pieces := 0
	for _, t := range ranges {
		t.first, t.pieces = pieces, (t.to-t.from+t.rowsOfAPiece()-1)/t.rowsOfAPiece()
		pieces += t.pieces
	}
	return ranges, nil
}

func (t *ranked) rowsOfAPiece() int { return max(1, turnBytes/t.values.Dims) }

// piece is the rows [from, to) of its number.
func (t *ranked) piece(number int) (from, to int) {
	from = t.from + (number-t.first)*t.rowsOfAPiece()
	return from, min(from+t.rowsOfAPiece(), t.to)
}

// nearest returns the records that could be among the k best of all ranges, in the
// order of records, and the k best of these when their vectors decide, else nil.
func (p *pass) nearest(ctx context.Context, m *model, ranges []*ranked, r *scannerv1.RankRequest) (could []candidate, best []memory.Candidate, err error) {
	if len(ranges) == 0 {
		return nil, nil, nil
	}
	if p.turn, err = p.turns.take(ctx, p.agent, p.batch); err != nil {
		return nil, nil, err
	}
	defer p.end()
	f := newFiner(r)
	if could, err = p.rank(ctx, ranges, r, f); err != nil || f == nil || len(could) > maxCandidates {
		return could, nil, err
	}
	best, err = p.decide(ctx, m, could, f, r)
	return could, best, err
}

// rank returns the records that could be among the k best of all ranges, in the
// order of records. f may be nil.
func (p *pass) rank(ctx context.Context, ranges []*ranked, r *scannerv1.RankRequest, f *finer) ([]candidate, error) {
	last := ranges[len(ranges)-1]
	pieces := last.first + last.pieces
	var next atomic.Int64
	lists := make(chan *shortlist, p.threads)
	err := p.together(ctx, pieces, func(ctx, idle context.Context, read *reading) error {
		list := &shortlist{k: int(r.GetK())}
		lists <- list
		for {
			number := int(next.Add(1)) - 1
			if number >= pieces {
				return nil
			}
			i, found := slices.BinarySearchFunc(ranges, number, func(t *ranked, n int) int { return cmp.Compare(t.first, n) })
			if !found {
				i--
			}
			from, to := ranges[i].piece(number)
			if err := ranges[i].rank(ctx, from, to, r, f, list, read); err != nil {
				return err
			}
			if err := read.add(idle, int64(to-from)*int64(ranges[i].values.Dims)); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return nil, err
	}
	close(lists)
	all := &shortlist{k: int(r.GetK())}
	for list := range lists {
		all.candidates = append(all.candidates, list.candidates...)
	}
	all.shorten()
	slices.SortFunc(all.candidates, func(a, b candidate) int { return memory.CompareRefs(a.ref, b.ref) })
	return all.candidates, nil
}

// rank adds the candidates of a piece.
func (t *ranked) rank(ctx context.Context, from, to int, r *scannerv1.RankRequest, f *finer, list *shortlist, read *reading) error {
	if t.segment != nil {
		if err := t.segment.verify(ctx, layout.Range{From: from, To: to}, read); err != nil {
			return err
		}
	}
	found, err := kernel.BoundScan(ctx, kernel.BoundJob{Values: t.values, From: from, To: to, Live: t.live, Query: r.GetCode(), K: list.k,
		Scale: t.scale, Error: t.bound, QueryScale: r.GetScale(), QueryError: r.GetError(), Path: kernel.Best()}, 1)
	if err != nil {
		return err
	}
	if f != nil {
		if err := f.tighten(t, r.GetScale(), found); err != nil {
			return err
		}
	}
	for _, c := range found {
		ref, _ := t.at(int(c.Row))
		list.candidates = append(list.candidates, candidate{ref, c.Least, c.Most, t, int(c.Row)})
	}
	if len(list.candidates) >= list.shortenAt {
		list.shorten()
	}
	return nil
}

// shortlist is the candidates of some pieces.
type shortlist struct {
	k          int
	candidates []candidate
	shortenAt  int // this many
}

// shorten drops those that k others are certainly better than.
func (l *shortlist) shorten() {
	if len(l.candidates) > l.k {
		least := make([]float64, len(l.candidates))
		for i, c := range l.candidates {
			least[i] = c.least
			if math.IsNaN(c.least) {
				least[i] = math.Inf(-1) // it tells nothing
			}
		}
		slices.Sort(least)
		floor := least[len(least)-l.k]
		l.candidates = slices.DeleteFunc(l.candidates, func(c candidate) bool { return c.most < floor })
	}
	l.shortenAt = max(4096, 2*len(l.candidates))
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
