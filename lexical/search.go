package lexical

import (
	"cmp"
	"context"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"recalld/memory"
)

// MaxHits is the most hits that one search returns.
const MaxHits = 100_000

// Hit is one row of an answer.
type Hit struct {
	Ref   memory.Ref
	Score uint32 // in units of 1/ScoreUnit bit, at least 1
	// Matches says where the score came from, the largest part first. It is
	// filled when the search was asked to explain.
	Matches []Match
}

// Bits returns the score in bits of information. The conversion is exact.
func (h Hit) Bits() float64 { return float64(h.Score) / ScoreUnit }

// Match is what one query term gave to a hit.
type Match struct {
	Term  string // as a reader knows it
	Score uint32 // the sum over a hit's matches is the hit's score
	Own   bool   // the row has the term itself; else its neighbours lent it
}

// Result is the answer to one search.
type Result struct {
	Hits           []Hit    // score descending, then id ascending
	Terms          []string // the query's terms that some row in scope contains, as a reader knows them
	QueryTruncated bool     // the query had more than MaxQueryTerms distinct terms
	Rows           int64    // live rows in scope
	// Asked is what a row would score that had every term of the query without end,
	// in units of 1/ScoreUnit bit. A term that no row has weighs most. Of a bigram
	// half counts, because each character stands in two.
	Asked uint32
	// PostingsTouched counts the postings that were placed for scoring. It depends
	// on the scope's rows and their cut into files, never on other cells.
	PostingsTouched int64
}

// view is the live rows of one cell and kind, as one search sees them.
type view struct {
	*sequence
	dead []*roaring.Bitmap // per source, nil for none
}

// search answers one query over a set of views.
type search struct {
	kind    memory.Kind
	terms   []QueryTerm
	views   []view
	lists   [][]list // per view: the lists of term t in source s at t·sources + s
	weights []uint32 // per term, 0 when no row contains it
	asked   uint32   // of [Result]
	curve   curve
	keep    func(memory.Ref) bool
	top     top
	touched int64
	exhaust bool // no pruning; for tests
	window  window
}

