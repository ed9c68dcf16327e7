package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"recalld/coordinator/admission"
	"recalld/coordinator/arm"
	"recalld/coordinator/fusion"
	"recalld/coordinator/prior"
	"recalld/memory"
	"recalld/shards"
	"recalld/sqlite"
)

// Recall answers one question from one snapshot: arms, fusion, prior, one sort,
// gate, hydration, reservation, answer. No step after the sort changes the order.
func (c *Coordinator) Recall(ctx context.Context, r RecallRequest) (*RecallResponse, error) {
	p, err := c.plan(r)
	if err != nil {
		return nil, err
	}
	c.asking.Add(1)
	defer c.asking.Add(-1)
	asked := c.models.ask(ctx, p)
	for try := 1; ; try++ {
		p.question.Patient = try == snapshotTries
		answer, err := c.recallOnce(ctx, p, asked)
		switch {
		case errors.Is(err, shards.ErrPassed):
			continue
		case err != nil:
			return nil, fmt.Errorf("recall: %w", err)
		}
		return answer, nil
	}
}

// snapshotTries is how many snapshots a recall tries that concurrent stores to
// its own scope keep outdating.
const snapshotTries = 4

// recallOnce answers from one snapshot.
func (c *Coordinator) recallOnce(ctx context.Context, p plan, asked asked) (*RecallResponse, error) {
	view, err := c.snapshot(ctx, p)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	t := &turn{c: c, ctx: ctx, plan: p, view: view, asked: asked, evidence: 1}
	return t.answer()
}

// snapshot opens the recall's one view of the file. Arms that read the full-text
// index want it up to date; a batch that is being written to it is waited for.
func (c *Coordinator) snapshot(ctx context.Context, p plan) (*sqlite.View, error) {
	if p.listing() || !slices.Contains(p.arms, arm.FTSMemoryName) && !slices.Contains(p.arms, arm.FTSEpisodeName) {
		return c.store.ViewRecords(ctx)
	}
	for try := 0; ; try++ {
		view, err := c.store.View(ctx)
		if err != nil {
			return nil, err
		}
		waiting, err := view.Unindexed()
		if err == nil && (waiting == 0 || try == indexTries || c.store.ReadOnly()) {
			return view, nil
		}
		if err := errors.Join(err, view.Close()); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(indexPause):
		}
	}
}

// How often and how long a recall waits for a batch on its way into the
// full-text index.
const (
	indexTries = 10
	indexPause = 2 * time.Millisecond
)

// turn is one recall on one snapshot.
type turn struct {
	plan
	c     *Coordinator
	ctx   context.Context
	view  *sqlite.View
	asked asked

	stats      sqlite.CellStats // sums over the scope
	vectors    []arm.ModelVector
	results    []arm.Result
	evidence   float64 // part of their weight that words keep in the fusion
	degraded   []Degradation
	gate       admission.Gate
	records    records
	exclusions []Exclusion
	fellBack   bool
	blocks     *arm.BlockRanking // nil: the block arm was not asked
	reserved   int               // rows that it added
}

// hit is one ranked row on its way into the answer.
type hit struct {
	fusion.Row
	prior      float64
	record     memory.Record
	signals    admission.Signals
	confidence *Confidence
	backfilled bool // its cosine came from its stored vector alone (RR-411)
	// block is what a reserved row came in by; nil for every other row.
	block *arm.BlockCandidate
}

// open reads what every recall needs of the scope.
func (t *turn) open() (err error) {
	t.records = records{view: t.view, scope: t.question.Scope, held: make(map[memory.Ref]memory.Record), wanted: t.count}
	t.stats, err = t.view.Stats(t.question.Scope)
	return err
}

func (t *turn) answer() (*RecallResponse, error) {
	if err := t.open(); err != nil {
		return nil, err
	}
	var hits []hit
	var err error
	if t.listing() {
		hits, err = t.newest()
	} else {
		hits, err = t.search()
	}
	if err != nil {
		return nil, err
	}
	return t.compose(hits)
}

// newest is the recency listing of an empty query (RR-403).
func (t *turn) newest() ([]hit, error) {
	t.gate = admission.NewGate(admission.GateInput{Off: t.gateOff, EmptyQuery: true, Signal: admission.Recency, Pool: t.pool()})
	records, err := t.recent()
	if err != nil {
		return nil, err
	}
	var kept []hit
	for _, record := range records {
		if t.exclusion.Excludes(record.Content) {
			t.exclude(record.Ref, stageFilter, "matches exclude_contents")
			continue
		}
		kept = append(kept, hit{Row: fusion.Row{Ref: record.Ref}, prior: 1, record: record})
	}
	return t.cut(kept), nil
}

