package lint

import (
	"go/ast"
	"go/token"
	"path"
	"strings"
)

// The fewest bytes of a package comment that says a job, invariants and what
// the package refuses.
const minPackageComment = 120

// Docs flags packages without a doc.go that says what they are for, and
// exported names without a comment.
func Docs(t *Tree) []Finding {
	const rule = "docs"
	var found []Finding
	documented := map[string]bool{}
	for _, f := range t.Files {
		if path.Base(f.Path) == "doc.go" && f.AST.Doc != nil && len(f.AST.Doc.Text()) >= minPackageComment {
			documented[f.Dir] = true
		}
	}
	for _, f := range t.Files {
		if f.Test || f.Generated {
			continue
		}
		if !documented[f.Dir] {
			documented[f.Dir] = true
			found = append(found, Finding{Path: f.Path, Line: 1, Rule: rule, Text: "package " + f.Dir + " needs a doc.go that says its job, its invariants and what it refuses to do"})
		}
		if f.AST.Name.Name == "main" {
			continue
		}
		for _, decl := range f.AST.Decls {
			for _, name := range undocumented(decl) {
				found = append(found, t.at(t.fset, name.Pos(), rule, "exported "+name.Name+" has no comment"))
			}
		}
	}
	return sorted(found)
}

// undocumented returns the exported names of a declaration that nothing explains.
// A comment on a group explains its members.
func undocumented(decl ast.Decl) []*ast.Ident {
	var names []*ast.Ident
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || exportedReceiver(d.Recv)) && !wellKnown(d) {
			names = append(names, d.Name)
		}
	case *ast.GenDecl:
		if d.Doc != nil && d.Tok != token.TYPE {
			return nil
		}
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
					names = append(names, s.Name)
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() && s.Doc == nil && s.Comment == nil {
						names = append(names, name)
					}
				}
			}
		}
	}
	return names
}

func exportedReceiver(list *ast.FieldList) bool {
	base := list.List[0].Type
	for {
		switch b := base.(type) {
		case *ast.StarExpr:
			base = b.X
		case *ast.IndexExpr:
			base = b.X
		case *ast.IndexListExpr:
			base = b.X
		case *ast.Ident:
			return b.IsExported()
		default:
			return false
		}
	}
}

// wellKnown names methods whose contract is the standard library's.
func wellKnown(d *ast.FuncDecl) bool {
	const methods = " Error Unwrap Is As String Len Less Swap Close Read Write MarshalJSON UnmarshalJSON MarshalText UnmarshalText ServeHTTP "
	return d.Recv != nil && strings.Contains(methods, " "+d.Name.Name+" ")
}
