package coordinator

import (
	"recalld/memory"
	"recalld/sqlite"
)

// records reads candidates' rows from the snapshot, in the order of the
// ranking and no more than are needed. The isolation predicate is applied
// again: what an arm should not have returned is absent.
type records struct {
	view  *sqlite.View
	scope memory.Scope
	held  map[memory.Ref]memory.Record
	read  int // candidates of the ranking that were looked for
	// wanted is how many rows the answer has place for: reading ahead goes no
	// further, since most answers need no row behind these.
	wanted int
}

// perRead is how many rows one statement reads at most.
const perRead = 32

// load reads rows by their references.
func (r *records) load(refs []memory.Ref) error {
	found, err := r.view.Hydrate(r.scope, refs)
	if err != nil {
		return err
	}
	for _, record := range found {
		r.held[record.Ref] = record
	}
	return nil
}

// get returns the row of the ith candidate, reading ahead.
func (r *records) get(ranking []hit, i int) (record memory.Record, ok bool, err error) {
	if record, ok = r.held[ranking[i].Ref]; ok {
		return record, true, nil
	}
	if i < r.read {
		return memory.Record{}, false, nil
	}
	var refs []memory.Ref
	for r.read = i; r.read < min(len(ranking), i+max(1, min(r.wanted, perRead))); r.read++ {
		if _, held := r.held[ranking[r.read].Ref]; !held {
			refs = append(refs, ranking[r.read].Ref)
		}
	}
	if err = r.load(refs); err != nil {
		return memory.Record{}, false, err
	}
	record, ok = r.held[ranking[i].Ref]
	return record, ok, nil
}