// recent are the newest records in scope, or of one source in it (RR-442).
func (t *turn) recent() ([]memory.Record, error) {
	scope, depth := t.question.Scope, t.question.Depth
	if t.question.SourceID == "" {
		return t.view.Recent(scope, []memory.Kind{memory.KindMemory, memory.KindEpisode}, depth)
	}
	return t.view.List(scope, sqlite.Filter{Kind: memory.KindMemory, Limit: depth, NewestFirst: true, SourceIDPrefix: t.question.SourceID})
}

// search is every other recall.
func (t *turn) search() ([]hit, error) {
	if err := t.runArms(true); err != nil {
		return nil, err
	}
	hits, err := t.rank()
	if err != nil {
		return nil, err
	}
	if err := t.score(hits); err != nil {
		return nil, err
	}
	if t.gate, err = t.makeGate(); err != nil {
		return nil, err
	}
	kept, err := t.admit(hits)
	if err != nil {
		return nil, err
	}
	return t.reserve(t.cut(t.autocut(kept)))
}

// question is what one arm is asked, and what is to be said of that.
type question struct {
	arm   string
	query *arm.Query // nil: nothing, it is left out
	notes []Degradation
}

// runArms asks every arm of the plan on this snapshot, and the block arm where it
// takes part. They run at the same time, since much of an arm's time is waiting for
// the scanner; what they say is put together in the order of the plan.
func (t *turn) runArms(blocks bool) error {
	questions, err := t.questions()
	if err != nil {
		return err
	}
	results := make([]arm.Result, len(questions))
	var calls []func() error
	for i, q := range questions {
		if q.query != nil {
			calls = append(calls, func() (err error) {
				results[i], err = t.c.arms[q.arm].Search(t.ctx, t.view, *q.query)
				return err
			})
		}
	}
	if blocks && t.wantsBlocks() {
		calls = append(calls, t.searchBlocks)
	}
	if err := together(calls...); err != nil {
		return err
	}
	for i, q := range questions {
		t.degraded = append(t.degraded, q.notes...)
		if q.query == nil {
			continue
		}
		for _, d := range results[i].Degraded {
			t.degrade(results[i].Arm, d.Reason, d.Detail)
		}
		t.results = append(t.results, results[i])
	}
	return nil
}

// questions are those of the plan's arms, in its order.
func (t *turn) questions() ([]question, error) {
	questions := make([]question, len(t.arms))
	for i, name := range t.arms {
		q := t.question
		questions[i] = question{arm: name, query: &q}
		if name != arm.VectorName {
			continue
		}
		var notes []Degradation
		if t.asked.reason != "" {
			notes = append(notes, Degradation{Arm: name, Reason: t.asked.reason, Detail: t.asked.detail})
		}
		if !t.asked.usable() {
			questions[i] = question{arm: name, notes: notes}
			continue
		}
		vectors, more, err := t.c.models.vectors(t.view, q.Scope.Agent, t.asked)
		if err != nil {
			return nil, err
		}
		t.vectors, q.Vectors, questions[i].notes = vectors, vectors, append(notes, more...)
		if q.Floor, err = t.floor(); err != nil {
			return nil, err
		}
	}
	return questions, nil
}

// rank fuses the arms, applies the prior and sorts, once (DECISIONS 23).
func (t *turn) rank() ([]hit, error) {
	weight, err := t.weights()
	if err != nil {
		return nil, err
	}
	rankings := make([]fusion.Ranking, len(t.results))
	for i, r := range t.results {
		rankings[i] = fusion.Ranking{Arm: r.Arm, Weight: weight(r.Arm), Candidates: r.Candidates, Scale: scale(r.Arm), Unscored: r.Unscored}
	}
	fused := fusion.Fuse(t.mode, t.policy.RRFK, rankings)
	hits := make([]hit, len(fused))
	for i, row := range fused {
		hits[i] = hit{Row: row, prior: 1}
		// The gate reads the score before the prior, which orders rows and never
		// removes one.
		score := row.Score
		if t.mode == fusion.ReciprocalRank {
			hits[i].signals.ReciprocalRank = &score
		} else {
			hits[i].signals.Convex = &score
		}
	}
	if err := t.weigh(hits); err != nil {
		return nil, err
	}
	slices.SortFunc(hits, func(a, b hit) int { return fusion.Compare(a.Row, b.Row) })
	return hits, nil
}

// weigh multiplies the scores by p(row), the prior of each row.
func (t *turn) weigh(hits []hit) error {
	superseded, err := t.view.Superseded(refsOf(hits))
	if err != nil {
		return err
	}
	boundary := prior.Boundary{Newest: instant(t.stats.NewestEpisode), Rate: t.policy.EpisodeRate, Floor: t.policy.EpisodeFloor}
	aged := t.policy.EpisodePrior && t.stats.Episodes > 0
	if aged {
		if err := t.records.load(refsOf(hits)); err != nil {
			return err
		}
	}
	for i := range hits {
		h := &hits[i]
		if superseded[h.Ref] {
			h.prior = t.policy.SupersededPrior
		}
		if record, ok := t.records.held[h.Ref]; ok && aged {
			h.prior = float64(h.prior * boundary.Factor(record))
		}
		h.Score = float64(h.Score * h.prior)
	}
	return nil
}

