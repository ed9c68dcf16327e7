package access

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// However a secret, grants or a client is printed, logged or encoded, the token
// is not in it.
func TestSecretsNeverShow(t *testing.T) {
	secret, err := NewSecret("token", tokenA)
	if err != nil {
		t.Fatal(err)
	}
	grants := Single("a", secret)
	var shown bytes.Buffer
	for _, value := range []any{secret, &secret, struct{ Token Secret }{secret}, map[string]Secret{"a": secret}, []Secret{secret}, grants, *grants, grants.Identify(tokenA)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
			fmt.Fprintf(&shown, verb+"\n", value)
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		shown.Write(text)
		for _, handler := range []slog.Handler{slog.NewTextHandler(&shown, nil), slog.NewJSONHandler(&shown, nil)} {
			slog.New(handler).Info("shown", "value", value, slog.Group("in", "value", value))
		}
	}
	for _, form := range []string{tokenA, fmt.Sprintf("%x", tokenA), fmt.Sprintf("%X", tokenA), fmt.Sprint([]byte(tokenA))} {
		if strings.Contains(shown.String(), form) {
			t.Errorf("%q is shown in\n%s", form, shown.String())
		}
	}
	if !strings.Contains(shown.String(), redacted) {
		t.Error("nothing was shown")
	}
}

// sources are compiled in, so that the test reads what was built.
//
//go:embed grants.go secret.go
var sources embed.FS

// A token is compared in constant time by construction: Identify looks at every
// client, has no way out of its loop, and compares digests with crypto/subtle
// alone.
func TestComparisonIsConstantTime(t *testing.T) {
	for file, function := range map[string]string{"grants.go": "Identify", "secret.go": "same"} {
		text, err := sources.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		found, subtle := false, false
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Name.Name != function {
				continue
			}
			found = true
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					subtle = subtle || fmt.Sprint(s.X) == "subtle"
				}
				loop, ok := n.(*ast.RangeStmt)
				if !ok {
					return true
				}
				ast.Inspect(loop.Body, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.IfStmt, *ast.BranchStmt, *ast.ReturnStmt, *ast.SwitchStmt:
						t.Errorf("%s: the loop of %s decides: %T", file, function, n)
					case *ast.BinaryExpr:
						t.Errorf("%s: the loop of %s compares with %s", file, function, n.Op)
					}
					return true
				})
				return true
			})
		}
		if !found || !subtle {
			t.Errorf("%s: %s is there: %v, uses crypto/subtle: %v", file, function, found, subtle)
		}
	}
}

// Whoever presents the token of one of many clients is that client, and anybody
// else nobody.
func TestIdentify(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Za-z0-9._~+/=-]{16,40}`), 1, 20, rapid.ID[string]).Draw(t, "tokens")
		known := rapid.IntRange(0, len(tokens)).Draw(t, "known")
		g := &Grants{}
		for i, token := range tokens[:known] {
			g.clients = append(g.clients, NewClient(fmt.Sprint(i), Read))
			g.digests = append(g.digests, digestOf(token))
		}
		for i, token := range tokens {
			c := g.Identify(token)
			switch {
			case i >= known && c != nil:
				t.Fatalf("an unknown token is %s", c.Name())
			case i < known && (c == nil || c.Name() != fmt.Sprint(i)):
				t.Fatalf("client %d is %v", i, c)
			}
		}
	})
}
