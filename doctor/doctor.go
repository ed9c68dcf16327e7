package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"recalld/memory"
	"recalld/sqlite"
)

// Check is one named test. Package sqlite has those of the file.
type Check = sqlite.Check

// Result is what one check saw, after it was mended when that was asked for.
type Result struct {
	Name    string
	Finding sqlite.Finding
	Fixed   int64 // rows that the repair changed
}

// atOnce is how many checks run at a time. Each holds a snapshot of the whole
// file: were it all of them, no connection would be left for recalls.
const atOnce = 2

// Run runs the named checks, or all when only is empty, and returns their
// results in name order. With fix a failed check that can be mended is, and is
// run again. An unknown name is refused before anything runs.
func Run(ctx context.Context, checks []Check, only []string, fix bool) ([]Result, error) {
	chosen, err := choose(checks, only)
	if err != nil {
		return nil, err
	}
	results := make([]Result, len(chosen))
	var wait sync.WaitGroup
	next := make(chan int)
	for range min(atOnce, len(chosen)) {
		wait.Go(func() {
			for i := range next {
				results[i] = run(ctx, chosen[i], fix)
			}
		})
	}
	for i := range chosen {
		next <- i
	}
	close(next)
	wait.Wait()
	return results, ctx.Err()
}

// OK reports whether no check found anything, warnings included.
func OK(results []Result) bool {
	return !slices.ContainsFunc(results, func(r Result) bool { return !r.Finding.OK })
}

func run(ctx context.Context, check Check, fix bool) Result {
	result := Result{Name: check.Name, Finding: examine(ctx, check)}
	if result.Finding.OK || !fix || check.Fix == nil {
		return result
	}
	fixed, err := check.Fix(ctx)
	if err != nil {
		result.Finding.Evidence = append(result.Finding.Evidence, fmt.Sprintf("the repair failed: %v", err))
		return result
	}
	result.Fixed = fixed
	result.Finding = examine(ctx, check)
	return result
}

// examine runs a check; one that fails to run is an error of its own.
func examine(ctx context.Context, check Check) sqlite.Finding {
	finding, err := check.Run(ctx)
	if err != nil {
		return sqlite.Finding{Severity: sqlite.SeverityError, Evidence: []string{fmt.Sprintf("the check could not run: %v", err)}, Fix: "mend what the message names and run it again"}
	}
	return finding
}

func choose(checks []Check, only []string) ([]Check, error) {
	chosen := slices.Clone(checks)
	slices.SortFunc(chosen, func(a, b Check) int { return strings.Compare(a.Name, b.Name) })
	var names []string
	for _, check := range chosen {
		names = append(names, check.Name)
	}
	for _, name := range only {
		if !slices.Contains(names, name) {
			return nil, &memory.FieldError{Field: "checks", Problem: memory.Shape(name) + " is not a check", Limit: strings.Join(names, ", "), Next: "choose among them"}
		}
	}
	if len(only) > 0 {
		chosen = slices.DeleteFunc(chosen, func(c Check) bool { return !slices.Contains(only, c.Name) })
	}
	return chosen, nil
}
