package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"recalld/memory"
)

func usage(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUsage, fmt.Sprintf(format, args...))
}

// badFlag words what is wrong with a flag of the command: which one, what it
// takes, and where its help is.
func badFlag(c *cobra.Command, err error) error {
	next := "see " + c.CommandPath() + " --help"
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return usage("%v; %s", err, next)
	}
	flag := invalid.GetFlag()
	wanted := map[string]string{"int": "a whole number", "float64": "a number", "bool": "true or false"}[flag.Value.Type()]
	if wanted == "" {
		wanted = "a value of this flag"
	}
	return fmt.Errorf("%w: %w", errUsage, &memory.FieldError{
		Field: "--" + flag.Name, Problem: memory.Shape(invalid.GetValue()) + " is not " + wanted, Limit: flag.Usage, Next: next,
	})
}

func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) == n:
			return nil
		case n == 0:
			return usage("%s takes no argument, %d given; see %s --help", c.CommandPath(), len(args), c.CommandPath())
		case n == 1:
			return usage("%s takes one %s, in quotes when it has spaces, %d given; see %s --help", c.CommandPath(), what, len(args), c.CommandPath())
		}
		return usage("%s takes %s, %d arguments given; see %s --help", c.CommandPath(), what, len(args), c.CommandPath())
	}
}

func atLeast(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) >= n {
			return nil
		}
		return usage("%s takes at least one %s; see %s --help", c.CommandPath(), what, c.CommandPath())
	}
}

func atMost(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) <= n {
			return nil
		}
		return usage("%s takes at most one %s, in quotes when it has spaces, %d given; see %s --help", c.CommandPath(), what, len(args), c.CommandPath())
	}
}

// maxPath is the longest path that is handed to the system, in bytes.
const maxPath = 4_096

// checkPath refuses what no system takes as a path, before anything is opened.
func checkPath(field, path string) error {
	if len(path) <= maxPath && strings.IndexByte(path, 0) < 0 {
		return nil
	}
	return &memory.FieldError{Field: field, Problem: memory.Shape(path) + " is not a path", Limit: fmt.Sprintf("%d bytes without NUL", maxPath), Next: "give the path of a file"}
}

// knownCommand refuses the name of a command that there is none of.
func knownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	meant := c.SuggestionsFor(args[0])
	if len(meant) == 0 {
		return usage("%s is not a command; see %s --help", memory.Shape(args[0]), c.CommandPath())
	}
	return usage("%s is not a command; did you mean %s?", memory.Shape(args[0]), strings.Join(meant, " or "))
}
