package kernel

import (
	"fmt"
	"slices"
	"strings"

	"recalld/memory"
)

// Path is the set of instructions that inner loops are made of.
type Path uint8

// The paths. Each gives the same results.
const (
	Go     Path = iota // pure Go, on every processor
	Popcnt             // x86 with POPCNT
	AVX2               // x86 with AVX2
	AVX512             // x86 with AVX-512 VPOPCNTDQ, VBMI and VNNI
	NEON               // 64-bit ARM
)

var pathNames = []string{"go", "popcnt", "avx2", "avx512", "neon"}

func (p Path) String() string {
	if int(p) < len(pathNames) {
		return pathNames[p]
	}
	return fmt.Sprintf("path %d", uint8(p))
}

// Paths returns the paths that this build has and this processor can run, the
// fastest last. Go is always the first.
func Paths() []Path {
	paths := []Path{Go}
	for p := Popcnt; int(p) < len(pathNames); p++ {
		if compiled(p) {
			paths = append(paths, p)
		}
	}
	return paths
}

// Best returns the fastest of [Paths].
func Best() Path {
	paths := Paths()
	return paths[len(paths)-1]
}

// ChoosePath returns the path of a name, [Best] for the empty one. A name that is
// unknown, or whose instructions are missing here, is a *[memory.FieldError].
func ChoosePath(name string) (Path, error) {
	if name == "" {
		return Best(), nil
	}
	var names []string
	for _, p := range Paths() {
		names = append(names, p.String())
	}
	i := slices.Index(names, name)
	if i < 0 {
		return Go, &memory.FieldError{Field: "path", Problem: "is not one that this machine can run", Limit: strings.Join(names, ", "),
			Next: "leave it out for the fastest"}
	}
	return Paths()[i], nil
}
