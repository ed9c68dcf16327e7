package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const entry = `# a comment
name: bound-off-by-one
row: RR-071, DECISIONS 2
file: sum/sum.go
test: ./sum -run ^TestSum$
old: i < n
new: i <= n
`

func TestParseListReadsBlocks(t *testing.T) {
	all, err := parseList("sum", entry+"\n\n"+strings.Replace(entry, "off-by-one", "gone", 1))
	if err != nil {
		t.Fatal(err)
	}
	want := mutation{
		list: "sum", line: 2, name: "bound-off-by-one", row: "RR-071, DECISIONS 2", file: "sum/sum.go",
		pkg: "./sum", test: "^TestSum$", old: "i < n", new: "i <= n",
	}
	if len(all) != 2 || all[0] != want || all[1].id() != "sum/bound-gone" {
		t.Errorf("read %+v", all)
	}
}

func TestParseListKeepsSpaces(t *testing.T) {
	all, err := parseList("sum", strings.Replace(entry, "old: i < n", "old:  \ti < n ", 1))
	if err != nil {
		t.Fatal(err)
	}
	if all[0].old != " \ti < n " {
		t.Errorf("old is %q", all[0].old)
	}
}

func TestParseListRefuses(t *testing.T) {
	for name, change := range map[string][2]string{
		"a missing key":     {"row: RR-071, DECISIONS 2\n", ""},
		"an unknown key":    {"row:", "rows:"},
		"a doubled key":     {"old: i < n\n", "old: i < n\nold: i < n\n"},
		"a bad name":        {"bound-off-by-one", "Bound"},
		"an unknown ledger": {"RR-071", "XX-071"},
		"a test file":       {"sum/sum.go", "sum/sum_test.go"},
		"a file outside":    {"sum/sum.go", "../sum.go"},
		"a test without -run": {
			"./sum -run ^TestSum$", "./sum"},
		"no change": {"i <= n", "i < n"},
		"no text":   {"old: i < n", "old:"},
	} {
		bad := strings.Replace(entry, change[0], change[1], 1)
		if bad == entry {
			t.Fatalf("%s: the case changes nothing", name)
		}
		if all, err := parseList("sum", bad); err == nil {
			t.Errorf("%s was accepted: %+v", name, all)
		} else if !strings.Contains(err.Error(), "line ") {
			t.Errorf("%s: %v names no line", name, err)
		}
	}
}

// A module small enough to be tested many times in seconds.
var module = map[string]string{
	"go.mod": "module tiny\n\ngo 1.26\n",
	"sum/sum.go": `package sum

// Sum adds the numbers below n.
func Sum(n int) int {
	total := 0
	for i := 0; i < n; i++ {
		total += i
	}
	// both + here and + there
	return total
}
`,
	"sum/sum_test.go": `package sum

import "testing"

func TestSum(t *testing.T) {
	t.Run("five", func(t *testing.T) {
		if Sum(5) != 10 {
			t.Error("wrong")
		}
	})
}

func TestNothing(t *testing.T) { Sum(1) }

func TestAway(t *testing.T) {
	if Sum(5) != 10 {
		t.@Now()
	}
}

func TestRed(t *testing.T) { t.Error("red already") }
`,
	"mutation/list/sum.txt": "",
}

