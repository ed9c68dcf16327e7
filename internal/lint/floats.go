package lint

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"math"
	"slices"

	"golang.org/x/tools/go/ast/astutil"
	"golang.org/x/tools/go/packages"
)

// Where a score can never come from.
var unscored = []string{"cmd", "bench", "mutation", "internal", "front/console"}

// The functions of package math whose results are exact, and so alike on every
// processor.
var exactMath = []string{
	"Abs", "Ceil", "Copysign", "Dim", "FMA", "Float32bits", "Float32frombits", "Float64bits", "Float64frombits",
	"Floor", "Frexp", "Ilogb", "Inf", "IsInf", "IsNaN", "Ldexp", "Logb", "Max", "Min", "Mod", "Modf", "NaN",
	"Nextafter", "Nextafter32", "Remainder", "Round", "RoundToEven", "Signbit", "Sqrt", "Trunc",
}

// Floats flags float products that are not rounded where they are made. On
// arm64 a compiler may fuse a product with an addition that follows it, also
// across statements, returns and inlined calls, and the sum then differs in its
// last bit from amd64's; an explicit conversion, float64(x*y), forbids that. A
// product needs none when its only consumer multiplies, divides, compares (min
// and max compare) or converts, when it is handed to the standard library, when
// it is a constant, or when one factor is a constant power of two, so that it is
// exact.
//
// It also flags the functions of package math that are not exact: amd64 and
// arm64 compute them differently (see coordinator/portable).
func Floats(t *Tree, loaded []*packages.Package) []Finding {
	const rule = "floats"
	var found []Finding
	for _, p := range loaded {
		if within(t.dirOf(p), unscored...) {
			continue
		}
		for _, file := range p.Syntax {
			if !t.own(p.Fset, file) {
				continue
			}
			products{info: p.TypesInfo, module: t.Module}.walk(file, func(pos token.Pos) {
				found = append(found, t.at(p.Fset, pos, rule, "float product may be fused with an addition: write float64(x*y)"))
			})
			ast.Inspect(file, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok && inexactMath(p.TypesInfo.Uses[sel.Sel]) {
					found = append(found, t.at(p.Fset, sel.Pos(), rule, "math."+sel.Sel.Name+" ends in other bits on other processors: see coordinator/portable"))
				}
				return true
			})
		}
	}
	return sorted(found)
}

func inexactMath(object types.Object) bool {
	function, ok := object.(*types.Func)
	return ok && function.Pkg() != nil && function.Pkg().Path() == "math" && !slices.Contains(exactMath, function.Name())
}

type products struct {
	info   *types.Info
	module string
}

// walk calls flag with the position of every product that may be fused.
func (p products) walk(file *ast.File, flag func(token.Pos)) {
	var path []ast.Node
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			path = path[:len(path)-1]
			return true
		}
		path = append(path, n)
		switch e := n.(type) {
		case *ast.BinaryExpr:
			if e.Op == token.MUL && p.inexact(e, e.X, e.Y) && p.flows(path) {
				flag(e.OpPos)
			}
		case *ast.AssignStmt:
			if e.Tok == token.MUL_ASSIGN && p.inexact(e.Lhs[0], e.Lhs[0], e.Rhs[0]) {
				flag(e.TokPos)
			}
		}
		return true
	})
}

// inexact reports whether a product is a float that rounding may change.
func (p products) inexact(product, x, y ast.Expr) bool {
	tv := p.info.Types[product]
	return tv.Value == nil && isFloat(tv.Type) && !p.powerOfTwo(x) && !p.powerOfTwo(y)
}

func (p products) powerOfTwo(e ast.Expr) bool {
	v := p.info.Types[e].Value
	if v == nil {
		return false
	}
	f, exact := constant.Float64Val(constant.ToFloat(v))
	frac, _ := math.Frexp(math.Abs(f))
	return exact && frac == 0.5
}

// flows reports whether the value at the end of path reaches something that
// may add it unrounded. path runs from the file to the product.
func (p products) flows(path []ast.Node) bool {
	value := path[len(path)-1]
	for i := len(path) - 2; i >= 0; i-- {
		switch parent := path[i].(type) {
		case *ast.ParenExpr:
		case *ast.UnaryExpr:
			if parent.Op != token.SUB && parent.Op != token.ADD {
				return true
			}
		case *ast.BinaryExpr:
			return parent.Op == token.ADD || parent.Op == token.SUB
		case *ast.AssignStmt:
			return parent.Tok != token.QUO_ASSIGN && parent.Tok != token.MUL_ASSIGN
		case *ast.CallExpr:
			return p.addsArgument(parent, value)
		case *ast.ExprStmt, *ast.IndexExpr, *ast.SwitchStmt, *ast.CaseClause:
			return false
		default:
			return true
		}
		value = path[i]
	}
	return true
}

// addsArgument reports whether a call could add its argument unrounded: every
// call but conversions and functions of other modules. The standard library's
// own arithmetic is its business.
func (p products) addsArgument(call *ast.CallExpr, argument ast.Node) bool {
	if call.Fun == argument || p.info.Types[call.Fun].IsType() {
		return false
	}
	switch callee := astutil.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return p.ours(callee)
	case *ast.SelectorExpr:
		return p.ours(callee.Sel)
	}
	return true
}

func (p products) ours(name *ast.Ident) bool {
	switch object := p.info.Uses[name].(type) {
	case *types.Builtin:
		return name.Name == "append"
	case *types.Func:
		return object.Pkg() != nil && (object.Pkg().Path() == p.module || within(object.Pkg().Path(), p.module))
	}
	return true
}

// isFloat reports whether values of a type are floats or complex numbers; for a
// type parameter, whether they can be.
func isFloat(t types.Type) bool {
	if t == nil {
		return false
	}
	if param, ok := types.Unalias(t).(*types.TypeParam); ok {
		return mentionsFloat(param.Constraint())
	}
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&(types.IsFloat|types.IsComplex) != 0
}

func mentionsFloat(constraint types.Type) bool {
	switch c := constraint.Underlying().(type) {
	case *types.Interface:
		for i := range c.NumEmbeddeds() {
			if mentionsFloat(c.EmbeddedType(i)) {
				return true
			}
		}
	case *types.Union:
		for i := range c.Len() {
			if mentionsFloat(c.Term(i).Type()) {
				return true
			}
		}
	case *types.Basic:
		return c.Info()&(types.IsFloat|types.IsComplex) != 0
	}
	return false
}
