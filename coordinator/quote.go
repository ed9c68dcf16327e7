package coordinator

import (
	"fmt"

	"recalld/blocks"
	"recalld/coordinator/arm"
	"recalld/memory"
	"recalld/sqlite"
)

// quotes gives the cut rows of an answer their quotations; rows and hits are in
// one order. The preview stays what it is without them.
func (t *turn) quotes(rows []Row, hits []hit) error {
	if !t.policy.BlockRetrieve {
		return nil
	}
	for i := range rows {
		if err := t.quote(&rows[i], hits[i]); err != nil {
			return err
		}
	}
	return nil
}

// quote gives a cut row the place in its text that answers the query best: the
// block that is nearest to the query, with the neighbours that govern it, up to
// [blocks.QuoteLimit] (BR-074 to BR-084). A row whose preview shows that place already,
// and one without a current block set, stays as it is.
func (t *turn) quote(row *Row, h hit) error {
	if !row.ContentTruncated {
		return nil
	}
	for _, m := range t.vectors {
		if h.block != nil && h.block.Model != m.Model {
			continue
		}
		set, at, ok, err := t.nearest(m, h)
		if err != nil {
			return fmt.Errorf("quote %s: %w", h.Ref, err)
		}
		if !ok {
			continue
		}
		row.Quote = quoteOf(h.record.Content, set, at, memory.Len(row.Content))
		return nil
	}
	return nil
}

// nearest returns a row's blocks under a model and which of them is nearest to the
// query: that of a reserved row is known. ok is false without a current block set.
func (t *turn) nearest(m arm.ModelVector, h hit) (spans []sqlite.BlockSpan, at int, ok bool, err error) {
	if h.block != nil {
		spans, ok, err = t.view.BlockSpans(m.Model, h.Ref)
		return spans, h.block.Index, ok, err
	}
	set, ok, err := t.view.BlocksOf(m.Model, h.Ref)
	if err != nil || !ok {
		return nil, 0, false, err
	}
	at, ok = arm.Best(m, set)
	return set.Spans, at, ok, nil
}

// quoteOf is the quotation around a block of a text whose first shown code
// points the reader sees anyway; nil when they hold all of it, and for a block that
// the record does not have.
func quoteOf(text string, spans []sqlite.BlockSpan, at, shown int) *Quote {
	set := make([]blocks.Block, len(spans))
	for i, s := range spans {
		set[i] = blocks.Block{Span: memory.Span{Start: s.Start, End: s.End}, Forced: s.Forced, Node: s.Node}
	}
	context := blocks.Context(text, set, at, blocks.QuoteLimit)
	part, ok := context.Slice(text)
	if !ok || part == "" || context.Complete && context.End <= shown {
		return nil
	}
	q := &Quote{Start: context.Start, End: context.End, Text: part, Complete: context.Complete}
	if !context.Complete {
		q.ReadRange = &ReadRange{Start: context.Read.Start, End: context.Read.End, Revision: memory.Revision(text)}
	}
	return q
}
