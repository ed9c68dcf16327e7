package coordinator

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"recalld/coordinator/admission"
	"recalld/memory"
	"recalld/sqlite"
)

// Reasons for a signal without a threshold.
const (
	reasonTooFewRecords   = "too_few_records"
	reasonTooFewPositives = "too_few_positives"
)

// Calibrate measures thresholds from the agent's own rows, and no one else's
// (DECISIONS 1): the admission cosine from all pairs of a sample (RR-427), and
// the fused gate from stored memories asked as queries (RR-431), with the share
// of the vector arm that ranks neighbours best (DECISIONS 18). The sample
// follows from the seed, the agent and the number of its rows.
func (c *Coordinator) Calibrate(ctx context.Context, r CalibrateRequest) (*CalibrateResponse, error) {
	if err := checkAgent(r.Agent); err != nil {
		return nil, err
	}
	method, err := checkWord("method", r.Method, string(admission.Separation), string(admission.Percentile), string(admission.ZScore))
	if err != nil {
		return nil, err
	}
	precision, err := checkWord("precision", r.Precision, string(admission.Balanced), string(admission.Strict), string(admission.Lenient))
	if err != nil {
		return nil, err
	}
	if !r.DryRun {
		if err := c.writable(ctx, r.Agent); err != nil {
			return nil, err
		}
	}
	lowest := -100.
	if method == string(admission.Percentile) {
		lowest = 0
	}
	if !(r.Parameter >= lowest && r.Parameter <= 100) {
		return nil, &memory.FieldError{Field: "parameter", Problem: "is out of range", Limit: fmt.Sprintf("%g to 100", lowest), Next: "give a quantile or a percentage for percentile, or a z for zscore"}
	}
	if r.Parameter != 0 && method == string(admission.Separation) {
		return nil, &memory.FieldError{Field: "parameter", Problem: "is given with the method separation, which has none", Limit: "method percentile or zscore", Next: "leave it out, or name the method that it is for"}
	}
	view, err := c.store.View(ctx)
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	defer view.Close()
	if r.Precision == "" {
		if precision, err = lastPrecision(view, r.Agent, precision); err != nil {
			return nil, fmt.Errorf("calibrate: %w", err)
		}
	}
	k := &calibration{c: c, ctx: ctx, view: view, scope: memory.Scope{Agent: r.Agent}, request: r, method: admission.Method(method), precision: admission.Precision(precision)}
	if err := k.measure(); err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	answer := &CalibrateResponse{Agent: r.Agent, Results: []Calibration{}, Skipped: k.skipped}
	for _, s := range k.found {
		if !r.DryRun {
			if err := c.store.PutCalibration(ctx, s); err != nil {
				return nil, fmt.Errorf("calibrate: %w", err)
			}
		}
		answer.Results = append(answer.Results, Calibration{
			Agent: s.Agent, Signal: s.Signal, Method: s.Method, Precision: s.Precision, Threshold: s.Threshold, Model: k.model.Name, Dims: s.Dims,
			Scoring: s.ScoringVersion, Positives: s.Positives, Negatives: s.Negatives, Measured: memory.TimeOf(c.clock().UTC()).String(),
		})
	}
	return answer, nil
}

// Calibrations returns an agent's stored thresholds by model and signal, those
// that the active model or a newer scoring version no longer uses too.
func (c *Coordinator) Calibrations(ctx context.Context, agent string) ([]Calibration, error) {
	if err := checkAgent(agent); err != nil {
		return nil, err
	}
	view, err := c.store.ViewRecords(ctx)
	if err != nil {
		return nil, fmt.Errorf("calibrations: %w", err)
	}
	defer view.Close()
	models, err := view.Models()
	if err != nil {
		return nil, fmt.Errorf("calibrations: %w", err)
	}
	names := make(map[int64]string)
	for _, m := range models {
		names[m.ID] = m.Name
	}
	stored, err := view.Calibrations(agent)
	if err != nil {
		return nil, fmt.Errorf("calibrations: %w", err)
	}
	all := []Calibration{}
	for _, s := range stored {
		all = append(all, Calibration{
			Agent: s.Agent, Signal: s.Signal, Method: s.Method, Precision: s.Precision, Threshold: s.Threshold, Model: names[s.Model], Dims: s.Dims,
			Scoring: s.ScoringVersion, Positives: s.Positives, Negatives: s.Negatives, Measured: s.Created.String(),
		})
	}
	return all, nil
}

