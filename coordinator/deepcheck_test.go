package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"recalld/memory"
)

func TestDeepCheck(t *testing.T) {
	b := open(t, nil)
	ask := func(agent string, checks ...string) map[string]CheckResult {
		t.Helper()
		answer, err := b.DeepCheck(t.Context(), DeepCheckRequest{Agent: agent, Checks: checks})
		if err != nil {
			t.Fatal(err)
		}
		found := make(map[string]CheckResult)
		for i, check := range answer.Checks {
			if i > 0 && answer.Checks[i-1].Name >= check.Name {
				t.Errorf("%s is out of order", check.Name)
			}
			found[check.Name] = check
		}
		return found
	}
	if found := ask("mia"); len(found) != 6 {
		t.Errorf("an agent without records: %+v", found)
	}
	if _, err := b.PutProfile(t.Context(), ProfileRequest{Agent: "mia", Content: "Prefers tea."}); err != nil {
		t.Fatal(err)
	}
	b.pass(40 * 24 * time.Hour)
	source := memory.Source{Type: "chat", ID: "s1"}
	request := StoreRequest{Agent: "mia", Items: []StoreItem{
		{Content: "ok 了解", Source: source, Time: "2027-01-09T00:00:00Z"},                                               // mem:1: short
		{Content: "The staging database moved to db-7 in March.", Time: "2027-01-09T00:00:00Z"},                        // mem:2: anonymous
		{Content: "会議は木曜の三時から、場所は二階の部屋です。", Source: source},                                                            // mem:3: undated
		{Content: "合同定在周五签，地点在三楼的会议室里。", Source: source, Time: "2027-01-09T00:00:00Z", Project: "birch"},               // mem:4
		{Content: "合同定在周五签，地点在三楼的会议室里。", Source: source, Time: "2027-01-09T00:00:00Z", Project: "atlas", Channel: "c"}, // mem:5: the same as 4, elsewhere
	}}
	if answer, err := b.Store(t.Context(), request); err != nil || slices.ContainsFunc(answer.Results, func(r StoreResult) bool { return r.Outcome != OutcomeStored }) {
		t.Fatalf("store: %+v %v", answer, err)
	}
	before := exported(t, b, "mia")
	found := ask("mia")
	for name, want := range map[string]string{
		"short_content": "[mem:1]", "anonymous_source": "[mem:2]", "undated": "[mem:3]", "near_duplicate": "[mem:4 and mem:5]", "calibration_staleness": "[]",
	} {
		if got := fmt.Sprint(found[name].Evidence); got != want || found[name].OK != (want == "[]") {
			t.Errorf("%s found %s (ok %v), want %s", name, got, found[name].OK, want)
		}
	}
	if stale := found["stale_profile"]; stale.OK || !strings.Contains(fmt.Sprint(stale.Evidence), "40 days old, 4 records are newer") {
		t.Errorf("stale_profile: %+v", stale)
	}
	if found := ask("mia", "undated"); len(found) != 1 {
		t.Errorf("one check: %+v", found)
	}
	for name, check := range ask("ken") {
		if !check.OK {
			t.Errorf("%s finds %v of another agent", name, check.Evidence)
		}
	}
	if exported(t, b, "mia") != before {
		t.Error("a check changed something")
	}
	if _, err := b.DeepCheck(t.Context(), DeepCheckRequest{Agent: "mia", Checks: []string{"beauty"}}); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("an unknown check: %v", err)
	}
}

// Measuring again keeps the agent's precision, and the stored thresholds can be
// read back.
func TestCalibrationKeepsThePrecision(t *testing.T) {
	b := open(t, nil)
	var texts []string
	for i := range 40 {
		texts = append(texts, fmt.Sprintf("note %d about topic %d 話題%d", i, i%7, i%5))
	}
	b.keep("mia", texts...)
	for _, step := range []struct{ asked, want string }{{"", "balanced"}, {"strict", "strict"}, {"", "strict"}, {"lenient", "lenient"}, {"", "lenient"}} {
		b.pass(time.Minute)
		if _, err := b.Calibrate(t.Context(), CalibrateRequest{Agent: "mia", Precision: step.asked}); err != nil {
			t.Fatal(err)
		}
		stored, err := b.Calibrations(t.Context(), "mia")
		if err != nil || len(stored) == 0 || stored[0].Precision != step.want {
			t.Errorf("asked %q: %+v %v", step.asked, stored, err)
		}
	}
	if stored, err := b.Calibrations(t.Context(), "ken"); err != nil || len(stored) != 0 {
		t.Errorf("another agent's: %+v %v", stored, err)
	}
}