// scale names the unit of an arm's keys: both lexical arms count in bits.
func scale(name string) string {
	if name == arm.LexicalMemoryName || name == arm.LexicalEpisodeName {
		return "bits"
	}
	return ""
}

// admit walks the ranking and keeps what passes the gate, is still there under
// the isolation predicate, and was not excluded by the caller. It stops when
// nobody needs more rows.
func (t *turn) admit(hits []hit) ([]hit, error) {
	var kept, rescued []hit
	enough := t.count
	if t.explain || t.policy.ConfidenceOn {
		enough = len(hits)
	}
	t.records.wanted = enough
	for i, h := range hits {
		if len(kept) == enough {
			break
		}
		passes := t.gate.Admit(h.signals)
		if !passes && !t.policy.ConfidenceOn {
			t.exclude(h.Ref, stageGate, "below the threshold")
			continue
		}
		record, ok, err := t.records.get(hits, i)
		if err != nil {
			return nil, err
		}
		h.record = record
		switch {
		case !ok:
			t.exclude(h.Ref, stageHydrate, "not in the scope of this snapshot")
		case t.exclusion.Excludes(record.Content):
			t.exclude(h.Ref, stageFilter, "matches exclude_contents")
		case !passes:
			t.exclude(h.Ref, stageGate, "below the threshold")
			rescued = append(rescued, h)
		default:
			kept = append(kept, h)
		}
	}
	if len(kept) == 0 {
		return t.rescue(rescued), nil
	}
	return kept, nil
}

// rescue is RR-425: when every row fell below the gate while the scorer is on,
// the rows whose cosine had to be filled in are returned instead.
func (t *turn) rescue(rows []hit) []hit {
	var kept []hit
	for _, h := range rows {
		if h.backfilled {
			kept = append(kept, h)
			t.exclusions = slices.DeleteFunc(t.exclusions, func(e Exclusion) bool { return e.Ref == h.Ref.String() })
		}
	}
	t.fellBack = len(kept) > 0
	return kept
}

// autocut drops rows below the largest gap of confidence (RR-426). Order stays.
// Fused scores are never cut: their gaps measure the fusion, not the rows.
func (t *turn) autocut(hits []hit) []hit {
	if t.gateOff || !t.policy.Autocut || !t.policy.ConfidenceOn || t.fellBack {
		return hits
	}
	scores := make([]float64, len(hits))
	for i, h := range hits {
		scores[i] = *h.signals.Confidence
	}
	slices.SortFunc(scores, func(a, b float64) int { return cmp.Compare(b, a) })
	n := admission.Autocut(scores, t.policy.AutocutRatio)
	if n == len(scores) {
		return hits
	}
	var kept []hit
	for _, h := range hits {
		if *h.signals.Confidence < scores[n-1] {
			t.exclude(h.Ref, stageAutocut, "below the largest gap")
			continue
		}
		kept = append(kept, h)
	}
	return kept
}

// cut keeps as many rows as were asked for.
func (t *turn) cut(hits []hit) []hit {
	if len(hits) <= t.count {
		return hits
	}
	for _, h := range hits[t.count:] {
		t.exclude(h.Ref, stageCount, "more rows than count")
	}
	return hits[:t.count]
}

// The stages that an exclusion names.
const (
	stageGate    = "gate"
	stageFilter  = "filter"
	stageAutocut = "autocut"
	stageCount   = "count"
	stageHydrate = "hydrate"
)

// exclude notes for an explanation where a row was dropped first: the reservation
// may come to it once more.
func (t *turn) exclude(ref memory.Ref, stage, reason string) {
	if !t.explain {
		return
	}
	x := Exclusion{Ref: ref.String(), Stage: stage, Reason: reason}
	if !slices.ContainsFunc(t.exclusions, func(e Exclusion) bool { return e.Ref == x.Ref }) {
		t.exclusions = append(t.exclusions, x)
	}
}

func (t *turn) degrade(name, reason, detail string) {
	t.degraded = append(t.degraded, Degradation{Arm: name, Reason: reason, Detail: detail})
}

// pool is the number of memories plus episodes in scope.
func (t *turn) pool() int64 { return t.stats.Memories + t.stats.Episodes }

// instant is a time of the file's statistics.
func instant(milli int64) memory.Time { return memory.Time{Milli: milli, Known: true} }

func refsOf(hits []hit) []memory.Ref {
	refs := make([]memory.Ref, len(hits))
	for i, h := range hits {
		refs[i] = h.Ref
	}
	return refs
}
