package shards

import (
	"slices"

	"recalld/memory"
	"recalld/sqlite"
)

// touchedCodes is one record that changed: which of its codes, and the cells that
// the log names for it.
type touchedCodes struct {
	ref     memory.Ref
	cells   []int64
	all     bool    // whatever it has under every model
	blocks  []int64 // else: the models of which it got or lost a block set
	vectors []int64 // and those of which it got a vector
	erased  bool    // a text is gone
	last    int64   // its last change that was read
}

func (t *touchedCodes) hasBlocks(model int64) bool {
	return t.all || slices.Contains(t.blocks, model)
}

func (t *touchedCodes) hasVector(model int64) bool {
	return t.all || slices.Contains(t.vectors, model)
}

// changesRead is a part of the log.
type changesRead struct {
	records []touchedCodes // in the order of their first change
	n       int            // changes
	last    int64          // the last one's sequence, and its lineage
	lineage int64
	newest  int64   // highest number of a cell
	models  []int64 // that it names
}

// readChanges reads up to limit changes after one. A record that is only stored
// has no codes yet; what it gets has changes of its own.
func readChanges(view *sqlite.View, after int64, limit int) (r changesRead, err error) {
	at := make(map[memory.Ref]int)
	r.last = after
	err = view.Changes(after, limit, func(c sqlite.Change) error {
		r.n, r.last, r.lineage = r.n+1, c.Seq, c.Lineage
		r.newest = max(r.newest, c.OldCell, c.NewCell)
		if c.Op == sqlite.OpInsert {
			return nil
		}
		i, seen := at[c.Ref]
		if !seen {
			i = len(r.records)
			at[c.Ref] = i
			r.records = append(r.records, touchedCodes{ref: c.Ref})
		}
		t := &r.records[i]
		t.last = c.Seq
		for _, cell := range []int64{c.OldCell, c.NewCell} {
			if cell != 0 && !slices.Contains(t.cells, cell) {
				t.cells = append(t.cells, cell)
			}
		}
		switch c.Op {
		case sqlite.OpBlocks:
			t.blocks = addModel(t.blocks, c.Model)
			r.models = addModel(r.models, c.Model)
		case sqlite.OpEmbedded:
			t.vectors = addModel(t.vectors, c.Model)
			r.models = addModel(r.models, c.Model)
		default:
			t.all = true
			t.erased = t.erased || c.Op == sqlite.OpText || c.Op == sqlite.OpDelete
		}
		return nil
	})
	return r, err
}

func addModel(models []int64, model int64) []int64 {
	if slices.Contains(models, model) {
		return models
	}
	return append(models, model)
}
