package lint

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// Where unsafe, cgo and assembly may stand.
var unsafeRooms = []string{"scanner/kernel", "layout", "sqlite/powercut"}

// Files that are not Go but end up in a binary.
var foreign = []string{".s", ".S", ".c", ".h", ".cc", ".cpp", ".syso"}

// Rooms flags unsafe, cgo, linkname directives and foreign sources outside
// their rooms. What generators write is theirs to answer for.
func Rooms(t *Tree) []Finding {
	const rule = "rooms"
	var found []Finding
	for _, f := range t.Files {
		if within(f.Dir, unsafeRooms...) || f.Generated {
			continue
		}
		for _, spec := range f.AST.Imports {
			if name, err := strconv.Unquote(spec.Path.Value); err == nil && (name == "unsafe" || name == "C") {
				found = append(found, t.at(t.fset, spec.Pos(), rule, "import of "+name+" outside "+strings.Join(unsafeRooms, ", ")))
			}
		}
		for _, group := range f.AST.Comments {
			for _, c := range group.List {
				if strings.HasPrefix(c.Text, "//go:linkname") {
					found = append(found, t.at(t.fset, c.Pos(), rule, "linkname outside "+strings.Join(unsafeRooms, ", ")))
				}
			}
		}
	}
	for _, text := range t.Texts {
		if slices.Contains(foreign, path.Ext(text.Path)) && !inTestdata(text.Path) && !within(path.Dir(text.Path), unsafeRooms...) {
			found = append(found, Finding{Path: text.Path, Line: 1, Rule: rule, Text: "foreign source outside " + strings.Join(unsafeRooms, ", ")})
		}
	}
	return sorted(found)
}
