package coordinator

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"recalld/coordinator/arm"
	"recalld/memory"
	"recalld/sqlite"
)

// MaxRecallQueries bounds the questions of one measure of approximate recall.
const MaxRecallQueries = 1000

// recallDepth is how many nearest others of a question are compared.
const recallDepth = 10

// approximateRecall asks up to n stored vectors both ways (DECISIONS 20): of all
// records of their own agent, in the lane of maintenance, each in a snapshot of its
// own. The draw follows from the seed and the number of vectors.
func (c *Coordinator) approximateRecall(ctx context.Context, n int) (*ApproximateRecall, error) {
	m := &ApproximateRecall{}
	if c.codes == nil {
		return m, nil
	}
	questions, err := c.drawVectors(ctx, n)
	if err != nil {
		return nil, err
	}
	if len(questions) == 0 {
		return m, nil
	}
	if err := c.codesBuilt(ctx); err != nil {
		return nil, err
	}
	var found, wanted int
	for _, q := range questions {
		exact, approximate, marked, err := c.bothWays(ctx, q)
		if err != nil {
			return nil, err
		}
		if !marked || len(exact) == 0 {
			continue
		}
		m.Queries++
		wanted += len(exact)
		for _, ref := range exact {
			if slices.Contains(approximate, ref) {
				found++
			}
		}
	}
	if wanted > 0 {
		share := float64(found) / float64(wanted)
		m.At10 = &share
	}
	return m, nil
}

// vectorQuestion is a stored vector and where it is asked.
type vectorQuestion struct {
	agent string
	ref   memory.Ref
	asked arm.ModelVector
}

// bothWays returns the nearest others of a question, and whether the approximate
// answer is one: while the scanner has no answer it is exact.
func (c *Coordinator) bothWays(ctx context.Context, v vectorQuestion) (exact, approximate []memory.Ref, marked bool, err error) {
	view, err := c.store.ViewRecords(ctx)
	if err != nil {
		return nil, nil, false, err
	}
	defer view.Close()
	q := arm.Query{
		Scope: memory.Scope{Agent: v.agent}, Vectors: []arm.ModelVector{v.asked}, Depth: recallDepth + 1, Floor: math.Inf(-1),
		Patient: true, Batch: true,
	}
	found, err := c.arms[arm.VectorName].Search(ctx, view, q)
	if err != nil {
		return nil, nil, false, err
	}
	exact = others(found, v.ref)
	q.Approximate = true
	if found, err = c.arms[arm.VectorName].Search(ctx, view, q); err != nil {
		return nil, nil, false, err
	}
	marked = slices.ContainsFunc(found.Degraded, func(d arm.Degradation) bool { return d.Reason == arm.ReasonApproximate })
	return exact, others(found, v.ref), marked, nil
}

// others are the first candidates beside one, at most recallDepth.
func others(r arm.Result, but memory.Ref) (refs []memory.Ref) {
	for _, candidate := range r.Candidates {
		if candidate.Ref != but && len(refs) < recallDepth {
			refs = append(refs, candidate.Ref)
		}
	}
	return refs
}

// drawVectors draws up to n vectors of the active model, evenly over the store.
func (c *Coordinator) drawVectors(ctx context.Context, n int) (drawn []vectorQuestion, err error) {
	view, err := c.store.ViewRecords(ctx)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	model, ok, err := view.ActiveModel("")
	if err != nil || !ok {
		return nil, err
	}
	cells, total, err := vectorCells(view, model.ID)
	if err != nil {
		return nil, err
	}
	places := rand.New(rand.NewPCG(c.seed, uint64(total))).Perm(total)
	places = places[:min(n, total)]
	slices.Sort(places)
	at := 0
	for _, cell := range cells {
		if len(places) == 0 {
			break
		}
		if places[0] >= at+int(cell.N) {
			at += int(cell.N)
			continue
		}
		named, err := view.CellsByID([]int64{cell.Cell})
		if err != nil {
			return nil, err
		}
		err = view.Vectors(model.ID, []int64{cell.Cell}, func(ref memory.Ref, _ int64, values []float32) error {
			if len(places) > 0 && places[0] == at {
				places = places[1:]
				drawn = append(drawn, vectorQuestion{named[0].Cell.Agent, ref, arm.ModelVector{Model: model.ID, Vector: slices.Clone(values)}})
			}
			at++
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return drawn, nil
}

// cellsPage is how many cells are read at a time.
const cellsPage = 10_000

// vectorCells are the cells with vectors of a model, by number, and how many
// vectors they have together.
func vectorCells(view *sqlite.View, model int64) (cells []sqlite.CellCount, total int, err error) {
	after := int64(0)
	for more := true; more; {
		before := len(cells)
		err := view.CountedVectors(model, after, cellsPage, func(cell sqlite.CellCount) error {
			cells, total, after = append(cells, cell), total+int(cell.N), cell.Cell
			return nil
		})
		if err != nil {
			return nil, 0, err
		}
		more = len(cells)-before == cellsPage
	}
	return cells, total, nil
}

// codesBuilt waits until the scanner's process holds everything that is stored by
// now, or it is known why it does not.
func (c *Coordinator) codesBuilt(ctx context.Context) error {
	tick := time.NewTicker(indexPause)
	defer tick.Stop()
	first := c.codes.State(ctx)
	for {
		if s := c.codes.State(ctx); s.Trouble != "" || !s.Building && s.Applied >= first.Applied+first.Lag {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
