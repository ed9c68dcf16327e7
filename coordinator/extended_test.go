//go:build extended

package coordinator

import (
	"fmt"
	"testing"
)

// DECISIONS 1, issue 2 figures: 500 random queries give the same bytes beside
// nobody and beside 50,000 records of 50 other agents, stored before, between
// and after the agent's own.
func TestNonInterferenceAtScale(t *testing.T) {
	s := story{seed: 2026, steps: 400}
	alone, beside := open(t, nil), open(t, nil)
	s.tell(alone, "mia", func() {})
	others := newLanguage(77)
	crowd := func(n int) {
		for range n {
			items := make([]StoreItem, 500)
			for i := range items {
				items[i] = StoreItem{Content: fmt.Sprint(others.sentence(5+others.random.IntN(10)), others.random.Int64()), Project: "atlas"}
			}
			beside.put(fmt.Sprint("agent-", others.random.IntN(50)), items...)
		}
	}
	crowd(50)
	step := 0
	s.tell(beside, "mia", func() {
		if step++; step%10 == 0 {
			crowd(1)
		}
	})
	crowd(10)
	if n := beside.status().Memories - alone.status().Memories; n != 50_000 {
		t.Fatalf("%d foreign records", n)
	}
	want := s.questions(alone, "mia", 500, false)
	for _, what := range []string{"cold", "warm", "restarted"} {
		if what == "restarted" {
			beside.restart()
		}
		if got := s.questions(beside, "mia", 500, false); got != want {
			t.Fatalf("%s: %s", what, firstDifference(got, want))
		}
	}
}
