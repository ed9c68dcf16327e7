package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"
	"github.com/rogpeppe/go-internal/testscript"

	"recalld/front/api"
)

// Each script of testdata/script is one test.

// RR-444, RR-450
func TestStoreScript(t *testing.T) { script(t, "store") }

// RR-440
func TestRecallScript(t *testing.T) { script(t, "recall") }

func TestRecordsScript(t *testing.T) { script(t, "records") }

// RR-439
func TestScopeScript(t *testing.T) { script(t, "scope") }

// RR-450
func TestUsageScript(t *testing.T) { script(t, "usage") }

// RR-444
func TestImportScript(t *testing.T) { script(t, "import") }

func TestHookScript(t *testing.T)          { script(t, "hook") }
func TestExportScript(t *testing.T)        { script(t, "export") }
func TestBackupScript(t *testing.T)        { script(t, "backup") }
func TestDamageScript(t *testing.T)        { script(t, "damage") }
func TestReadOnlyScript(t *testing.T)      { script(t, "readonly") }
func TestServerScript(t *testing.T)        { script(t, "server") }
func TestMCPScript(t *testing.T)           { script(t, "mcp") }
func TestOperateScript(t *testing.T)       { script(t, "operate") }
func TestIndexScript(t *testing.T)         { script(t, "index") }
func TestCompletionScript(t *testing.T)    { script(t, "completion") }
func TestOverrideScript(t *testing.T)      { script(t, "override") }
func TestDoorScript(t *testing.T)          { script(t, "door") }
func TestBenchScanScript(t *testing.T)     { script(t, "bench_scan") }
func TestBenchReachScript(t *testing.T)    { script(t, "bench_reach") }
func TestBenchFidelityScript(t *testing.T) { script(t, "bench_fidelity") }

func TestEveryScriptIsATest(t *testing.T) {
	source, err := os.ReadFile("script_test.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		if !regexp.MustCompile(`Script\(t \*testing\.T\) +\{ script\(t, "` + name + `"\) \}`).Match(source) {
			t.Errorf("no test runs %s", file)
		}
	}
}

// script runs the command line as a user does. Beside testscript's own commands
// a script has
//
//	exits CODE program args...   the exit code, exactly
//	json PATH WORD               a value of the last output, a dotted path
//	settles PATH WORD program args...  again until its output has that value there
//	serving DIR                  wait until the server of DIR answers
//	appears GLOB                 wait until a file of that name is there
//	terminate                    SIGTERM to what runs in the background
//	lines N FILE                 N different records as jsonl
//	huge FILE                    an event whose prompt is a megabyte
//	binary FILE                  a line of jsonl that is no UTF-8
//	invert FILE OFFSET           invert one byte
//	truncate FILE SIZE
//	sql FILE STATEMENT           change a data file behind recalld's back
func script(t *testing.T, name string) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Files:               []string{"testdata/script/" + name + ".txtar"},
		RequireExplicitExec: true,
		ContinueOnError:     true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			runtime, err := os.MkdirTemp("/tmp", "rt-")
			if err != nil {
				return err
			}
			env.Defer(func() { os.RemoveAll(runtime) })
			env.Setenv("XDG_RUNTIME_DIR", runtime)
			env.Setenv("RECALLD_DATA", filepath.Join(env.WorkDir, "data"))
			env.Setenv("RECALLD_AGENT", "mia")
			env.Setenv("HOME", env.WorkDir)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     scriptExits,
			"json":      scriptJSON,
			"settles":   scriptSettles,
			"serving":   scriptServing,
			"appears":   scriptAppears,
			"terminate": scriptTerminate,
			"lines":     scriptLines,
			"huge":      scriptHuge,
			"binary":    scriptBinary,
			"invert":    scriptInvert,
			"truncate":  scriptTruncate,
			"sql":       scriptSQL,
		},
	})
}

func scriptExits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

func scriptJSON(ts *testscript.TestScript, neg bool, args []string) {
	if found := valueAt(ts, args[0]); (found == args[1]) == neg {
		ts.Fatalf("%s is %s", args[0], found)
	}
}

// valueAt is a value of the last output as text.
func valueAt(ts *testscript.TestScript, path string) string {
	var value any
	decoder := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	decoder.UseNumber()
	ts.Check(decoder.Decode(&value))
	if decoder.More() {
		ts.Fatalf("more than one JSON value")
	}
	if found, ok := walk(value, strings.Split(path, ".")).(string); ok {
		return found
	}
	text, err := json.Marshal(walk(value, strings.Split(path, ".")))
	ts.Check(err)
	return string(text)
}

func scriptSettles(ts *testscript.TestScript, _ bool, args []string) {
	if !until(func() bool {
		ts.Check(ts.Exec(args[2], args[3:]...))
		return valueAt(ts, args[0]) == args[1]
	}) {
		ts.Fatalf("%s does not become %s", args[0], args[1])
	}
}

// walk follows a path of keys, indices, and len for a list's length; nil when it
// leads nowhere.
func walk(value any, path []string) any {
	for _, step := range path {
		switch at := value.(type) {
		case map[string]any:
			value = at[step]
		case []any:
			i, err := strconv.Atoi(step)
			switch {
			case step == "len":
				value = len(at)
			case err != nil || i >= len(at):
				return nil
			default:
				value = at[i]
			}
		default:
			return nil
		}
	}
	return value
}

// until polls until something holds, and reports false when it does not come
// true in a time that is long for any machine.
func until(ok func() bool) bool {
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

func scriptServing(ts *testscript.TestScript, _ bool, args []string) {
	if !until(func() bool {
		client, err := api.Dial(ts.MkAbs(args[0]))
		return err == nil && client.Close() == nil
	}) {
		ts.Fatalf("no server answers for %s", args[0])
	}
}

func scriptAppears(ts *testscript.TestScript, _ bool, args []string) {
	if !until(func() bool {
		found, err := filepath.Glob(ts.MkAbs(args[0]))
		return err == nil && len(found) > 0
	}) {
		ts.Fatalf("no %s appears", args[0])
	}
}

func scriptTerminate(ts *testscript.TestScript, _ bool, _ []string) {
	for _, c := range ts.BackgroundCmds() {
		ts.Check(c.Process.Signal(syscall.SIGTERM))
	}
}

func scriptLines(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "{\"content\":\"note %d about the harbour, 第%d条记录\",\"message_id\":\"n-%d\"}\n", i, i, i)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b.Bytes(), 0o600))
}

func scriptHuge(ts *testscript.TestScript, _ bool, args []string) {
	prompt := "where is the staging database? " + strings.Repeat("会议 log line\\n", 70_000)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(`{"prompt":"`+prompt+`"}`), 0o600))
}

func scriptBinary(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte("{\"content\":\"caf\xe9\"}\n"), 0o600))
}

func scriptInvert(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	at, err := strconv.Atoi(args[1])
	ts.Check(err)
	raw, err := os.ReadFile(path)
	ts.Check(err)
	raw[at] = ^raw[at]
	ts.Check(os.WriteFile(path, raw, 0o600))
}

func scriptTruncate(ts *testscript.TestScript, _ bool, args []string) {
	size, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), size))
}

func scriptSQL(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite3", ts.MkAbs(args[0]))
	ts.Check(err)
	_, err = db.Exec(args[1])
	ts.Check(errors.Join(err, db.Close()))
}
