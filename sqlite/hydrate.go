package sqlite

import (
	"strconv"
	"strings"

	"recalld/memory"
)

// Hydrate reads whole records by reference. The isolation predicate is part of
// the read: a row outside the scope is absent, like one that does not exist. A
// row whose text is not the one that was stored is absent too, and in
// [View.Damaged].
// The order of refs is kept, a ref given twice comes back once.
func (v *View) Hydrate(scope memory.Scope, refs []memory.Ref) ([]memory.Record, error) {
	found := make(map[memory.Ref]memory.Record, len(refs))
	keep := func(rec memory.Record) { found[rec.Ref] = rec }
	if err := v.hydrateKind(scope, refs, memory.KindMemory, keep); err != nil {
		return nil, err
	}
	if err := v.hydrateKind(scope, refs, memory.KindEpisode, keep); err != nil {
		return nil, err
	}
	records := make([]memory.Record, 0, len(found))
	for _, ref := range refs {
		if rec, ok := found[ref]; ok {
			records = append(records, rec)
			delete(found, ref)
		}
	}
	return records, nil
}

func (v *View) hydrateKind(scope memory.Scope, refs []memory.Ref, kind memory.Kind, keep func(memory.Record)) error {
	ids := jsonIDs(refs, kind)
	if ids == "[]" {
		return nil
	}
	where, args := predicate("m.cell", scope)
	sql, decode := "SELECT "+memoryColumns+" FROM "+memoryTables, decodeMemory
	if kind == memory.KindEpisode {
		sql, decode = "SELECT "+episodeColumns+" FROM "+episodeTables, decodeEpisode
	}
	var damaged []memory.Ref
	err := v.query(sql+" WHERE m.id IN (SELECT value FROM json_each(?)) AND "+where, append([]any{ids}, args...), func(r row) error {
		if rec := decode(r); intact(rec, r) {
			keep(rec)
		} else {
			damaged = append(damaged, rec.Ref)
		}
		return nil
	})
	v.leaveOut(damaged)
	return err
}

// jsonIDs lists the ids of one kind as a JSON array, so that one statement
// serves any number of them.
func jsonIDs(refs []memory.Ref, kind memory.Kind) string {
	var b strings.Builder
	b.WriteByte('[')
	for _, ref := range refs {
		if ref.Kind != kind {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(ref.ID, 10))
	}
	b.WriteByte(']')
	return b.String()
}