func plant(t *testing.T, list string) string {
	t.Helper()
	root := t.TempDir()
	for name, body := range module {
		if strings.HasSuffix(name, ".txt") {
			body = list
		}
		body = strings.ReplaceAll(body, "@", "Skip")
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestRunTellsOutcomesApart(t *testing.T) {
	base := mutation{list: "sum", file: "sum/sum.go", pkg: "./sum", test: "^TestSum$", old: "i < n", new: "i <= n"}
	with := func(change func(*mutation)) mutation {
		m := base
		change(&m)
		return m
	}
	cases := []struct {
		what string
		m    mutation
		want outcome
		why  string
	}{
		{"a fault that the test sees", base, killed, ""},
		{"a fault that never ends", with(func(m *mutation) { m.new = "n == n" }), killed, ""},
		{"a fault that panics", with(func(m *mutation) { m.old, m.new = "total := 0", "total := 0 / (n - n)" }), killed, ""},
		{"a test that looks at nothing", with(func(m *mutation) { m.test = "^TestNothing$" }), survived, "does not fail with the edit"},
		{"a test that runs away", with(func(m *mutation) { m.test = "^TestAway$" }), survived, "does not fail with the edit"},
		{"an edit that does not build", with(func(m *mutation) { m.new = "i << n" }), invalid, "does not build"},
		{"a text that is not there", with(func(m *mutation) { m.old = "i > n" }), invalid, "stands 0 times"},
		{"a text that is there twice", with(func(m *mutation) { m.old = "re" }), invalid, "stands 3 times"},
		{"a test that does not exist", with(func(m *mutation) { m.test = "^TestMissing$" }), invalid, "no test"},
		{"a test that fails anyway", with(func(m *mutation) { m.test = "^TestRed$" }), invalid, "no test"},
		{"a package that does not exist", with(func(m *mutation) { m.pkg = "./product" }), invalid, "without the edit"},
		{"a file that does not exist", with(func(m *mutation) { m.file = "sum/product.go" }), invalid, "no such file"},
	}
	root := plant(t, "")
	var all []mutation
	for _, c := range cases {
		all = append(all, c.m)
	}
	r := runner{root: root, parallel: 2, timeout: 5 * time.Second, now: time.Now}
	reported := 0
	results := r.run(context.Background(), all, func(result) { reported++ })
	if reported != len(cases) {
		t.Errorf("%d of %d results were reported", reported, len(cases))
	}
	for i, c := range cases {
		got := results[i]
		if got.outcome != c.want || !strings.Contains(got.why, c.why) {
			t.Errorf("%s: %s %q, want %s %q", c.what, got.outcome, got.why, c.want, c.why)
		}
		if got.mutation != c.m {
			t.Errorf("%s: its place holds %+v", c.what, got.mutation)
		}
	}
	body, err := os.ReadFile(filepath.Join(root, "sum/sum.go"))
	if err != nil || string(body) != module["sum/sum.go"] {
		t.Errorf("the tree was edited (%v):\n%s", err, body)
	}
}

func TestCommandExitCodes(t *testing.T) {
	survivor := strings.NewReplacer("off-by-one", "unseen", "TestSum", "TestNothing").Replace(entry)
	for _, c := range []struct {
		what string
		list string
		args []string
		want int
		out  string
	}{
		{"all killed", entry, nil, 0, "1 mutations: 1 killed, 0 survived, 0 invalid"},
		{"one survivor", entry + "\n" + survivor, nil, 1, "2 mutations: 1 killed, 1 survived"},
		{"survivor filtered out", entry + "\n" + survivor, []string{"-run", "off-by"}, 0, "1 mutations: 1 killed"},
		{"nothing to apply", entry, []string{"-run", "absent"}, 1, "0 mutations"},
		{"names only", entry, []string{"-list"}, 0, "sum/bound-off-by-one"},
		{"a list that does not parse", "nonsense", nil, 1, ""},
		{"the same name twice", entry + "\n" + entry, nil, 1, ""},
		{"a bad expression", entry, []string{"-run", "("}, 2, ""},
		{"an argument too many", entry, []string{"all"}, 2, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Chdir(plant(t, c.list))
			var out, errs bytes.Buffer
			if got := command(context.Background(), c.args, &out, &errs); got != c.want {
				t.Errorf("exit code %d, want %d\n%s%s", got, c.want, &out, &errs)
			}
			if !strings.Contains(out.String(), c.out) {
				t.Errorf("printed %q, want %q in it", out.String(), c.out)
			}
		})
	}
}
