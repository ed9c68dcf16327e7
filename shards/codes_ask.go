package shards

import (
	"context"
	"errors"
	"fmt"
	"time"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner"
	"recalld/scanner/client"
	"recalld/sqlite"
)

// maxAsks is how often one question is put again because a new generation came
// between following the log and asking.
const maxAsks = 8

// askTime is how long the scanner may take for one call. One that hangs is ended
// then.
const askTime = 15 * time.Second

// asked is one question, as the scanner understands it.
type asked struct {
	model  int64
	scope  memory.Scope
	fits   func(dims int) bool // whether the query is of a model's width
	blocks bool                // else record vectors
}

// ask finds out what to ask for, asks, and asks again while the scanner has a
// generation that was not followed yet.
func (c *Codes) ask(ctx context.Context, view *sqlite.View, q asked, call func(ctx context.Context, scope *scannerv1.Scope, sequence int64) error) error {
	dims, searched, measured, err := view.ModelWidth(q.model)
	switch {
	case err != nil:
		return err
	case !searched || q.blocks && !measured || !q.fits(dims):
		return ErrNotBuilt
	}
	for try := 1; ; try++ {
		if err := c.follow(ctx, view); err != nil {
			return c.failed(ctx, err)
		}
		keys, sequence, err := c.admit(ctx, view, q)
		if errors.Is(err, errBehind) && try < maxAsks {
			continue
		}
		if err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, c.askTime)
		err = call(limited, wireScope(keys), sequence)
		late := limited.Err() != nil && ctx.Err() == nil
		cancel()
		if err != nil && late {
			err = fmt.Errorf("%w: no answer within %v", client.ErrUnavailable, c.askTime)
		}
		switch {
		case errors.Is(err, client.ErrBehind) && try < maxAsks:
			if err := c.doubt(ctx); err != nil {
				return err
			}
			continue
		case err != nil:
			return c.failed(ctx, err)
		}
		return c.stands(ctx, view, keys, q)
	}
}

// admit returns the keys of a scope that the scanner holds in full, and the change
// that it must have.
func (c *Codes) admit(ctx context.Context, view *sqlite.View, q asked) (keys layout.Scope, sequence int64, err error) {
	if err := c.mu.lock(ctx); err != nil {
		return keys, 0, err
	}
	defer c.mu.unlock()
	_, published := c.catalog.model(q.model)
	keys, known := c.names.scope(q.scope)
	switch {
	case c.closed:
		return keys, 0, errClosed
	case !c.begun || !published || !known || c.catalog.Missing.contains(keys.Agent) || c.waiting[keys.Agent]:
		return keys, 0, ErrNotBuilt
	case c.applied < view.Seq():
		return keys, 0, errBehind
	case c.passed(view.Seq(), keys, q):
		return keys, 0, ErrPassed
	}
	return keys, c.told, nil
}

// stands reports ErrPassed when the scanner may have answered from codes that are
// newer than the snapshot.
func (c *Codes) stands(ctx context.Context, view *sqlite.View, keys layout.Scope, q asked) error {
	if err := c.mu.lock(ctx); err != nil {
		return err
	}
	defer c.mu.unlock()
	if c.passed(view.Seq(), keys, q) {
		return ErrPassed
	}
	return nil
}

// passed reports whether codes of a scope were read in a snapshot that may have
// others than one at seq. c.mu is held.
func (c *Codes) passed(seq int64, keys layout.Scope, q asked) bool {
	if c.floor > seq {
		return true
	}
	for _, m := range c.marks {
		if m.at > seq && keys.Contains(m.cell) && (q.blocks && m.record.hasBlocks(q.model) || !q.blocks && m.record.hasVector(q.model)) {
			return true
		}
	}
	return false
}

// doubt makes the next step ask the scanner what it holds.
func (c *Codes) doubt(ctx context.Context) error {
	if err := c.mu.lock(ctx); err != nil {
		return err
	}
	c.unsure = true
	c.mu.unlock()
	return nil
}

// failed sets a file aside that could not be used, and says what that means for
// who asked: that its agents are not built.
func (c *Codes) failed(ctx context.Context, err error) error {
	var file *client.FileError
	var bad *badFile
	name := ""
	switch {
	case errors.As(err, &file):
		name = file.File
	case errors.As(err, &bad):
		name = bad.name
	case !errors.Is(err, client.ErrUnavailable):
		return err
	}
	if err := c.mu.lock(ctx); err != nil {
		return err
	}
	defer c.mu.unlock()
	if c.closed {
		return errClosed
	}
	if name == "" {
		return c.noticed(ctx, err)
	}
	if c.dismiss(name, err) {
		c.unsure = true // the next step tells the scanner
	}
	return fmt.Errorf("%w: %w", ErrNotBuilt, err)
}

