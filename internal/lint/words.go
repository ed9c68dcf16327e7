package lint

import (
	"go/ast"
	"regexp"
	"strings"
)

// The patterns are put together from pieces, so that this file passes itself.
var (
	machinePath = regexp.MustCompile(`(^|[^A-Za-z0-9_.~-])/(` + strings.Join([]string{"work", "farm", "root"}, "|") + `)/|` +
		strings.Join([]string{`\.\./`, `\.`}, "shared|") + `library/`)
	registryHost = regexp.MustCompile(strings.Join([]string{
		`proxy\.golang` + `\.org`, `pypi` + `\.org`, `files\.pythonhosted` + `\.org`, `registry\.npmjs` + `\.org`,
		`static\.crates` + `\.io`, `deb\.debian` + `\.org`, `repo1?\.maven` + `\.(org|apache\.org)`,
	}, "|"))
	leftOver = regexp.MustCompile(`\b(` + strings.Join([]string{"TO" + "DO", "FIX" + "ME", "X" + "XX"}, "|") + `)\b`)
)

// Words flags paths of one machine and hosts of package registries in any file,
// and marks of unfinished work in Go files.
func Words(t *Tree) []Finding {
	const rule = "words"
	var found []Finding
	for _, text := range t.Texts {
		goFile := strings.HasSuffix(text.Path, ".go")
		for i, line := range strings.Split(text.Body, "\n") {
			switch {
			case machinePath.MatchString(line):
				found = append(found, Finding{text.Path, i + 1, rule, "a path of one machine"})
			case registryHost.MatchString(line):
				found = append(found, Finding{text.Path, i + 1, rule, "the host of a package registry"})
			case goFile && leftOver.MatchString(line):
				found = append(found, Finding{text.Path, i + 1, rule, "unfinished work"})
			}
		}
	}
	return sorted(found)
}

// The types whose values can end a test early without failing it.
var testers = regexp.MustCompile(`^\*?(testing\.(T|B|F|TB)|rapid\.T)$`)

// A testscript command or condition that ends a script early.
var scriptSkip = regexp.MustCompile(`^(\[[^]]*\]\s*)*skip(\s|$)`)

// Skips flags tests that can pass without having run: Skip, SkipNow, Skipf,
// testing.Short, and skip in scripts. A test that needs more than the machine
// has lives in a file with a build tag.
func Skips(t *Tree) []Finding {
	const rule = "skips"
	var found []Finding
	for _, f := range t.Files {
		names := testerNames(f.AST)
		ast.Inspect(f.AST, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			on, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			skip := names[on.Name] && strings.HasPrefix(sel.Sel.Name, "Skip") && sel.Sel.Name != "Skipped"
			if skip || on.Name == "testing" && sel.Sel.Name == "Short" {
				found = append(found, t.at(t.fset, sel.Pos(), rule, on.Name+"."+sel.Sel.Name+": use a file with a build tag"))
			}
			return true
		})
	}
	for _, text := range t.Texts {
		if !inTestdata(text.Path) || !strings.HasSuffix(text.Path, ".txtar") && !strings.HasSuffix(text.Path, ".txt") {
			continue
		}
		for i, line := range strings.Split(text.Body, "\n") {
			if strings.HasPrefix(line, "-- ") {
				break
			}
			if scriptSkip.MatchString(line) {
				found = append(found, Finding{text.Path, i + 1, rule, "script skips itself"})
			}
		}
	}
	return sorted(found)
}

// testerNames returns the parameter names that a file gives to test values.
func testerNames(file *ast.File) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		fun, ok := n.(*ast.FuncType)
		if !ok {
			return true
		}
		for _, param := range fun.Params.List {
			if !testers.MatchString(typeText(param.Type)) {
				continue
			}
			for _, name := range param.Names {
				names[name.Name] = true
			}
		}
		return true
	})
	return names
}

func typeText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return "*" + typeText(e.X)
	case *ast.SelectorExpr:
		return typeText(e.X) + "." + e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}
