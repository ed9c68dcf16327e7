package lint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// Each case is a small module and, in the file "want", exactly what the rules
// must find in it. The mark @ is taken out before a file is written, so that a
// case can hold words that the rules forbid in this repository.
func TestEveryRuleFiresAndSpares(t *testing.T) {
	cases, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	fired := map[string]bool{}
	for _, name := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			root := t.TempDir()
			want := unpack(t, root, name)
			tree, err := Load(root, "recalld")
			if err != nil {
				t.Fatal(err)
			}
			found, err := Check(tree)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, f := range found {
				fired[f.Rule] = true
				got.WriteString(f.String() + "\n")
			}
			if got.String() != want {
				t.Errorf("found:\n%s\nwant:\n%s", got.String(), want)
			}
		})
	}
	for _, rule := range []string{"imports", "sql", "rooms", "docs", "floats", "sources", "state", "words", "skips", "ledger", "dependencies"} {
		if !fired[rule] {
			t.Errorf("no case makes rule %s fire", rule)
		}
	}
}

// unpack writes a case below root, adds a module file and a doc.go to each
// package that has none, and returns what the case wants.
func unpack(t *testing.T, root, name string) string {
	t.Helper()
	archive, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	bare := strings.HasPrefix(filepath.Base(name), "docs")
	write := func(name, body string) {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module recalld\n\ngo 1.26\n")
	for _, f := range archive.Files {
		body := strings.ReplaceAll(string(f.Data), "@", "")
		if f.Name == "want" {
			want = body
			continue
		}
		write(f.Name, body)
		if dir := filepath.Dir(f.Name); !bare && strings.HasSuffix(f.Name, ".go") && !strings.Contains(dir, "testdata") {
			write(dir+"/doc.go", "// Package "+filepath.Base(dir)+" stands here "+strings.Repeat("to be looked at, ", 10)+"no more.\npackage "+packageName(body)+"\n")
		}
	}
	return want
}

func packageName(body string) string {
	_, rest, _ := strings.Cut("\n"+body, "\npackage ")
	name, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSuffix(strings.TrimSpace(name), "_test")
}

func TestLoadRefusesWhatDoesNotParse(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("package"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(root, "recalld"); err == nil {
		t.Error("a file that does not parse was accepted")
	}
}

func TestCheckRefusesWhatDoesNotBuild(t *testing.T) {
	root := t.TempDir()
	for name, body := range map[string]string{"go.mod": "module recalld\n\ngo 1.26\n", "a.go": "package a\n\nvar a int = \"\"\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := Load(root, "recalld")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Check(tree); err == nil {
		t.Error("a package that does not build was accepted")
	}
}
