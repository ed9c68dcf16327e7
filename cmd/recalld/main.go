package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"recalld/memory"
)

// Exit codes, as the help text of the root command lists them.
const (
	exitOK      = 0
	exitFailed  = 1 // it did not work, or a check found something
	exitInvalid = 2 // the input was refused; nothing changed
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// settle is how long a repeated signal counts as the first one: wrappers and
// terminals may deliver the same one twice.
const settle = time.Second

// run executes one command line and returns its exit code. SIGINT and SIGTERM
// cancel it; another one after settle ends the process at once.
func run(args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { time.AfterFunc(settle, stop) })
	a := &app{in: in, out: out, errOut: errOut}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	ran, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		err = errInterrupted
	case errors.Is(err, errUsage):
		// Flags behind the one in error were not read.
		a.json = a.json || asksForJSON(args)
	}
	a.report(err)
	// A hook's exit code 2 would hold the prompt up in Claude Code.
	if (errors.Is(err, memory.ErrInvalid) || errors.Is(err, errUsage)) && !isHook(ran) {
		return exitInvalid
	}
	return exitFailed
}

var (
	// errUsage marks an error in the command line itself.
	errUsage = errors.New("usage")
	// errReported ends a command with exit code 1 after it has printed its result.
	errReported = errors.New("reported")
	// errInterrupted stands for whatever a cancelled command says.
	errInterrupted = errors.New("interrupted; what had been acknowledged is kept")
)

func asksForJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json")
}

// report prints an error once: as an object on standard output with --json
// (RR-450), else as a line on standard error.
func (a *app) report(err error) {
	if errors.Is(err, errReported) {
		return
	}
	if !a.json {
		fmt.Fprintln(a.errOut, "recalld:", visible(err.Error()))
		return
	}
	failure := struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
		Field string `json:"field,omitempty"`
		Limit string `json:"limit,omitempty"`
		Next  string `json:"next,omitempty"`
	}{Error: err.Error()}
	var field *memory.FieldError
	if errors.As(err, &field) {
		failure.Field, failure.Limit, failure.Next = field.Field, field.Limit, field.Next
	}
	encoder := json.NewEncoder(a.out)
	encoder.SetEscapeHTML(false)
	// Nobody is left to tell when standard output is gone.
	_ = encoder.Encode(failure)
}
