package lint

import (
	"regexp"
	"strconv"
	"strings"
)

const dependencyPage = "docs/dependencies.md"

var moduleRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

// Dependencies flags imports of modules that docs/dependencies.md does not
// explain. A tree without that page has nothing to flag.
func Dependencies(t *Tree) []Finding {
	const rule = "dependencies"
	var explained []string
	for _, text := range t.Texts {
		if text.Path == dependencyPage {
			for _, row := range moduleRow.FindAllStringSubmatch(text.Body, -1) {
				explained = append(explained, row[1])
			}
		}
	}
	if len(explained) == 0 {
		return nil
	}
	var found []Finding
	for _, f := range t.Files {
		for _, spec := range f.AST.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			first, _, _ := strings.Cut(imported, "/")
			if err == nil && strings.Contains(first, ".") && !within(imported, explained...) {
				found = append(found, t.at(t.fset, spec.Pos(), rule, imported+" is not explained in "+dependencyPage))
			}
		}
	}
	return sorted(found)
}
