package doctor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"recalld/memory"
	"recalld/sqlite"
)

// rows is a check over a count of broken rows.
func rows(name, severity string, broken *int64) Check {
	return Check{
		Name: name,
		Run: func(context.Context) (sqlite.Finding, error) {
			if *broken == 0 {
				return sqlite.Finding{OK: true}, nil
			}
			return sqlite.Finding{Severity: severity, Evidence: []string{fmt.Sprintf("%d rows", *broken)}, Fix: "run with --fix"}, nil
		},
		Fix: func(context.Context) (int64, error) {
			n := *broken
			*broken = 0
			return n, nil
		},
	}
}

func TestEveryCheckRunsAndResultsAreInNameOrder(t *testing.T) {
	// Each check waits for the other: they must run at the same time.
	meet := make(chan struct{})
	waits := func(name string) Check {
		return Check{Name: name, Run: func(ctx context.Context) (sqlite.Finding, error) {
			select {
			case meet <- struct{}{}:
			case <-meet:
			case <-ctx.Done():
			}
			return sqlite.Finding{OK: true}, ctx.Err()
		}}
	}
	broken := int64(3)
	failing := Check{Name: "m", Run: func(context.Context) (sqlite.Finding, error) { return sqlite.Finding{}, errors.New("no such table") }}
	results, err := Run(t.Context(), []Check{waits("z"), failing, waits("a"), rows("k", sqlite.SeverityWarning, &broken)}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range results {
		names = append(names, r.Name)
	}
	if strings.Join(names, " ") != "a k m z" {
		t.Errorf("order %v", names)
	}
	if !results[0].Finding.OK || results[1].Finding.OK || results[2].Finding.OK || !strings.Contains(results[2].Finding.Evidence[0], "no such table") {
		t.Errorf("findings %+v", results)
	}
	if broken != 3 {
		t.Error("a check was mended without being asked")
	}
	if OK(results) {
		t.Error("a check that could not run counts as healthy")
	}
	if !OK(results[:1]) || OK(results[1:2]) {
		t.Error("a finding is any that is not OK, a warning too")
	}
}

func TestFixMendsAndLooksAgain(t *testing.T) {
	broken, other := int64(3), int64(1)
	results, err := Run(t.Context(), []Check{rows("a", sqlite.SeverityError, &broken), rows("b", sqlite.SeverityError, &other)}, []string{"a"}, true)
	if err != nil || len(results) != 1 || results[0].Fixed != 3 || !results[0].Finding.OK || other != 1 {
		t.Errorf("%+v, %v; other %d", results, err, other)
	}
}

func TestAnUnknownCheckIsRefusedBeforeAnythingRuns(t *testing.T) {
	broken := int64(1)
	_, err := Run(t.Context(), []Check{rows("a", sqlite.SeverityError, &broken)}, []string{"a", "健康"}, true)
	if !errors.Is(err, memory.ErrInvalid) || broken != 1 {
		t.Errorf("%v, broken %d", err, broken)
	}
}

// Checks never take more than their share of a running server.
func TestFewChecksRunAtOnce(t *testing.T) {
	var running, most atomic.Int64
	var checks []Check
	for i := range 12 {
		checks = append(checks, Check{Name: fmt.Sprint("c", i), Run: func(context.Context) (sqlite.Finding, error) {
			n := running.Add(1)
			defer running.Add(-1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			runtime.Gosched()
			return sqlite.Finding{OK: true}, nil
		}})
	}
	results, err := Run(t.Context(), checks, nil, false)
	if err != nil || len(results) != 12 || !OK(results) || most.Load() > atOnce {
		t.Errorf("%d at once, %+v, %v", most.Load(), results, err)
	}
}
