package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"recalld/coordinator"
	"recalld/front/hook"
	"recalld/memory"
)

func (a *app) hookCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "hook",
		Short:   "Serve an agent's program as a hook",
		Long:    "Serve an agent's program as a hook: a command that it starts by itself.",
		Example: `  recalld hook recall --agent mia --format claude-code`,
		Args:    knownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.hookRecallCommand())
	return c
}

// hookFlags are the flags of hook recall.
type hookFlags struct {
	scope    scopeFlags
	format   string
	timeout  time.Duration
	maxChars int
	count    int
	strict   bool
}

func (a *app) hookRecallCommand() *cobra.Command {
	var f hookFlags
	c := &cobra.Command{
		Use:   "recall",
		Short: "Print what an agent should see beside a prompt",
		Long: `Read one event from standard input, the JSON that Claude Code sends to a
UserPromptSubmit hook or {"prompt": "..."}, and print the records that bear on the
prompt, fenced as data. Nothing is printed when there are none, when the time is up,
or when something fails; failures are one line on standard error. The exit code is
0 all the same, so that a prompt is never held up; --strict makes it 1.

Without --project, the project is the name of the nearest folder at or above the
event's cwd that has a .git, else cwd's own name; an event without cwd asks all
projects. Without --agent and RECALLD_AGENT, that name is the agent, and all of its
projects are searched.

docs/hook.md has the settings for Claude Code.`,
		Example: `  echo '{"prompt":"where is the staging database?"}' | recalld hook recall --agent mia
  recalld hook recall --agent mia --format claude-code --timeout 1s --max-chars 2000 < event.json`,
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := a.bounded(c.Context(), f)
			if err == nil {
				_, err = io.WriteString(a.out, text)
			}
			if err == nil {
				return nil
			}
			fmt.Fprintln(a.errOut, "recalld hook:", visible(strings.Join(strings.Fields(err.Error()), " ")))
			if f.strict {
				return errReported
			}
			return nil
		},
	}
	f.scope.register(c)
	flags := c.Flags()
	flags.StringVar(&f.format, "format", hook.FormatText, "text, or claude-code: the JSON that Claude Code takes from a hook")
	flags.DurationVar(&f.timeout, "timeout", 2*time.Second, "longest time for all of it; after it nothing is printed")
	flags.IntVar(&f.maxChars, "max-chars", 4_000, fmt.Sprintf("longest text, in characters, at least %d", hook.MinChars))
	flags.IntVar(&f.count, "count", 0, fmt.Sprintf("records at most, up to %d (default %d)", coordinator.MaxCount, coordinator.DefaultCount))
	flags.BoolVar(&f.strict, "strict", false, "exit code 1 when something fails")
	return c
}

// errLate ends a hook whose time is up.
var errLate = errors.New("no answer in time; nothing is shown")

// bounded is what the hook prints, at the latest after the time it has. What still
// runs then ends with the process.
func (a *app) bounded(ctx context.Context, f hookFlags) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := a.contextOf(ctx, f)
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		if ctx.Err() != nil {
			return "", errLate
		}
		return r.text, r.err
	case <-ctx.Done():
		return "", errLate
	}
}

// contextOf reads the event, asks, and renders.
func (a *app) contextOf(ctx context.Context, f hookFlags) (string, error) {
	if f.maxChars < hook.MinChars {
		return "", &memory.FieldError{Field: "--max-chars", Problem: fmt.Sprintf("is %d", f.maxChars), Limit: fmt.Sprintf("at least %d", hook.MinChars), Next: "give a larger number"}
	}
	if _, err := hook.Print(f.format, "checked"); err != nil {
		return "", err
	}
	event, err := hook.ReadEvent(a.in)
	if err != nil {
		return "", err
	}
	request := coordinator.RecallRequest{Agent: f.scope.agent, Query: event.Query(maxHookQuery), Count: f.count}
	request.Project, request.Channel = f.scope.optional()
	switch name := hook.Project(event.Folder); {
	case request.Agent == "" && name == "":
		return "", &memory.FieldError{Field: "--agent", Problem: "is not given and cwd names none", Next: "name it with --agent or RECALLD_AGENT"}
	case request.Agent == "":
		request.Agent = name
	case request.Project == nil && name != "":
		request.Project = &name
	}
	s, err := a.open(ctx)
	if err != nil {
		return "", err
	}
	answer, err := s.Recall(ctx, request)
	if err := errors.Join(err, s.Close()); err != nil {
		return "", err
	}
	// What a reservation added did not pass the gate.
	answer.Rows = slices.DeleteFunc(answer.Rows, func(r coordinator.Row) bool { return r.Admission != "" })
	if len(answer.Rows) == 0 {
		return "", nil
	}
	return hook.Print(f.format, hook.Context(answer, f.maxChars))
}

// maxHookQuery is how much of a prompt is asked about, in code points: pasted logs
// drown the question.
const maxHookQuery = 4_000

// isHook reports whether a command is one that an agent's program starts.
func isHook(c *cobra.Command) bool {
	return c != nil && c.HasParent() && c.Parent().Name() == "hook"
}
