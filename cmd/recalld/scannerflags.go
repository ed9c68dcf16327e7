package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"recalld/coordinator"
	"recalld/front/api"
)

// scannerFlags say whether a folder that is opened in this process has a scanner,
// and which program that is. A server has one unless it is told otherwise; a
// command that ends with its answer does without.
type scannerFlags struct {
	flags         *pflag.FlagSet
	mode, command string
	serves        bool      // set by commands that stay, or that are about the scanner's files
	errOut        io.Writer // what the process writes to its standard error; nil: nowhere
}

func (s *scannerFlags) register(flags *pflag.FlagSet) {
	s.flags = flags
	flags.StringVar(&s.mode, "scanner", "", "compare vectors through a process of its own: auto or off (default: the stored setting for a server, else off); answers are the same")
	flags.StringVar(&s.command, "scanner-command", "", "that process's program and its arguments, with spaces between (default: this program, as recalld scanner)")
}

func (s *scannerFlags) given() bool {
	return s.flags.Changed("scanner") || s.flags.Changed("scanner-command")
}

// override adds what was given to the settings of one run.
func (s *scannerFlags) override(settings map[string]string) {
	if s.flags.Changed("scanner") {
		settings["scanner"] = s.mode
	}
}

// sockets is how long the path of a folder for the scanner's sockets may be.
const sockets = 60

// config is the scanner of a folder that is opened in this process. What the
// scanner writes to its standard error goes to errOut, which may be nil.
func (s *scannerFlags) config(errOut io.Writer) (coordinator.Scanner, error) {
	if s.mode == coordinator.ScannerOff || !s.serves && !s.given() {
		return coordinator.Scanner{Off: true}, nil
	}
	c := coordinator.Scanner{Command: strings.Fields(s.command), Stderr: errOut}
	if len(c.Command) == 0 {
		if s.flags.Changed("scanner-command") {
			return c, usage("--scanner-command is empty; name a program, or leave it out")
		}
		program, err := ownProgram()
		if err != nil {
			return c, err
		}
		c.Command = []string{program, "scanner"}
	}
	var err error
	c.Runtime, err = api.SocketFolder(sockets)
	return c, err
}

// ownProgram is the path of this program, under the name that it was started by
// where that is one: a program may do other things under another name.
func ownProgram() (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	called, err := exec.LookPath(os.Args[0])
	if err != nil {
		return program, nil
	}
	a, errA := os.Stat(program)
	b, errB := os.Stat(called)
	if errA != nil || errB != nil || !os.SameFile(a, b) {
		return program, nil
	}
	return filepath.Abs(called)
}