// lastPrecision is the precision that the agent's newest threshold was measured
// with, so that measuring again does not undo a choice.
func lastPrecision(view *sqlite.View, agent, fallback string) (string, error) {
	stored, err := view.Calibrations(agent)
	newest := int64(-1)
	for _, s := range stored {
		if s.Created.Milli > newest {
			newest, fallback = s.Created.Milli, s.Precision
		}
	}
	return fallback, err
}

// calibration is one measurement on one snapshot.
type calibration struct {
	c         *Coordinator
	ctx       context.Context
	view      *sqlite.View
	scope     memory.Scope
	request   CalibrateRequest
	method    admission.Method
	precision admission.Precision

	model   sqlite.Model // the agent's; zero when there is none
	random  *rand.Rand
	share   *float64 // of the vector arm, when measured
	found   []sqlite.Calibration
	skipped []Degradation
}

func (k *calibration) measure() error {
	h := fnv.New64a()
	h.Write([]byte(k.scope.Agent)) // never fails
	k.random = rand.New(rand.NewPCG(k.c.seed, h.Sum64()))
	var err error
	if k.model, _, err = k.view.ActiveModel(k.scope.Agent); err != nil {
		return err
	}
	if err := k.cosine(); err != nil {
		return err
	}
	share, err := k.vectorShare()
	if err != nil {
		return err
	}
	if share != nil {
		k.share = &share.Threshold // the gate is that of answers fused with it
		defer func() { k.found = append(k.found, *share) }()
	}
	return k.fused()
}

func (k *calibration) skip(signal admission.Signal, reason, detail string) {
	k.skipped = append(k.skipped, Degradation{Arm: string(signal), Reason: reason, Detail: detail})
}

func (k *calibration) keep(signal admission.Signal, method admission.Method, threshold float64, positives, negatives int) {
	k.found = append(k.found, sqlite.Calibration{
		Agent: k.scope.Agent, Model: k.model.ID, Dims: k.model.Dims, Signal: string(signal), Method: string(method), Precision: string(k.precision),
		Threshold: threshold, ScoringVersion: admission.ScoringVersion, Positives: positives, Negatives: negatives,
	})
}

// sampled is one row of a sample: its vector and its time.
type sampled struct {
	ref    memory.Ref
	vector []float32
	time   memory.Time
}

// cosine measures the admission threshold of the vector arm.
func (k *calibration) cosine() error {
	rows, err := k.sample(admission.DefaultSample)
	if err != nil {
		return err
	}
	if len(rows) < admission.MinSample {
		k.skip(admission.Cosine, reasonTooFewRecords, fmt.Sprintf("%d embedded records, at least %d are needed", len(rows), admission.MinSample))
		return nil
	}
	null, near, nearest := pairs(rows)
	positives := near
	if len(near) < admission.MinPositivePairs {
		positives = nearest
	}
	threshold := admission.Threshold(k.method, null, positives, k.precision.Beta(), k.request.Parameter)
	k.keep(admission.Cosine, k.method, threshold, len(positives), len(null))
	return nil
}

// pairs returns the similarities of all pairs, of those near in time, and of
// each row with its nearest other (RR-427, RR-428).
func pairs(rows []sampled) (null, near, nearest []float64) {
	best := make([]float64, len(rows))
	for i := range best {
		best[i] = -1
	}
	for i, a := range rows {
		for j, b := range rows[:i] {
			x := float64(memory.Dot(a.vector, b.vector))
			null = append(null, x)
			if nearInTime(a.time, b.time) {
				near = append(near, x)
			}
			best[i], best[j] = max(best[i], x), max(best[j], x)
		}
	}
	return null, near, best
}

func nearInTime(a, b memory.Time) bool {
	if a.IsZero() || b.IsZero() {
		return false
	}
	apart := a.Milli - b.Milli
	return max(apart, -apart) <= admission.PositiveMinutes*60_000
}

// sample draws up to n embedded rows of the agent, evenly over all.
func (k *calibration) sample(n int) ([]sampled, error) {
	if k.model.ID == 0 {
		return nil, nil
	}
	cells, err := k.view.Cells(k.scope)
	if err != nil {
		return nil, err
	}
	var ids []int64
	total := 0
	for _, cell := range cells {
		ids = append(ids, cell.ID)
		total += int(cell.Embedded[k.model.ID])
	}
	chosen := k.draw(total, n)
	var rows []sampled
	at := 0
	err = k.view.Vectors(k.model.ID, ids, func(ref memory.Ref, _ int64, values []float32) error {
		if len(chosen) > 0 && chosen[0] == at {
			rows = append(rows, sampled{ref: ref, vector: slices.Clone(values)})
			chosen = chosen[1:]
		}
		at++
		return nil
	})
	if err != nil {
		return nil, err
	}
	times, err := k.times(rows)
	for i := range rows {
		rows[i].time = times[rows[i].ref]
	}
	return rows, err
}

