package coordinator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ARCHITECTURE 6: a file in the place of derived stops no request; answers are
// the same, and doctor says what to do.
func TestUnusableDerivedFolderStopsNothing(t *testing.T) {
	b := open(t, nil)
	refs := b.put("mia", say("the harbour lantern is copper"), say("来週の会議は火曜日です。"), say("预算会议改到星期四下午。"))
	ask := func() string {
		var all strings.Builder
		for _, query := range []string{"harbour lantern", "会議", "预算"} {
			all.WriteString(encode(t, b.recall(RecallRequest{Agent: "mia", Query: query, Gate: "off"}).Rows))
		}
		return all.String()
	}
	b.restart()
	before := ask()
	b.down()
	derived := filepath.Join(filepath.Dir(b.path), "derived")
	if err := os.RemoveAll(derived); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(derived, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.up()
	if after := ask(); after != before {
		t.Errorf("%s\nwant %s", after, before)
	}
	report, err := b.Doctor(t.Context(), DoctorRequest{Checks: []string{"lexical-index"}})
	if err != nil || report.OK || len(report.Checks) != 1 || !strings.Contains(strings.Join(report.Checks[0].Evidence, " "), "in memory") {
		t.Errorf("doctor says %+v, %v", report, err)
	}
	if _, err := b.Delete(t.Context(), DeleteRequest{Agent: "mia", Refs: refs[:1]}); err != nil {
		t.Error(err)
	}
}