// Blocks answers for exactly the snapshot. Errors: [ErrPassed] (ask again in a
// newer snapshot), [ErrNotBuilt] (answer in the process), the kinds of
// scanner/client (answer in the process and say so), and the context's.
func (c *Codes) Blocks(ctx context.Context, view *sqlite.View, q BlockQuery) (a BlockAnswer, err error) {
	fits := func(dims int) bool {
		return len(q.Code) == (dims+7)/8 && (len(q.Values) == 0 || len(q.Values) == dims)
	}
	if !q.Only.fits() {
		return a, ErrNotBuilt
	}
	request := &scannerv1.ScanRequest{Model: q.Model, PerParent: uint32(q.PerParent), Most: uint64(q.Most), Only: q.Only.wire(), Batch: q.Batch,
		Queries: []*scannerv1.Query{{Code: q.Code, Rows: uint32(q.Rows), Parents: uint32(q.Parents)}}}
	if !c.opts.Lean {
		request.Queries[0].Values = q.Values
	}
	var reply *scannerv1.ScanReply
	err = c.ask(ctx, view, asked{model: q.Model, scope: q.Scope, fits: fits, blocks: true}, func(ctx context.Context, scope *scannerv1.Scope, sequence int64) (err error) {
		request.Scope, request.Sequence = scope, sequence
		reply, err = c.client.Scan(ctx, request)
		return err
	})
	if err != nil {
		return a, fmt.Errorf("scan block codes: %w", err)
	}
	a.Scanned, a.Over = int64(reply.GetRowsScanned()), reply.GetOver()
	for _, answer := range reply.GetAnswers() {
		a.Rows, a.Parents = hitsOf(answer.GetRows()), hitsOf(answer.GetParents())
	}
	return a, nil
}

// Records answers for exactly the snapshot, with the errors of [Codes.Blocks].
func (c *Codes) Records(ctx context.Context, view *sqlite.View, q RecordQuery) (a RecordAnswer, err error) {
	code, scale, bound, ok := encodeQuery(q.Vector)
	if !ok || !q.Only.fits() {
		return a, ErrNotBuilt // no direction: whatever the order is, it is not the codes'
	}
	request := &scannerv1.RankRequest{Model: q.Model, Code: code, Scale: scale, Error: bound, K: uint32(q.K), Most: uint64(q.Most), Only: q.Only.wire(), Batch: q.Batch}
	if !q.Approximate && !c.opts.Lean {
		request.Vector = q.Vector
	}
	var reply *scannerv1.RankReply
	err = c.ask(ctx, view, asked{model: q.Model, scope: q.Scope, fits: func(dims int) bool { return dims == len(q.Vector) }}, func(ctx context.Context, scope *scannerv1.Scope, sequence int64) (err error) {
		request.Scope, request.Sequence = scope, sequence
		reply, err = c.client.Rank(ctx, request)
		return err
	})
	if err != nil {
		return a, fmt.Errorf("rank record vectors: %w", err)
	}
	a.Scanned, a.Over, a.Cosines = int64(reply.GetRowsScanned()), reply.GetOver(), reply.GetCosines()
	a.Scores = reply.GetScores()
	for _, ref := range reply.GetRefs() {
		a.Refs = append(a.Refs, recordOf(ref))
	}
	return a, nil
}

// hitsOf turns columns, which scanner/client has found to be whole, into hits.
func hitsOf(h *scannerv1.Hits) []BlockHit {
	out := make([]BlockHit, len(h.GetIds()))
	for i, id := range h.GetIds() {
		out[i] = BlockHit{Ref: memory.Ref{Kind: memory.Kind(h.Kinds[i]), ID: id}, Index: int(h.Blocks[i]), Distance: int(h.Distances[i])}
		if len(h.Dots) > 0 {
			out[i].Dot, out[i].Norm = h.Dots[i], h.Norms[i]
		}
	}
	return out
}

func recordOf(r *scannerv1.Ref) memory.Ref {
	return memory.Ref{Kind: memory.Kind(r.GetKind()), ID: r.GetId()}
}

func wireScope(s layout.Scope) *scannerv1.Scope {
	return &scannerv1.Scope{Agent: s.Agent, Project: s.Project, Channel: s.Channel}
}

func (o *Only) fits() bool { return o == nil || len(o.Memories) <= scanner.MaxOnly }

func (o *Only) wire() *scannerv1.Only {
	if o == nil {
		return nil
	}
	return &scannerv1.Only{Memories: o.Memories, Episodes: o.Episodes}
}