func (k *calibration) times(rows []sampled) (map[memory.Ref]memory.Time, error) {
	refs := make([]memory.Ref, len(rows))
	for i, row := range rows {
		refs[i] = row.ref
	}
	records, err := k.view.Hydrate(k.scope, refs)
	times := make(map[memory.Ref]memory.Time, len(records))
	for _, record := range records {
		times[record.Ref] = record.When()
	}
	return times, err
}

// draw returns n different places out of total, ascending.
func (k *calibration) draw(total, n int) []int {
	places := k.random.Perm(total)
	places = places[:min(n, total)]
	slices.Sort(places)
	return places
}

// fused measures the gate of the fused score under the server's own arms and
// mode.
func (k *calibration) fused() error {
	signal := admission.Signal(k.c.policy().Fusion)
	var thresholds []float64
	positives, negatives := 0, 0
	memories, err := k.memories()
	if err != nil {
		return err
	}
	for range admission.FusedDraws {
		null, near, err := k.fusedScores(memories, admission.FusedQueries)
		if err != nil {
			return err
		}
		if len(null) < admission.MinFusedNull || len(near) < admission.MinFusedPositives {
			continue
		}
		positives, negatives = positives+len(near), negatives+len(null)
		thresholds = append(thresholds, admission.Threshold(admission.Separation, null, near, k.precision.Beta(), 0))
	}
	if len(thresholds) == 0 {
		k.skip(signal, reasonTooFewPositives, fmt.Sprintf("at least %d answers near in time to their query are needed, and %d others", admission.MinFusedPositives, admission.MinFusedNull))
		return nil
	}
	k.keep(signal, admission.Separation, admission.UpperMedian(thresholds), positives, negatives)
	return nil
}

// fusedScores asks stored memories as queries and splits the scores of what
// comes back, the memory itself left out, by nearness in time.
func (k *calibration) fusedScores(memories []memory.Ref, queries int) (null, near []float64, err error) {
	var chosen []memory.Ref
	for _, at := range k.draw(len(memories), queries) {
		chosen = append(chosen, memories[at])
	}
	records, err := k.view.Hydrate(k.scope, chosen)
	if err != nil {
		return nil, nil, err
	}
	for _, record := range records {
		rows, err := k.ask(record)
		if err != nil {
			return nil, nil, err
		}
		for _, h := range rows {
			if h.Ref == record.Ref {
				continue
			}
			if nearInTime(h.record.When(), record.When()) {
				near = append(near, h.Score)
			} else {
				null = append(null, h.Score)
			}
		}
	}
	return null, near, nil
}

// memoriesPage is how many references are read at a time.
const memoriesPage = 10_000

// memories lists the agent's memories by reference.
func (k *calibration) memories() (refs []memory.Ref, err error) {
	filter := sqlite.Filter{Kind: memory.KindMemory, Limit: memoriesPage}
	for more := true; more; {
		page, err := k.view.Refs(k.scope, filter)
		if err != nil {
			return nil, err
		}
		refs = append(refs, page...)
		if more = len(page) == filter.Limit; more {
			filter.After = page[len(page)-1].ID
		}
	}
	return refs, nil
}

// ask runs the live pipeline up to the ranking, with every gate off.
func (k *calibration) ask(record memory.Record) ([]hit, error) {
	query, _ := memory.Prefix(record.Content, memory.MaxQuery)
	p, err := k.c.plan(RecallRequest{Agent: k.scope.Agent, Query: query, Gate: "off"})
	if err != nil {
		return nil, err
	}
	p.policy.ConfidenceOn = false
	p.question.Patient, p.question.Batch, p.fixedShare = true, true, k.share
	p.question.Approximate = false // a threshold stands for long
	t := &turn{c: k.c, ctx: k.ctx, plan: p, view: k.view, asked: k.c.models.ask(k.ctx, p)}
	if err := t.open(); err != nil {
		return nil, err
	}
	if err := t.runArms(false); err != nil {
		return nil, err
	}
	hits, err := t.rank()
	if err != nil {
		return nil, err
	}
	hits = hits[:min(len(hits), admission.FusedDepth)]
	if err := t.records.load(refsOf(hits)); err != nil {
		return nil, err
	}
	for i := range hits {
		hits[i].record = t.records.held[hits[i].Ref]
	}
	return hits, nil
}
