package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"recalld/ingest"
	"recalld/sqlite"
)

// longestWay is how long one record's blocks wait for recalls and stores at most, so
// that a server that always works still builds more than a hundred records a second.
const longestWay = 8 * time.Millisecond

// giveWay waits while a recall or a store is under way: whoever asked is waiting, and
// nobody waits for blocks.
func (c *Coordinator) giveWay(ctx context.Context) {
	const look = time.Millisecond
	for waited := time.Duration(0); waited < longestWay && c.asking.Load() > 0 && ctx.Err() == nil; waited += look {
		time.Sleep(look)
	}
}

// How records are divided into nodes, as [BlockState] says it.
const (
	nodesByWindow = "window"         // by the model's window
	nodesUnknown  = "window_unknown" // not at all: the model does not say how much it reads
)

// blockState is how far building came, over all agents. The model is the one that
// new vectors are made with; without one only the switch is known.
func (c *Coordinator) blockState(ctx context.Context) (BlockState, error) {
	state := BlockState{Build: c.policy().BlockBuild}
	model, _, k := c.models.writer.now()
	if !state.Build || k.id == 0 {
		return state, nil
	}
	p, err := c.store.BlockProgress(ctx, k.id)
	if err != nil {
		return state, err
	}
	state.Records, state.Blocks, state.Unembeddable = p.Sets, p.Blocks, p.Unembeddable
	state.Waiting, state.Failed, state.LastError = p.Waiting, p.Failed, p.LastError
	state.Nodes = nodesUnknown
	if ingest.CountsNodes(model) {
		state.Nodes = nodesByWindow
	}
	return state, nil
}

// checkBlocks reports records that need blocks, have no current set, and wait for
// none (BR-119). Records that wait are evidence of progress and no finding: a store
// never waits for its blocks (BR-108). With building off, or without a model, there
// is nothing to report (BR-127).
func (c *Coordinator) checkBlocks(ctx context.Context) (sqlite.Finding, error) {
	_, _, k := c.models.writer.now()
	if !c.policy().BlockBuild || k.id == 0 {
		return sqlite.Finding{OK: true}, nil
	}
	some, missing, waiting, err := ingest.MissingBlocks(ctx, c.store, k.id)
	if err != nil {
		return sqlite.Finding{}, err
	}
	p, err := c.store.BlockProgress(ctx, k.id)
	if err != nil {
		return sqlite.Finding{}, err
	}
	finding := sqlite.Finding{OK: missing == 0 && p.Failed == 0}
	if waiting > 0 {
		finding.Evidence = append(finding.Evidence, fmt.Sprintf("%d records wait for their blocks, %d have them", waiting, p.Sets))
	}
	if finding.OK {
		return finding, nil
	}
	finding.Severity = sqlite.SeverityWarning
	finding.Fix = fmt.Sprintf("run `recalld doctor --fix`, which builds at most %d records a time; the server builds what waits by itself", ingest.MostFixed)
	if p.Failed > 0 {
		finding.Evidence = append(finding.Evidence, fmt.Sprintf("%d records could not be embedded so far and are tried again; last error: %s", p.Failed, p.LastError))
	}
	for i, ref := range some {
		if i+1 == maxEvidence && missing > maxEvidence {
			finding.Evidence = append(finding.Evidence, fmt.Sprintf("and %d more", missing-i))
			break
		}
		finding.Evidence = append(finding.Evidence, ref.String()+" needs blocks and has none")
	}
	return finding, nil
}

// repairBlocks builds a bounded number of records (BR-122) and leaves the rest to
// the worker.
func (c *Coordinator) repairBlocks(ctx context.Context) (int64, error) {
	if c.store.ReadOnly() {
		return 0, errors.New("the file is open for reading only")
	}
	n, err := c.worker.FixBlocks(ctx)
	c.worker.Written()
	return n, err
}
