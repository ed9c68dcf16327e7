package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ast/astutil"
	"golang.org/x/tools/go/packages"
)

// Types whose values exist to be changed.
var mutable = []string{
	"sync.Mutex", "sync.RWMutex", "sync.Once", "sync.Pool", "sync.Map", "sync.WaitGroup", "sync.Cond",
	"sync/atomic.Bool", "sync/atomic.Int32", "sync/atomic.Int64", "sync/atomic.Uint32", "sync/atomic.Uint64",
	"sync/atomic.Uintptr", "sync/atomic.Pointer", "sync/atomic.Value",
}

// State flags package-level variables that change: assigned, incremented,
// written through an index or a field, addressed, deleted from, used by a
// method that takes a pointer, or of a type made to change. Sentinel errors,
// compiled expressions and tables pass.
func State(t *Tree, loaded []*packages.Package) []Finding {
	const rule = "state"
	var found []Finding
	for _, p := range loaded {
		v := variables{info: p.TypesInfo, scope: p.Types.Scope()}
		for _, file := range p.Syntax {
			if !t.own(p.Fset, file) {
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool {
				for _, name := range v.changed(n) {
					found = append(found, t.at(p.Fset, name.Pos(), rule, "package-level "+name.Name+" changes: keep it in a value that somebody owns"))
				}
				return true
			})
		}
	}
	return sorted(found)
}

type variables struct {
	info  *types.Info
	scope *types.Scope
}

// changed returns the package-level variables that a node itself changes.
func (v variables) changed(n ast.Node) []*ast.Ident {
	var names []*ast.Ident
	add := func(e ast.Expr) {
		if name := v.root(e); name != nil {
			names = append(names, name)
		}
	}
	switch n := n.(type) {
	case *ast.ValueSpec:
		for _, name := range n.Names {
			if object := v.info.Defs[name]; object != nil && object.Parent() == v.scope && madeToChange(object.Type()) {
				names = append(names, name)
			}
		}
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			for _, left := range n.Lhs {
				add(left)
			}
		}
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			add(n.Key)
			add(n.Value)
		}
	case *ast.IncDecStmt:
		add(n.X)
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			add(n.X)
		}
	case *ast.CallExpr:
		switch fun := astutil.Unparen(n.Fun).(type) {
		case *ast.Ident:
			_, builtin := v.info.Uses[fun].(*types.Builtin)
			if builtin && slices.Contains([]string{"delete", "clear", "copy"}, fun.Name) {
				add(n.Args[0])
			}
		case *ast.SelectorExpr:
			if v.byPointer(fun) {
				add(fun.X)
			}
		}
	}
	return names
}

// root returns the package-level variable of this package that an expression
// reads or writes through, nil when there is none.
func (v variables) root(e ast.Expr) *ast.Ident {
	for e != nil {
		switch x := e.(type) {
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.Ident:
			if object, ok := v.info.Uses[x].(*types.Var); ok && object.Parent() == v.scope {
				return x
			}
			return nil
		default:
			return nil
		}
	}
	return nil
}

// byPointer reports whether a method call takes the address of a value.
func (v variables) byPointer(sel *ast.SelectorExpr) bool {
	selection := v.info.Selections[sel]
	if selection == nil || selection.Kind() != types.MethodVal {
		return false
	}
	_, pointer := selection.Recv().Underlying().(*types.Pointer)
	signature, ok := selection.Obj().Type().(*types.Signature)
	if !ok || pointer || types.IsInterface(selection.Recv()) {
		return false
	}
	_, wants := types.Unalias(signature.Recv().Type()).(*types.Pointer)
	return wants
}

func madeToChange(t types.Type) bool {
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
		t = pointer.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return false
	}
	return slices.Contains(mutable, named.Obj().Pkg().Path()+"."+named.Obj().Name())
}
