package layout

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Kinds of error that callers tell apart with [errors.Is].
var (
	// ErrDamaged is a *[DamageError]: set the file aside and build its rows anew.
	ErrDamaged = errors.New("derived file is damaged")
	// ErrVersion is a *[VersionError]: build the file's rows anew.
	ErrVersion = errors.New("derived file is of another version")
	// ErrForeign says that a file is of another store or model than was asked for,
	// or another file than its name says.
	ErrForeign = errors.New("derived file belongs elsewhere")
	// ErrErased says that a slot of a value file holds nothing any more.
	ErrErased = errors.New("value is erased")
)

// DamageError says where a file is not as it was written.
type DamageError struct {
	File    string // name without its folder
	Section string // "header", "codes", …; "slots" of a value file
	Chunk   int    // of [ChunkBytes] from the start of the section, or the slot; -1: none in particular
	Problem string
}

// Error implements error.
func (e *DamageError) Error() string {
	place := e.Section
	if e.Chunk >= 0 {
		place = fmt.Sprintf("%s %d", e.Section, e.Chunk)
	}
	return fmt.Sprintf("%v: %s, %s: %s; it is built again from the store", ErrDamaged, e.File, place, e.Problem)
}

// Is makes every DamageError an [ErrDamaged].
func (e *DamageError) Is(target error) bool { return target == ErrDamaged }

// VersionError refuses a file of a format version or kind that this program does
// not read. It is not damaged.
type VersionError struct {
	File    string
	Version int
	Kind    Kind // 0 for value files
}

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%v: %s has version %d, kind %d; this program reads versions %d to %d, kinds %d and %d; rebuild the index",
		ErrVersion, e.File, e.Version, e.Kind, oldestVersion, Version, Signs, Int8)
}

// Is makes every VersionError an [ErrVersion].
func (e *VersionError) Is(target error) bool { return target == ErrVersion }

// Guard runs a function that reads mapped files. A fault in it, as behind the end
// of a file that somebody cut short, becomes an [ErrDamaged] instead of the
// process's end. It does not reach into other goroutines or C.
func Guard(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		caught := recover()
		if caught == nil {
			return
		}
		fault, ok := caught.(interface {
			error
			Addr() uintptr
		})
		if !ok {
			panic(caught)
		}
		err = fmt.Errorf("%w: reading a mapped file failed: %v", ErrDamaged, fault)
	}()
	return read()
}
