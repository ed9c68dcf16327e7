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
	damaged := t.view.Damaged()
	if len(damaged) > 0 {
		t.degrade("", reasonDamagedRow, damageDetail(damaged))
	}
	return len(damaged) == 0
}

// damageOf is an error when a reading had to leave records out.
func damageOf(view *sqlite.View) error {
	damaged := view.Damaged()
	if len(damaged) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", memory.ErrCorrupt, damageDetail(damaged))
}

func damageDetail(damaged []memory.Ref) string {
	var names []string
	for _, ref := range damaged[:min(len(damaged), maxDamagedNamed)] {
		names = append(names, ref.String())
	}
	if more := len(damaged) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("not what was stored, and left out: %s; bring a backup back with `recalld restore`, or run `recalld doctor --fix` and update or delete them", strings.Join(names, ", "))
}
