package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// Where clocks are read and random numbers drawn, to be handed to the rest.
var sourceRooms = []string{"cmd", "bench", "mutation", "internal"}

// What reads the machine's clock or zone.
var clocks = []string{"time.Now", "time.Since", "time.Until", "time.Local", "time.LoadLocation"}

// Constructors of generators that are seeded by their caller.
var seeded = []string{"New", "NewSource", "NewPCG", "NewChaCha8", "NewZipf"}

// Sources flags readings of the clock, of the machine's zone and of unseeded
// randomness outside the commands: everything else is given a clock and a seed.
// The default of a source that was not given passes: a function or reader, not
// its value, assigned where the receiver was found to be nil.
func Sources(t *Tree, loaded []*packages.Package) []Finding {
	const rule = "sources"
	var found []Finding
	for _, p := range loaded {
		if within(t.dirOf(p), sourceRooms...) {
			continue
		}
		for _, file := range p.Syntax {
			if !t.own(p.Fset, file) {
				continue
			}
			defaults := defaultSources(file)
			ast.Inspect(file, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok || defaults[sel] {
					return true
				}
				if text := unpredictable(p.TypesInfo.Uses[sel.Sel]); text != "" {
					found = append(found, t.at(p.Fset, sel.Pos(), rule, text))
				}
				return true
			})
		}
	}
	return sorted(found)
}

// defaultSources returns the right sides of "if x == nil { x = source }".
func defaultSources(file *ast.File) map[ast.Expr]bool {
	found := map[ast.Expr]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		guard, ok := n.(*ast.IfStmt)
		if !ok || len(guard.Body.List) != 1 {
			return true
		}
		test, ok := guard.Cond.(*ast.BinaryExpr)
		set, isSet := guard.Body.List[0].(*ast.AssignStmt)
		if ok && isSet && test.Op == token.EQL && types.ExprString(test.Y) == "nil" &&
			set.Tok == token.ASSIGN && len(set.Lhs) == 1 && types.ExprString(test.X) == types.ExprString(set.Lhs[0]) {
			found[set.Rhs[0]] = true
		}
		return true
	})
	return found
}

// unpredictable says what is wrong with using an object, "" when nothing is.
func unpredictable(object types.Object) string {
	if object == nil || object.Pkg() == nil || object.Parent() != object.Pkg().Scope() {
		return ""
	}
	name := object.Pkg().Path() + "." + object.Name()
	_, function := object.(*types.Func)
	switch object.Pkg().Path() {
	case "time":
		if slices.Contains(clocks, name) {
			return name + ": take the clock or zone from the caller"
		}
	case "math/rand", "math/rand/v2":
		if function && !slices.Contains(seeded, object.Name()) {
			return name + ": take a seeded generator from the caller"
		}
	case "crypto/rand":
		return name + ": take an io.Reader from the caller"
	case "hash/maphash":
		if function && strings.HasPrefix(object.Name(), "MakeSeed") {
			return name + ": hash with a fixed seed"
		}
	}
	return ""
}
