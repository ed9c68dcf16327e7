package lint

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/tools/go/packages"
)

// A Finding is one place that breaks a rule. Path is slash-separated and
// relative to the root of the tree; Line is 1 or more.
type Finding struct {
	Path string
	Line int
	Rule string
	Text string
}

// String returns "path:line: rule: text".
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.Path, f.Line, f.Rule, f.Text)
}

// A Tree is a module's source files, parsed.
type Tree struct {
	Root   string
	Module string
	// Files are the Go files in path order, testdata excluded.
	Files []*File
	// Texts are all files that hold text, in path order, Go files and testdata
	// included.
	Texts []Text

	fset *token.FileSet
}

// A File is one parsed Go file.
type File struct {
	Path      string
	Dir       string // slash-separated, "." for the root
	Test      bool
	Generated bool
	AST       *ast.File
}

// A Text is one file as text.
type Text struct {
	Path string
	Body string
}

// Folders that hold no source: version control, binaries, data folders.
var notSource = []string{".git", "bin", "data"}

// The largest file that is read as text, in bytes. Larger ones are artefacts.
const maxText = 4 << 20

// Load reads and parses the module at root. It fails when a file does not
// parse.
func Load(root, module string) (*Tree, error) {
	t := &Tree{Root: root, Module: module, fset: token.NewFileSet()}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if entry.IsDir() {
			if slices.Contains(notSource, rel) {
				return fs.SkipDir
			}
			return nil
		}
		return t.add(name, rel, entry)
	})
	if err != nil {
		return nil, fmt.Errorf("read source tree: %w", err)
	}
	return t, nil
}

func (t *Tree) add(name, rel string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > maxText {
		return nil
	}
	body, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !utf8.Valid(body) {
		return nil
	}
	t.Texts = append(t.Texts, Text{Path: rel, Body: string(body)})
	if path.Ext(rel) != ".go" || inTestdata(rel) {
		return nil
	}
	parsed, err := parser.ParseFile(t.fset, name, body, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	t.Files = append(t.Files, &File{
		Path:      rel,
		Dir:       path.Dir(rel),
		Test:      strings.HasSuffix(rel, "_test.go"),
		Generated: ast.IsGenerated(parsed),
		AST:       parsed,
	})
	return nil
}

func inTestdata(rel string) bool {
	return slices.Contains(strings.Split(rel, "/"), "testdata")
}

// at makes a finding for a position in one of the tree's files.
func (t *Tree) at(fset *token.FileSet, pos token.Pos, rule, text string) Finding {
	p := fset.Position(pos)
	rel, err := filepath.Rel(t.Root, p.Filename)
	if err != nil {
		rel = p.Filename
	}
	return Finding{Path: filepath.ToSlash(rel), Line: p.Line, Rule: rule, Text: text}
}

// Types loads and type-checks the module's packages as they are built for
// production, tests excluded. When some do not build it returns the others and
// an error that names them.
func (t *Tree) Types() ([]*packages.Package, error) {
	loaded, err := packages.Load(&packages.Config{
		Mode:       packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo,
		Dir:        t.Root,
		BuildFlags: []string{"-tags=sqlite_fts5"},
	}, "./...")
	if err != nil {
		return nil, fmt.Errorf("load packages: %w", err)
	}
	slices.SortFunc(loaded, func(a, b *packages.Package) int { return cmp.Compare(a.PkgPath, b.PkgPath) })
	var broken []error
	loaded = slices.DeleteFunc(loaded, func(p *packages.Package) bool {
		if len(p.Errors) > 0 {
			broken = append(broken, fmt.Errorf("load package %s: %w", p.PkgPath, p.Errors[0]))
		}
		return len(p.Errors) > 0
	})
	return loaded, errors.Join(broken...)
}

// dirOf returns the package's folder relative to the module.
func (t *Tree) dirOf(p *packages.Package) string {
	if p.PkgPath == t.Module {
		return "."
	}
	return strings.TrimPrefix(p.PkgPath, t.Module+"/")
}

// own reports whether a file of a type-checked package is source of the tree;
// files that cgo makes are not.
func (t *Tree) own(fset *token.FileSet, file *ast.File) bool {
	if ast.IsGenerated(file) {
		return false
	}
	rel, err := filepath.Rel(t.Root, fset.Position(file.Package).Filename)
	return err == nil && !strings.HasPrefix(rel, "..")
}

func sorted(findings []Finding) []Finding {
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Text, b.Text))
	})
	return slices.Compact(findings)
}

// within reports whether dir is one of the rooms or below one.
func within(dir string, rooms ...string) bool {
	return slices.ContainsFunc(rooms, func(room string) bool {
		return dir == room || strings.HasPrefix(dir, room+"/")
	})
}
