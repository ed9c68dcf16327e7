package sqlite

import "recalld/memory"

// Superseded returns those of the memories that a newer version of the same
// message follows (DECISIONS 11).
func (v *View) Superseded(refs []memory.Ref) (map[memory.Ref]bool, error) {
	old := make(map[memory.Ref]bool)
	ids := jsonIDs(refs, memory.KindMemory)
	if ids == "[]" {
		return old, nil
	}
	err := v.query("SELECT id FROM memory WHERE superseded_by IS NOT NULL AND id IN (SELECT value FROM json_each(?))", []any{ids}, func(r row) error {
		old[memory.Ref{Kind: memory.KindMemory, ID: r.int(0)}] = true
		return nil
	})
	return old, err
}