// run scores all views.
func (s *search) run(ctx context.Context, explain bool) (Result, error) {
	if err := s.weigh(); err != nil {
		return Result{}, err
	}
	res := Result{Asked: s.asked}
	for _, v := range s.views {
		res.Rows += int64(v.rows)
	}
	for t, w := range s.weights {
		if w > 0 && !slices.Contains(res.Terms, s.terms[t].Shown) {
			res.Terms = append(res.Terms, s.terms[t].Shown)
		}
	}
	for i := range s.views {
		if err := s.score(ctx, i); err != nil {
			return Result{}, err
		}
	}
	res.PostingsTouched = s.touched
	rows := s.top.rows
	slices.SortFunc(rows, func(a, b ranked) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	res.Hits = make([]Hit, len(rows))
	for i, r := range rows {
		res.Hits[i] = Hit{Ref: memory.Ref{Kind: s.kind, ID: r.id}, Score: r.score}
	}
	if explain {
		return res, s.explain(rows, res.Hits)
	}
	return res, nil
}

// weigh looks every term up in every source and weighs it by the number of live
// rows of the whole scope that contain it in their own text.
func (s *search) weigh() error {
	var stats statistics
	df := make([]uint64, len(s.terms))
	s.lists = make([][]list, len(s.views))
	for i, v := range s.views {
		stats.rows += uint64(v.rows)
		stats.length += v.sequence.length
		s.lists[i] = make([]list, len(s.terms)*len(v.sources))
		for t, term := range s.terms {
			for j, src := range v.sources {
				l, err := src.postings(term)
				if err != nil {
					return err
				}
				n, err := countLive(&l, v.dead[j])
				if err != nil {
					return err
				}
				df[t] += uint64(n)
				s.lists[i][t*len(v.sources)+j] = l
			}
		}
	}
	s.curve = stats.curve()
	s.weights = make([]uint32, len(s.terms))
	for t, n := range df {
		weight := stats.weight(n)
		s.asked += distinct(s.terms[t].Term, weight)
		if n > 0 {
			s.weights[t] = weight
		}
	}
	return nil
}

// countLive returns the number of live rows that a list has postings of.
func countLive(l *list, dead *roaring.Bitmap) (int, error) {
	if dead == nil || l.count == 0 {
		return l.count, nil
	}
	live := l.count
	var b block
	it := dead.Iterator()
	for i := 0; i < l.blocks && it.HasNext(); i++ {
		if l.last(i) < it.PeekNext() {
			continue
		}
		if err := l.decode(i, &b); err != nil {
			return 0, err
		}
		for _, row := range b.row[:b.n] {
			it.AdvanceIfNeeded(row)
			if !it.HasNext() {
				break
			}
			if it.PeekNext() == row {
				live--
			}
		}
	}
	return live, nil
}

// lanes returns the query's terms in one view, the term that can give least
// first.
func (s *search) lanes(i int) []lane {
	v := s.views[i]
	var lanes []lane
	for t, weight := range s.weights {
		if weight == 0 {
			continue
		}
		l := lane{term: t, weight: weight, date: IsDateWord(s.terms[t].Term)}
		freq := uint32(0)
		for j, list := range s.lists[i][t*len(v.sources) : (t+1)*len(v.sources)] {
			if list.count == 0 {
				continue
			}
			l.readers = append(l.readers, reader{list: list, runs: v.bySource[j]})
			for b := range list.blocks {
				freq = max(freq, list.maxFreq(b))
			}
		}
		if freq == 0 {
			continue
		}
		l.bound = l.limit(s.curve, freq)
		lanes = append(lanes, l)
	}
	slices.SortStableFunc(lanes, func(a, b lane) int { return cmp.Compare(a.bound, b.bound) })
	return lanes
}

// score offers the rows of one view to the top.
//
// The lanes that together cannot lift a row over the threshold are the weak
// ones: a row without any other term cannot enter. The others are added up
// window by window; only rows that may still enter are looked up in the weak
// lanes. Bounds are integers above every sum they bound, a row is dropped only
// when its bound is below the threshold, and so the outcome is that of scoring
// every row (DECISIONS 2).
func (s *search) score(ctx context.Context, i int) error {
	q := s.views[i].sequence
	lanes := s.lanes(i)
	bounds := make([]uint32, len(lanes)+1) // of the first j lanes together
	for j := range lanes {
		bounds[j+1] = bounds[j] + lanes[j].bound
	}
	w := &s.window
	weak := 0
	for pos := uint32(0); pos < q.rows; pos = w.lo + w.n {
		if err := ctx.Err(); err != nil {
			return err
		}
		threshold := s.top.threshold()
		if s.exhaust {
			threshold = 1
		}
		for weak < len(lanes) && bounds[weak+1] < threshold {
			weak++
		}
		first, ok, err := nextOf(lanes[weak:], pos-min(pos, Reach))
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		w.lo = max(pos, first-min(first, Reach))
		w.n = min(windowRows, q.rows-w.lo)
		w.load(q, w.lo, w.n)
		for j := range lanes[weak:] {
			l := &lanes[weak+j]
			if err := l.fill(w.lo-min(w.lo, Reach), w.lo+w.n+Reach); err != nil {
				return err
			}
			w.add(l, s.curve)
		}
		w.rivals = w.rivals[:0]
		for j := Reach; j < Reach+int(w.n); j++ {
			if w.score[j] > 0 && w.score[j]+bounds[weak] >= threshold {
				w.rivals = append(w.rivals, uint32(j))
			}
		}
		for j := weak - 1; j >= 0 && len(w.rivals) > 0; j-- {
			if err := w.lookUp(&lanes[j], s.curve, threshold-min(threshold, bounds[j])); err != nil {
				return err
			}
		}
		for _, j := range w.rivals {
			s.offer(i, w.lo+j-Reach, w.score[j])
		}
	}
	for j := range lanes {
		s.touched += lanes[j].touched
	}
	return nil
}

func (s *search) offer(i int, pos, score uint32) {
	if score < s.top.threshold() {
		return
	}
	id := s.views[i].id(pos)
	if s.keep != nil && !s.keep(memory.Ref{Kind: s.kind, ID: id}) {
		return
	}
	s.top.offer(ranked{score: score, id: id, cell: i, pos: pos})
}

// lookUp adds a weak lane to the rivals and drops those that stay below need.
func (w *window) lookUp(l *lane, c curve, need uint32) error {
	low := w.lo + w.rivals[0] - Reach
	high := w.lo + w.rivals[len(w.rivals)-1] - Reach
	if err := l.fill(low-min(low, Reach), high+Reach+1); err != nil {
		return err
	}
	kept := w.rivals[:0]
	from := 0
	for _, i := range w.rivals {
		var score uint32
		score, from = w.gather(l, int(i), from, c)
		w.score[i] += score
		if w.score[i] >= need {
			kept = append(kept, i)
		}
	}
	w.rivals = kept
	return nil
}

// nextOf returns the lowest next position of several lanes.
func nextOf(lanes []lane, lo uint32) (pos uint32, ok bool, err error) {
	for j := range lanes {
		p, more, err := lanes[j].next(lo)
		if err != nil {
			return 0, false, err
		}
		if more && (!ok || p < pos) {
			pos, ok = p, true
		}
	}
	return pos, ok, nil
}

// explain fills the matches of the hits; rows[i] is where hits[i] was found.
func (s *search) explain(rows []ranked, hits []Hit) error {
	byPlace := make([]int, len(rows))
	for i := range rows {
		byPlace[i] = i
	}
	slices.SortFunc(byPlace, func(a, b int) int {
		return cmp.Or(cmp.Compare(rows[a].cell, rows[b].cell), cmp.Compare(rows[a].pos, rows[b].pos))
	})
	w := &s.window
	var lanes []lane
	cell := -1
	for _, i := range byPlace {
		r := rows[i]
		if r.cell != cell {
			cell = r.cell
			lanes = s.lanes(cell)
		}
		w.load(s.views[cell].sequence, r.pos, 1)
		for j := range lanes {
			l := &lanes[j]
			if err := l.fill(r.pos-min(r.pos, Reach), r.pos+Reach+1); err != nil {
				return err
			}
			if score, _ := w.gather(l, Reach, 0, s.curve); score > 0 {
				hits[i].Matches = addMatch(hits[i].Matches, Match{s.terms[l.term].Shown, score, l.holds(r.pos)})
			}
		}
		slices.SortFunc(hits[i].Matches, func(a, b Match) int {
			return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Term, b.Term))
		})
	}
	return nil
}

// addMatch adds a match to those of a hit; terms that a reader knows by one name
// are one match.
func addMatch(matches []Match, m Match) []Match {
	for i := range matches {
		if matches[i].Term == m.Term {
			matches[i].Score += m.Score
			matches[i].Own = matches[i].Own || m.Own
			return matches
		}
	}
	return append(matches, m)
}
