package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// An outcome says what became of one mutation.
type outcome string

const (
	killed   outcome = "killed"
	survived outcome = "survived"
	invalid  outcome = "invalid"
)

// A result is one line of the report. Why is empty for killed mutations.
type result struct {
	mutation
	outcome outcome
	why     string
	took    time.Duration
}

// A runner applies mutations to the module at root.
type runner struct {
	root     string
	tags     string
	parallel int
	timeout  time.Duration // of one test run
	now      func() time.Time
	rapid    map[string]bool // packages whose tests use rapid
}

// run applies all mutations and returns their results in the order given.
// report, when not nil, is called once a mutation, never at the same time.
func (r runner) run(ctx context.Context, all []mutation, report func(result)) []result {
	results := make([]result, len(all))
	r.rapid = r.withRapid(ctx, all)
	passing := r.baselines(ctx, all)
	work := make(chan int)
	var workers sync.WaitGroup
	var reporting sync.Mutex
	for range max(r.parallel, 1) {
		workers.Go(func() {
			for i := range work {
				start := r.now()
				results[i] = r.apply(ctx, all[i], passing[all[i].pkg])
				results[i].took = r.now().Sub(start)
				if report != nil {
					reporting.Lock()
					report(results[i])
					reporting.Unlock()
				}
			}
		})
	}
	for i := range all {
		work <- i
	}
	close(work)
	workers.Wait()
	return results
}

// withRapid returns the packages of the mutations whose tests use rapid.
func (r runner) withRapid(ctx context.Context, all []mutation) map[string]bool {
	uses := map[string]bool{}
	for _, m := range all {
		if _, known := uses[m.pkg]; known {
			continue
		}
		command := exec.CommandContext(ctx, "go", "list", "-tags", r.tags, "-f", "{{.TestImports}} {{.XTestImports}}", m.pkg)
		command.Dir = r.root
		out, err := command.Output()
		uses[m.pkg] = err == nil && bytes.Contains(out, []byte("pgregory.net/rapid"))
	}
	return uses
}

// A baseline is what a package's named tests do without any edit.
type baseline struct {
	passed []string
	err    error
}

// baselines runs the tests that the mutations name, unedited, package by
// package.
func (r runner) baselines(ctx context.Context, all []mutation) map[string]baseline {
	tests := map[string][]string{}
	for _, m := range all {
		tests[m.pkg] = append(tests[m.pkg], "("+m.test+")")
	}
	found := map[string]baseline{}
	for pkg, patterns := range tests {
		slices.Sort(patterns)
		seen, err := r.test(ctx, pkg, strings.Join(slices.Compact(patterns), "|"), "")
		found[pkg] = baseline{passed: seen.passed, err: cmp.Or(err, seen.broken)}
	}
	return found
}

// apply edits one file in a copy and runs the mutation's test on it.
func (r runner) apply(ctx context.Context, m mutation, base baseline) result {
	fail := func(format string, args ...any) result {
		return result{mutation: m, outcome: invalid, why: fmt.Sprintf(format, args...)}
	}
	if base.err != nil {
		return fail("without the edit: %v", base.err)
	}
	pattern, err := regexp.Compile(m.test)
	if err != nil {
		return fail("test: %v", err)
	}
	if !slices.ContainsFunc(base.passed, pattern.MatchString) {
		return fail("no test of %s that matches %s passes without the edit", m.pkg, m.test)
	}
	dir, err := os.MkdirTemp("", "recalld-mutation-")
	if err != nil {
		return fail("%v", err)
	}
	defer os.RemoveAll(dir)
	overlay, err := r.edit(m, dir)
	if err != nil {
		return fail("%v", err)
	}
	seen, err := r.test(ctx, m.pkg, m.test, overlay)
	switch {
	case err != nil:
		return fail("%v", err)
	case slices.ContainsFunc(seen.failed, pattern.MatchString):
		return result{mutation: m, outcome: killed}
	case seen.broken != nil:
		return fail("%v", seen.broken)
	}
	return result{mutation: m, outcome: survived, why: m.test + " does not fail with the edit"}
}

// edit writes the edited file and an overlay that puts it in its place, and
// returns the overlay's path.
func (r runner) edit(m mutation, dir string) (string, error) {
	name := filepath.Join(r.root, filepath.FromSlash(m.file))
	body, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	if n := bytes.Count(body, []byte(m.old)); n != 1 {
		return "", fmt.Errorf("old stands %d times in %s, not once", n, m.file)
	}
	edited := filepath.Join(dir, filepath.Base(name))
	if err := os.WriteFile(edited, bytes.Replace(body, []byte(m.old), []byte(m.new), 1), 0o600); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {name: edited}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, overlay, 0o600)
}

// A sighting is what `go test` said: the tests that passed and failed, and why
// it could not run them.
type sighting struct {
	passed, failed []string
	broken         error
}

// An event is one line of `go test -json`; only the fields that matter here.
type event struct {
	Action      string
	Test        string
	Output      string
	FailedBuild string
}

// test runs the tests of a package that match a pattern. Only a command that
// could not be started is an error.
func (r runner) test(ctx context.Context, pkg, pattern, overlay string) (sighting, error) {
	args := []string{"test", "-json", "-vet=off", "-count=1", "-ldflags=-s -w", "-tags", r.tags, "-timeout", r.timeout.String(), "-run", pattern}
	if overlay != "" {
		args = append(args, "-failfast", "-overlay", overlay)
	}
	args = append(args, pkg)
	if r.rapid[pkg] { // that it fails is all that counts: no smaller example is looked for
		args = append(args, "-args", "-rapid.shrinktime=0s", "-rapid.nofailfile")
	}
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = r.root
	command.WaitDelay = 10 * time.Second
	var errs bytes.Buffer
	command.Stderr = &errs
	out, err := command.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return sighting{}, fmt.Errorf("go test %s: %w", pkg, err)
	}
	seen := read(out)
	if err != nil && seen.broken == nil && len(seen.failed) == 0 {
		seen.broken = fmt.Errorf("go test %s failed without a failing test: %s", pkg, lastLine(errs.String()))
	}
	return seen, nil
}

// read sorts the events of `go test -json`. Subtests count as their test. A
// test that began and never ended, because it hung or took the process down
// with it, has failed.
func read(out []byte) sighting {
	var seen sighting
	var running []string
	output := ""
	for line := range bytes.Lines(out) {
		var e event
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		switch {
		case e.Action == "build-output":
			output += e.Output
		case e.Action == "build-fail" || e.FailedBuild != "":
			if seen.broken == nil {
				seen.broken = fmt.Errorf("it does not build: %s", lastLine(output))
			}
		case e.Test == "" || strings.Contains(e.Test, "/"):
		case e.Action == "run":
			running = append(running, e.Test)
		case e.Action == "skip":
			running = slices.DeleteFunc(running, func(test string) bool { return test == e.Test })
		case e.Action == "pass":
			seen.passed = append(seen.passed, e.Test)
		case e.Action == "fail":
			seen.failed = append(seen.failed, e.Test)
		}
	}
	for _, test := range running {
		if !slices.Contains(seen.passed, test) && !slices.Contains(seen.failed, test) {
			seen.failed = append(seen.failed, test)
		}
	}
	return seen
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
