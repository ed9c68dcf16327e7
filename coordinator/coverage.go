package coordinator

import (
	"fmt"

	"recalld/coordinator/arm"
)

// coverage says how much of the scope the arms of this recall could see. Full
// is claimed only when every arm that was asked for ran and saw every record; what
// the block arm could see stands beside it, in counts of its own.
func (t *turn) coverage() (Coverage, error) {
	c := Coverage{Records: t.pool(), Full: true}
	var model int64
	for _, v := range t.vectors {
		if n := t.stats.Embedded[v.Model]; n >= c.Embedded {
			c.Embedded, model = n, v.Model
		}
	}
	if model == 0 {
		// No vector was asked for: report the agent's model.
		active, ok, err := t.view.ActiveModel(t.question.Scope.Agent)
		if err != nil {
			return c, err
		}
		if ok {
			model, c.Embedded = active.ID, t.stats.Embedded[active.ID]
		}
	}
	if c.Embedded < c.Records && model != 0 {
		var err error
		if c.Pending, err = t.view.PendingIn(t.question.Scope, model); err != nil {
			return c, err
		}
	}
	var err error
	if c.Blocks, err = t.blockCoverage(); err != nil {
		return c, err
	}
	for _, r := range t.results {
		c.Full = c.Full && !r.Partial
	}
	for _, name := range t.asksFor() {
		if name != arm.VectorName {
			continue
		}
		if !t.asked.usable() || len(t.vectors) == 0 {
			c.Full = false
			continue
		}
		if missing := c.Records - c.Embedded; missing > 0 {
			c.Full = false
			t.degrade(name, arm.ReasonNotEmbedded, fmt.Sprintf("%d of %d records in scope have no vector; %d of them wait in the queue", missing, c.Records, c.Pending))
		}
	}
	return c, nil
}

// blockCoverage counts the blocks of the model that has most of them; nil when
// the block arm took no part.
func (t *turn) blockCoverage() (*BlockCoverage, error) {
	if t.blocks == nil {
		return nil, nil
	}
	cells, err := t.view.Cells(t.question.Scope)
	if err != nil {
		return nil, err
	}
	ids := make([]int64, len(cells))
	for i, cell := range cells {
		ids[i] = cell.ID
	}
	c := &BlockCoverage{Scanned: t.blocks.Scanned}
	for i, m := range t.vectors {
		stats, err := t.view.BlockStats(m.Model, ids)
		if err != nil {
			return nil, err
		}
		if i == 0 || stats.Sets > c.Records {
			c.Records, c.Blocks, c.Pending = stats.Sets, stats.Blocks, stats.Waiting
		}
	}
	return c, nil
}

// asksFor are the arms that run: none for a listing.
func (t *turn) asksFor() []string {
	if t.listing() {
		return nil
	}
	return t.arms
}
