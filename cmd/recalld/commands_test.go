package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// everyCommand calls visit for the root and every command below it.
func everyCommand(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		everyCommand(sub, visit)
	}
}

// newApp is a program without output that works on the folder.
func newApp(data string) *app {
	a := &app{out: io.Discard, errOut: io.Discard}
	a.root()
	a.data = data
	return a
}

func newRoot() *cobra.Command {
	root := (&app{in: strings.NewReader(""), out: &bytes.Buffer{}, errOut: &bytes.Buffer{}}).root()
	root.InitDefaultHelpCmd()
	return root
}

// Every command explains itself: what it does, how it is called, and what each
// flag means.
func TestEveryCommandIsExplained(t *testing.T) {
	commands := 0
	everyCommand(newRoot(), func(c *cobra.Command) {
		commands++
		path := c.CommandPath()
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: short text %q", path, c.Short)
		}
		if c.Args == nil && c.Name() != "help" && c.Name() != "delete" {
			t.Errorf("%s does not say how many arguments it takes", path)
		}
		examples := commandLines(c.Example)
		own := false
		for _, line := range examples {
			own = own || strings.HasPrefix(parse(t, line), path)
		}
		if !own {
			t.Errorf("%s has no example of its own among %q", path, examples)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s --%s is not explained", path, f.Name)
			}
		})
	})
	if commands < 30 {
		t.Fatalf("%d commands were looked at", commands)
	}
}

// What the documents tell a reader to type is understood.
func TestCommandLinesOfDocuments(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, file := range append(files, "../../README.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?ms)^```(?:sh|console)\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
			for _, line := range commandLines(strings.ReplaceAll(block[1], "bin/recalld", "recalld")) {
				lines++
				parse(t, line)
			}
		}
	}
	if lines < 8 {
		t.Fatalf("%d lines were looked at", lines)
	}
}

// commandLines are the words of every call of recalld in a shell text.
func commandLines(text string) (lines [][]string) {
	for line := range strings.Lines(text) {
		words := shellWords(line)
		for i, word := range words {
			if strings.TrimPrefix(word, "<(") == "recalld" {
				lines = append(lines, words[i+1:])
				break
			}
		}
	}
	return lines
}

// shellWords splits a line as a shell does, up to a pipe, a redirection of
// output, or a comment behind the last command.
func shellWords(line string) (words []string) {
	var word strings.Builder
	var quote rune
	started := false
	end := func() {
		if started {
			words = append(words, word.String())
		}
		word.Reset()
		started = false
	}
	for i, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, started = r, true
		case r == ' ' || r == '\n' || r == ')':
			end()
		case r == '#' && !started, r == '>':
			end()
			return words
		case r == '|':
			end()
			if rest := shellWords(line[i+1:]); len(rest) > 0 && rest[0] == "recalld" {
				return rest
			}
			return words
		default:
			word.WriteRune(r)
			started = true
		}
	}
	end()
	return words
}

// parse reads a command line as execution would, and returns the path of its
// command.
func parse(t *testing.T, words []string) string {
	t.Helper()
	c, rest, err := newRoot().Find(words)
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err == nil {
		err = c.ValidateArgs(c.Flags().Args())
	}
	if err != nil {
		t.Errorf("recalld %q: %v", words, err)
		return ""
	}
	return c.CommandPath()
}

func TestShellWords(t *testing.T) {
	for line, want := range map[string]string{
		`  recalld store --agent mia "two words" # why`: "recalld|store|--agent|mia|two words",
		`git log | recalld store -`:                     "recalld|store|-",
		`recalld export > 'a b'`:                        "recalld|export",
		`source <(recalld completion bash)`:             "source|<(recalld|completion|bash",
		`recalld profile ""`:                            "recalld|profile|",
	} {
		if got := strings.Join(shellWords(line), "|"); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

// The tour names files and functions that are there.
func TestTourIsTrue(t *testing.T) {
	text, err := os.ReadFile("../../docs/tour.md")
	if err != nil {
		t.Fatal(err)
	}
	steps := regexp.MustCompile("`([a-z0-9/]+(?:\\.[a-z]+)?)`(?: · `(\\w+)`)?").FindAllStringSubmatch(strings.ReplaceAll(string(text), "\n", " "), -1)
	functions := 0
	for _, step := range steps {
		path, name := step[1], step[2]
		if !strings.Contains(path, "/") {
			continue
		}
		source, err := os.ReadFile("../../" + path)
		if info, statErr := os.Stat("../../" + path); statErr == nil && info.IsDir() && name == "" {
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		if name == "" {
			continue
		}
		functions++
		if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + name + `[\[(]`).Match(source) {
			t.Errorf("%s has no function %s", path, name)
		}
	}
	if functions < 40 {
		t.Errorf("%d functions were looked for", functions)
	}
}

// The example of the import format is one.
func TestFormatExampleImports(t *testing.T) {
	text, err := os.ReadFile("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```json\n")
	block, _, _ = strings.Cut(block, "```")
	var out bytes.Buffer
	code := run([]string{"import", "--data", t.TempDir(), "-"}, strings.NewReader(block), &out, &out)
	if want := "5 items read: 4 stored, 1 new versions, 0 already there, 0 refused\n"; code != exitOK || out.String() != want {
		t.Errorf("exit code %d: %s", code, out.String())
	}
}
