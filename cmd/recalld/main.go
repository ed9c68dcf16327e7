package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

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

// run executes one command line and returns its exit code. SIGINT and SIGTERM
// cancel it; a second one ends the process at once.
func run(args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	a := &app{in: in, out: out, errOut: errOut}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	a.report(err)
	if errors.Is(err, memory.ErrInvalid) || errors.Is(err, errUsage) {
		return exitInvalid
	}
	return exitFailed
}

// errUsage marks an error in the command line itself.
var errUsage = errors.New("usage")

// errReported ends a command with exit code 1 after it has printed its result.
var errReported = errors.New("reported")

// report prints an error once: as an object on standard output with --json
// (RR-450), else as a line on standard error.
func (a *app) report(err error) {
	if errors.Is(err, errReported) {
		return
	}
	if !a.json {
		fmt.Fprintln(a.errOut, "recalld:", err)
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
	json.NewEncoder(a.out).Encode(failure)
}
