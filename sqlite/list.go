package sqlite

import (
	"cmp"
	"slices"

	"recalld/memory"
)

// Filter pages through the records of one kind.
type Filter struct {
	Kind memory.Kind
	// After continues behind this id; 0 begins. The order is that of ids, which is
	// the order of storing.
	After       int64
	Limit       int
	NewestFirst bool
	// SourceIDPrefix keeps the memories whose source id begins so, literally
	// (RR-442). Episodes have no source: with a prefix they are absent.
	SourceIDPrefix string
}

// List returns up to Limit records in id order. When it returns fewer, there are
// no more.
func (v *View) List(scope memory.Scope, f Filter) ([]memory.Record, error) {
	var records []memory.Record
	for {
		refs, err := v.Refs(scope, f)
		if err != nil {
			return nil, err
		}
		found, err := v.Hydrate(scope, refs)
		if err != nil {
			return nil, err
		}
		records = append(records, found...)
		// A damaged record leaves its place to the next one.
		missing := f.Limit - len(found)
		if missing <= 0 || len(refs) < f.Limit {
			return records, nil
		}
		f.After, f.Limit = refs[len(refs)-1].ID, missing
	}
}

// Refs returns the references of what [View.List] returns, without reading a
// text.
func (v *View) Refs(scope memory.Scope, f Filter) ([]memory.Ref, error) {
	if f.Limit <= 0 || f.Kind == memory.KindEpisode && f.SourceIDPrefix != "" {
		return nil, nil
	}
	ids, err := v.page(scope, f)
	if err != nil {
		return nil, err
	}
	refs := make([]memory.Ref, len(ids))
	for i, id := range ids {
		refs[i] = memory.Ref{Kind: f.Kind, ID: id}
	}
	return refs, nil
}

// page finds the ids of one page. Each cell gives its own next ids from its
// index, and once the page is full only those that still fit, so that the cost
// follows the page and the number of cells, not the number of records.
func (v *View) page(scope memory.Scope, f Filter) ([]int64, error) {
	cells, err := v.cellIDs(scope)
	if err != nil {
		return nil, err
	}
	table, index := "memory", "memory_cell"
	if f.Kind == memory.KindEpisode {
		table, index = "episode", "episode_cell"
	}
	low, high := f.After, int64(maxID)
	order, compare := " ORDER BY id", cmp.Compare[int64]
	if f.NewestFirst {
		low, high = 0, int64(maxID)
		if f.After > 0 {
			high = f.After
		}
		order, compare = " ORDER BY id DESC", func(a, b int64) int { return cmp.Compare(b, a) }
	}
	source := ""
	if f.SourceIDPrefix != "" {
		source = " AND substr(source_id, 1, length(?)) = ?"
	}
	sql := "SELECT id FROM " + table + " INDEXED BY " + index + " WHERE cell = ? AND id > ? AND id < ?" + source + order + " LIMIT ?"
	var ids []int64
	for _, cell := range cells {
		args := []any{cell, low, high}
		if source != "" {
			args = append(args, f.SourceIDPrefix, f.SourceIDPrefix)
		}
		before := len(ids)
		err := v.query(sql, append(args, f.Limit), func(r row) error {
			ids = append(ids, r.int(0))
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(ids) > before && before > 0 {
			slices.SortFunc(ids, compare)
		}
		if len(ids) >= f.Limit {
			ids = ids[:f.Limit]
			if last := ids[f.Limit-1]; f.NewestFirst {
				low = last
			} else {
				high = last
			}
		}
	}
	return ids, nil
}

// Recent returns the n newest records of the given kinds by storing time, newest
// first; of one instant episodes come first, then the higher id (RR-403).
func (v *View) Recent(scope memory.Scope, kinds []memory.Kind, n int) ([]memory.Record, error) {
	var all []memory.Record
	for _, kind := range kinds {
		records, err := v.List(scope, Filter{Kind: kind, Limit: n, NewestFirst: true})
		if err != nil {
			return nil, err
		}
		all = append(all, records...)
	}
	slices.SortFunc(all, func(a, b memory.Record) int {
		return cmp.Or(cmp.Compare(b.Created.Milli, a.Created.Milli), cmp.Compare(a.Ref.Kind, b.Ref.Kind), cmp.Compare(b.Ref.ID, a.Ref.ID))
	})
	return all[:min(n, len(all))], nil
}
