package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// calls are a working command line for every command that reads or writes a
// folder, with its flags at their ends.
func calls() map[string][]string {
	return map[string][]string{
		"recalld store":         {"new text"},
		"recalld recall":        {"staging"},
		"recalld get":           {"mem:1"},
		"recalld list":          {},
		"recalld update":        {"mem:1"},
		"recalld delete":        {"mem:1"},
		"recalld lock":          {"mem:1"},
		"recalld unlock":        {"mem:1"},
		"recalld profile":       {"text"},
		"recalld import":        {"-"},
		"recalld export":        {},
		"recalld backup":        {"copy.db"},
		"recalld restore":       {"--data=other"},
		"recalld vacuum":        {},
		"recalld doctor":        {},
		"recalld calibrate":     {},
		"recalld model":         {},
		"recalld model accept":  {},
		"recalld model rebuild": {},
		"recalld model retire":  {"7"},
		"recalld config":        {},
		"recalld config set":    {"recall.depth", "50"},
		"recalld config unset":  {"recall.depth"},
		"recalld status":        {},
		"recalld version":       {},
	}
}

// Every argument and every flag of every command takes hostile values: one
// object comes out, the exit code says what it was, and a refusal changed
// nothing.
//
// RR-450
func TestHostileCommandLines(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("XDG_RUNTIME_DIR", runtimeFolder(t))
	t.Setenv("RECALLD_AGENT", "mia")
	t.Setenv("RECALLD_DATA", "data")
	call := func(args ...string) (code int, out, errOut string) {
		var o, e bytes.Buffer
		code = run(args, strings.NewReader(""), &o, &e)
		return code, o.String(), e.String()
	}
	if code, _, message := call("store", "The staging database moved to db-7."); code != exitOK {
		t.Fatal(message)
	}
	s, err := newApp("data").openToServe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	through(t, "data", s.Service)
	before := state(t, s)
	check := func(what string, args []string) {
		code, out, message := call(append([]string{"--json"}, args...)...)
		if message != "" {
			t.Errorf("%s: standard error has %.300q", what, message)
		}
		var answer struct {
			OK    *bool
			Error string
		}
		isExport := args[0] == "export" && code == exitOK
		if !isExport && json.Unmarshal([]byte(out), &answer) != nil {
			t.Errorf("%s: standard output is no object: %.300q", what, out)
		}
		if failed := answer.OK != nil && !*answer.OK && answer.Error != ""; failed != (code != exitOK) && args[0] != "get" && args[0] != "delete" && args[0] != "lock" && args[0] != "unlock" {
			t.Errorf("%s: exit code %d with %.300q", what, code, out)
		}
		if len(answer.Error) > 1000 {
			t.Errorf("%s: the message has %d bytes: %.300s", what, len(answer.Error), answer.Error)
		}
		after := state(t, s)
		if code != exitOK && after != before {
			t.Fatalf("%s: exit code %d and a changed store", what, code)
		}
		before = after
	}
	looked := 0
	everyCommand(newRoot(), func(c *cobra.Command) {
		usual, ok := calls()[c.CommandPath()]
		if !ok {
			return
		}
		looked++
		words := strings.Fields(c.CommandPath())[1:]
		for _, h := range hostile {
			for i := range usual {
				args := slices.Concat(words, usual)
				if strings.HasPrefix(usual[i], "--") {
					continue
				}
				args[len(words)+i] = h.text
				if c.Name() == "backup" && h.content {
					continue // a file name like any other
				}
				check(c.CommandPath()+" argument, "+h.name, args)
			}
			flags := func(f *pflag.Flag) {
				if f.Value.Type() == "bool" || f.Name == "out" && h.content {
					return
				}
				check(c.CommandPath()+" --"+f.Name+", "+h.name, slices.Concat(words, []string{"--" + f.Name + "=" + h.text}, usual))
			}
			c.LocalNonPersistentFlags().VisitAll(flags)
		}
	})
	if looked != len(calls()) {
		t.Fatalf("%d of %d commands were looked at", looked, len(calls()))
	}
	for _, h := range hostile {
		for _, flag := range []string{"embed-backend", "embed-url", "embed-model", "embed-key-env", "embed-query-prompt", "embed-record-prompt", "log-level"} {
			check("--"+flag+", "+h.name, []string{"status", "--data=other", "--embed-backend=openai", "--embed-url=http://127.0.0.1:1", "--embed-model=m", "--" + flag + "=" + h.text})
		}
	}
}
