package sqlite

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"recalld/memory"
)

// Damaged returns the records that this view was asked for and left out because
// their bytes are not those that were stored: another text than the digest's, or
// no UTF-8. They are in order of kind and id.
func (v *View) Damaged() []memory.Ref {
	v.mu.Lock()
	defer v.mu.Unlock()
	refs := make([]memory.Ref, 0, len(v.damaged))
	for ref := range v.damaged {
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, func(a, b memory.Ref) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID)) })
	return refs
}

// leaveOut notes damaged records; the log is told of each once a view.
func (v *View) leaveOut(refs []memory.Ref) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, ref := range refs {
		if v.damaged[ref] {
			continue
		}
		if v.damaged == nil {
			v.damaged = make(map[memory.Ref]bool)
		}
		v.damaged[ref] = true
		v.store.log.Error("a damaged record was left out; run `recalld doctor`", "path", v.store.path, "record", ref.String())
	}
}

// DamagedProfiles returns the ids of the profiles that were left out because they
// are no UTF-8.
func (v *View) DamagedProfiles() []int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.damagedProfiles)
}

func (v *View) leaveProfilesOut(ids []int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, id := range ids {
		if !slices.Contains(v.damagedProfiles, id) {
			v.damagedProfiles = append(v.damagedProfiles, id)
			v.store.log.Error("a damaged profile was left out; run `recalld doctor`", "path", v.store.path, "profile", id)
		}
	}
}

// intact reports whether a record is what was stored, as far as its bytes can
// tell: its text has the digest of its row, which is the row's last column, and
// everything that answers show is UTF-8.
func intact(rec memory.Record, r row) bool {
	return bytes.Equal(r.blob(len(r)-1), digest(rec.Content)) && utf8.ValidString(rec.Content) && readable(rec)
}

// readable reports whether everything beside the text can stand in an answer.
func readable(rec memory.Record) bool {
	for _, s := range [...]string{rec.Cell.Agent, rec.Cell.Project, rec.Cell.Channel, rec.MessageID, rec.Source.Type, rec.Source.ID, rec.Source.Name} {
		if !utf8.ValidString(s) {
			return false
		}
	}
	return !slices.ContainsFunc(rec.Keywords, func(s string) bool { return !utf8.ValidString(s) }) &&
		(rec.Metadata == nil || utf8.Valid(rec.Metadata) && json.Valid(rec.Metadata))
}

// damage is the error of what needs a record that is damaged.
func damage(ref memory.Ref) error {
	return fmt.Errorf("%w: %s is not what was stored; bring a backup back with `recalld restore`, or run `recalld doctor --fix` and give its text anew with `recalld update`", memory.ErrCorrupt, ref)
}
