package access

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	tokenA = "aaaaaaaaaaaaaaaa-1"
	tokenB = "bbbbbbbbbbbbbbbb-2"
)

// environment answers as [os.LookupEnv] does.
func environment(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func write(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "grants.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// The exact entry of an agent beats "*", also when it is none; what is not
// granted is denied.
//
// RR-449
func TestLevels(t *testing.T) {
	g, warnings, err := ReadFile(write(t, `{"clients": [
		{"name": "ci", "token": "${CI_TOKEN}", "agents": {"mia": "read-write", "蓮": "none", "*": "read"}},
		{"name": "手机", "token": "`+tokenB+`", "agents": {"蓮": "read"}},
		{"name": "nobody's", "token": "cccccccccccccccc-3", "agents": {}}
	]}`, 0o600), environment("CI_TOKEN", tokenA))
	if err != nil || len(warnings) > 0 || g.Len() != 3 {
		t.Fatal(g, warnings, err)
	}
	for _, test := range []struct {
		token, name                        string
		mia, ren, other, server, everybody Level
	}{
		{tokenA, "ci", ReadWrite, None, Read, Read, None},
		{tokenB, "手机", None, Read, None, None, None},
		{"cccccccccccccccc-3", "nobody's", None, None, None, None, None},
	} {
		c := g.Identify(test.token)
		if c == nil || c.Name() != test.name {
			t.Fatalf("%s was taken for %+v", test.name, c)
		}
		got := [5]Level{c.Level("mia"), c.Level("蓮"), c.Level("王"), c.Server(), c.Everything()}
		if want := [5]Level{test.mia, test.ren, test.other, test.server, test.everybody}; got != want {
			t.Errorf("%s: got %v, want %v", test.name, got, want)
		}
	}
	for _, token := range []string{"", "x", tokenA + "x", tokenA[1:], strings.ToUpper(tokenA), "${CI_TOKEN}", "CI_TOKEN"} {
		if c := g.Identify(token); c != nil {
			t.Errorf("%q is %s", token, c.Name())
		}
	}
}

// A file with one mistake grants nothing; the error names the place and the next
// step, and has no token in it.
func TestMistakesAreNamed(t *testing.T) {
	client := func(name, token, agents string) string {
		return `{"name": "` + name + `", "token": "` + token + `", "agents": ` + agents + `}`
	}
	file := func(clients ...string) string { return "{\"clients\": [\n" + strings.Join(clients, ",\n") + "\n]}" }
	const some = `{"mia": "read"}`
	for _, test := range []struct{ name, text, want string }{
		{"empty file", ``, "is not JSON"},
		{"not JSON", `clients: []`, "is not JSON"},
		{"cut off", `{"clients": [`, "is not JSON"},
		{"a list", `[]`, "is not an object"},
		{"two values", file(client("a", tokenA, some)) + "{}", "goes on after its end"},
		{"no clients", `{}`, "has no clients"},
		{"empty clients", `{"clients": []}`, "is not a list of clients"},
		{"clients no list", `{"clients": {}}`, "is not a list of clients"},
		{"unknown key above", `{"clients": [` + client("a", tokenA, some) + `], "version": 1}`, "version: is an unknown key"},
		{"unknown key", file(`{"name": "a", "token": "` + tokenA + `", "agents": {}, "agent": "mia"}`), "line 2, clients[0].agent: is an unknown key"},
		{"key in another case", file(`{"Name": "a", "token": "` + tokenA + `", "agents": {}}`), "has no name"},
		{"missing token", file(`{"name": "a", "agents": {}}`), "clients[0]: has no token"},
		{"missing agents", file(`{"name": "a", "token": "` + tokenA + `"}`), "clients[0]: has no agents"},
		{"duplicate client", file(client("a", tokenA, some), client("b", tokenB, some), client("a", "cccccccccccccccc-3", some)), "line 4, clients[2].name: is the same as clients[0].name on line 2"},
		{"duplicate token", file(client("a", tokenA, some), client("b", tokenA, some)), "line 3, clients[1].token: is the same as clients[0].token on line 2"},
		{"duplicate token by variable", file(client("a", tokenA, some), client("b", "${SAME}", some)), "clients[1].token: is the same as clients[0].token on line 2"},
		{"duplicate agent", file(client("a", tokenA, "{\"mia\": \"read\",\n\"mia\": \"none\"}")), "line 3, clients[0].agents.mia: is given twice, first on line 2"},
		{"duplicate key by escape", file(`{"name": "a", "n\u0061me": "b", "token": "` + tokenA + `", "agents": {}}`), "clients[0].name: is given twice"},
		{"unknown level", file(client("a", tokenA, `{"mia": "write"}`)), `clients[0].agents.mia: "write" is not a level (limit: none, read, read-write)`},
		{"level no text", file(client("a", tokenA, `{"mia": true}`)), "is not a level"},
		{"no agent", file(client("a", tokenA, `{"": "read"}`)), "names no agent"},
		{"agent with a space", file(client("a", tokenA, `{" mia": "read"}`)), "begins or ends with a space"},
		{"agent with a bidirectional control", file(client("a", tokenA, `{"mi\u202ea": "read"}`)), "control character"},
		{"agent that is none", file(client("a", tokenA, `{"\ud83d": "read"}`)), "a character that is none"},
		{"agents no object", file(client("a", tokenA, `["mia"]`)), "is not an object of agents"},
		{"no name", file(client("", tokenA, some)), "is not a name"},
		{"token no text", file(`{"name": "a", "token": 7, "agents": {}}`), "is not a text"},
		{"empty token", file(client("a", "", some)), "clients[0].token: is empty"},
		{"short token", file(client("a", "short-secret-15", some)), "has 15 characters (limit: 16 to 512"},
		{"long token", file(client("a", strings.Repeat("s", 513), some)), "has 513 characters"},
		{"token with a space", file(client("a", "secret secret secret", some)), "no bearer token may have"},
		{"token that is no ASCII", file(client("a", "秘密秘密秘密秘密秘密秘密", some)), "no bearer token may have"},
		{"unset variable", file(client("a", "${UNSET}", some)), "names the variable UNSET, which is not set"},
		{"empty variable", file(client("a", "${EMPTY}", some)), "(variable EMPTY): is empty"},
		{"short variable", file(client("a", "${SHORT}", some)), "(variable SHORT): has 5 characters"},
		{"part of a variable", file(client("a", "prefix-${SAME}", some)), "is neither a token nor a variable"},
		{"variable without braces", file(client("a", "$SAME_AND_LONG_ENOUGH", some)), "is neither a token nor a variable"},
		{"no variable", file(client("a", "${}", some)), "is neither a token nor a variable"},
		{"a command", file(client("a", "${SAME:-secret}", some)), "is neither a token nor a variable"},
		{"not UTF-8", file(client("a\xe9", tokenA, some)), "is not valid UTF-8"},
		{"too deep", `{"clients": [[[[[[[[[[]]]]]]]]]]}`, "nests too deep"},
		{"too large", file(client("a", tokenA, some)) + strings.Repeat(" ", maxFile), "is too large"},
	} {
		path := write(t, test.text, 0o600)
		g, _, err := ReadFile(path, environment("SAME", tokenA, "EMPTY", "", "SHORT", "short"))
		if err == nil || g != nil {
			t.Errorf("%s: %v was taken", test.name, g)
			continue
		}
		text := err.Error()
		if !strings.Contains(text, test.want) || !strings.HasPrefix(text, path) {
			t.Errorf("%s: got %q, want %q", test.name, text, test.want)
		}
		for _, secret := range []string{tokenA, tokenB, "short-secret", "secret secret", "prefix", "秘密", "sssss", "$SAME"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s: the error tells a token: %s", test.name, text)
			}
		}
	}
}

func TestModesOfTheFile(t *testing.T) {
	literal := `{"clients": [{"name": "a", "token": "` + tokenA + `", "agents": {}}]}`
	variable := `{"clients": [{"name": "a", "token": "${A}", "agents": {}}]}`
	for _, test := range []struct {
		text     string
		mode     os.FileMode
		warnings int
		fails    bool
	}{
		{literal, 0o600, 0, false},
		{literal, 0o640, 1, false},
		{literal, 0o604, 1, false},
		{variable, 0o644, 0, false},
		{literal, 0o620, 0, true},
		{variable, 0o602, 0, true},
	} {
		_, warnings, err := ReadFile(write(t, test.text, test.mode), environment("A", tokenA))
		if len(warnings) != test.warnings || (err != nil) != test.fails {
			t.Errorf("%o: got %v, %v", test.mode, warnings, err)
		}
	}
	if _, _, err := ReadFile(t.TempDir(), environment()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	if _, _, err := ReadFile(filepath.Join(t.TempDir(), "none"), environment()); !os.IsNotExist(unwrapped(err)) {
		t.Errorf("no file: %v", err)
	}
}

func unwrapped(err error) error {
	if w, ok := err.(interface{ Unwrap() error }); ok {
		return w.Unwrap()
	}
	return err
}

// Grants can be read again; a file with a mistake changes nothing.
func TestReload(t *testing.T) {
	text := func(level string) string {
		return `{"clients": [{"name": "a", "token": "` + tokenA + `", "agents": {"mia": "` + level + `"}}]}`
	}
	path := write(t, text("read"), 0o600)
	live, _, err := Open(path, environment())
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		level string
		want  Level
		fails bool
	}{{"read-write", ReadWrite, false}, {"everything", ReadWrite, true}, {"none", None, false}} {
		if err := os.WriteFile(path, []byte(text(step.level)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := live.Reload(); (err != nil) != step.fails {
			t.Errorf("%s: %v", step.level, err)
		}
		if got := live.Grants().Identify(tokenA).Level("mia"); got != step.want {
			t.Errorf("%s: mia has %v, want %v", step.level, got, step.want)
		}
	}
	if _, _, err := Open(write(t, text("everything"), 0o600), environment()); err == nil {
		t.Error("a bad file was opened")
	}
}
