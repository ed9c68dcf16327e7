package lint

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// An area is a package, or a folder of packages, that the import table speaks of.
type area struct {
	dir string
	// below lists the areas whose packages it may import. Packages of one area
	// may import one another.
	below []string
	// std is set where only the standard library may be imported.
	std bool
	// pure is set where no package for files, processes or networks may be
	// imported.
	pure bool
}

// The areas from top to bottom: an import may only point down.
var areas = []area{
	{dir: "cmd", below: []string{"front", "coordinator", "ingest", "doctor", "access", "shards", "scanner", "layout", "lexical", "sqlite", "embed", "blocks", "memory", "bench"}},
	{dir: "bench", below: []string{"front", "proto", "coordinator", "ingest", "doctor", "access", "shards", "scanner", "layout", "lexical", "sqlite", "embed", "blocks", "memory"}},
	{dir: "front", below: []string{"coordinator", "access", "proto", "memory"}},
	{dir: "proto"},
	{dir: "coordinator", below: []string{"ingest", "doctor", "access", "shards", "scanner", "layout", "lexical", "sqlite", "embed", "blocks", "memory"}},
	{dir: "ingest", below: []string{"access", "shards", "scanner", "layout", "lexical", "sqlite", "embed", "blocks", "memory"}},
	{dir: "doctor", below: []string{"access", "shards", "scanner", "layout", "lexical", "sqlite", "embed", "blocks", "memory"}},
	{dir: "access", below: []string{"memory"}},
	{dir: "shards", below: []string{"scanner", "proto", "layout", "lexical", "sqlite", "memory"}},
	{dir: "scanner", below: []string{"layout", "lexical", "memory", "proto"}},
	{dir: "layout", below: []string{"memory"}},
	{dir: "lexical", below: []string{"memory"}, pure: true},
	{dir: "sqlite", below: []string{"memory"}},
	{dir: "embed", below: []string{"memory"}},
	{dir: "blocks", below: []string{"memory"}, pure: true},
	{dir: "memory", std: true, pure: true},
	{dir: "mutation"},
	{dir: "internal"},
}

// What reaches outside the process.
var effects = []string{"os", "net", "syscall", "database/sql", "io/ioutil", "log", "plugin", "golang.org/x/sys"}

// Imports flags imports that do not point down the list of packages, imports
// of anything but the standard library where that is the rule, and packages
// that the list does not know. Tests may look further down and sideways, but
// never at the command.
func Imports(t *Tree) []Finding {
	const rule = "imports"
	var found []Finding
	for _, f := range t.Files {
		from := slices.IndexFunc(areas, func(a area) bool { return within(f.Dir, a.dir) })
		if from < 0 {
			found = append(found, t.at(t.fset, f.AST.Package, rule, "folder "+f.Dir+" is not in the import table"))
			continue
		}
		for _, spec := range f.AST.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue
			}
			if text := areas[from].refuses(t.Module, imported, f.Test); text != "" {
				found = append(found, t.at(t.fset, spec.Pos(), rule, text))
			}
		}
	}
	return sorted(found)
}

// refuses returns why the area may not import a package, "" when it may.
func (a area) refuses(module, imported string, test bool) string {
	dir, ours := strings.CutPrefix(imported, module+"/")
	switch {
	case ours && test:
		if within(dir, "cmd") && a.dir != "cmd" {
			return "a test of " + a.dir + " imports the command " + dir
		}
	case ours:
		if !within(dir, a.dir) && !within(dir, a.below...) {
			return a.dir + " may not import " + dir
		}
	case test:
	case a.std && strings.Contains(strings.Split(imported, "/")[0], "."):
		return a.dir + " may import the standard library only, not " + imported
	case a.pure && within(path.Clean(imported), effects...):
		return a.dir + " does no I/O and may not import " + imported
	}
	return ""
}
