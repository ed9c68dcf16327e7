package coordinator

import (
	"fmt"
	"strings"

	"recalld/memory"
	"recalld/sqlite"
)

// reasonDamagedRow says that records were left out of an answer because their
// bytes are not those that were stored.
const reasonDamagedRow = "damaged_row"

// maxDamagedNamed is how many damaged records one message names.
const maxDamagedNamed = 10

// noteDamage says which records of the scope this recall had to leave out.
func (t *turn) noteDamage() (whole bool) {
	detail := damageDetail(t.view)
	if detail != "" {
		t.degrade("", reasonDamagedRow, detail)
	}
	return detail == ""
}

// damageOf is an error when a reading had to leave records out.
func damageOf(view *sqlite.View) error {
	detail := damageDetail(view)
	if detail == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", memory.ErrCorrupt, detail)
}

// damageDetail names what the view left out; it is empty when that is nothing.
func damageDetail(view *sqlite.View) string {
	var names []string
	for _, ref := range view.Damaged() {
		names = append(names, ref.String())
	}
	for _, id := range view.DamagedProfiles() {
		names = append(names, fmt.Sprint("profile ", id))
	}
	if len(names) == 0 {
		return ""
	}
	if more := len(names) - maxDamagedNamed; more > 0 {
		names = append(names[:maxDamagedNamed], fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("not what was stored, and left out: %s; bring a backup back with `recalld restore`, or run `recalld doctor --fix` and update or delete them", strings.Join(names, ", "))
}
