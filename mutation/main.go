package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command runs the program and returns its exit code.
func command(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("mutation", flag.ContinueOnError)
	flags.SetOutput(errs)
	filter := flags.String("run", "", "apply only mutations whose list/name matches this `expression`")
	names := flags.Bool("list", false, "print the mutations and apply none")
	parallel := flags.Int("p", 2, "apply this `number` of mutations at once")
	timeout := flags.Duration("timeout", 2*time.Minute, "`limit` of one test run; a test that exceeds it has failed")
	tags := flags.String("tags", "sqlite_fts5", "build `tags`")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		flags.Usage()
		return 2
	}
	matching, err := regexp.Compile(*filter)
	if err != nil {
		fmt.Fprintln(errs, "mutation: -run:", err)
		return 2
	}
	root, err := moduleRoot()
	if err != nil {
		fmt.Fprintln(errs, "mutation:", err)
		return 1
	}
	all, err := readLists(filepath.Join(root, "mutation", "list"))
	if err != nil {
		fmt.Fprintln(errs, "mutation:", err)
		return 1
	}
	var chosen []mutation
	for _, m := range all {
		if matching.MatchString(m.id()) {
			chosen = append(chosen, m)
		}
	}
	if *names {
		for _, m := range chosen {
			fmt.Fprintf(out, "%-56s %s\n", m.id(), m.row)
		}
		return 0
	}
	r := runner{root: root, tags: *tags, parallel: *parallel, timeout: *timeout, now: time.Now}
	start := time.Now()
	results := r.run(ctx, chosen, func(done result) { printResult(out, done) })
	return summarise(out, results, time.Since(start))
}

func printResult(out io.Writer, r result) {
	fmt.Fprintf(out, "%-9s %-56s %-16s %6.1fs", r.outcome, r.id(), r.row, r.took.Seconds())
	if r.why != "" {
		fmt.Fprintf(out, "  %s", r.why)
	}
	fmt.Fprintln(out)
}

// summarise prints the totals and returns the exit code: nothing killed is no
// success either.
func summarise(out io.Writer, results []result, took time.Duration) int {
	count := map[outcome]int{}
	for _, r := range results {
		count[r.outcome]++
	}
	fmt.Fprintf(out, "%d mutations: %d killed, %d survived, %d invalid, in %s\n",
		len(results), count[killed], count[survived], count[invalid], took.Round(time.Second))
	if len(results) == 0 || count[killed] < len(results) {
		return 1
	}
	return 0
}

// moduleRoot returns the folder of the module that the working folder is in.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	file := strings.TrimSpace(string(out))
	if filepath.Base(file) != "go.mod" {
		return "", fmt.Errorf("find the module: run this inside the repository")
	}
	return filepath.Dir(file), nil
}
