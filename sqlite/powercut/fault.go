package powercut

import "strings"

// Operation is a call that a [Fault] can refuse.
type Operation uint8

// The order is that of the enumeration in shim.h.
const (
	Write Operation = iota
	Truncate
	Sync
	Delete
)

// Failure is what SQLite is told of a refused operation.
type Failure uint8

const (
	IOError  Failure = iota // SQLITE_IOERR_WRITE, _TRUNCATE, _FSYNC or _DELETE, after the operation
	DiskFull                // SQLITE_FULL
)

// Fault refuses calls of one operation, which then change nothing. The nth call alone: Skip n-1, Times 1.
type Fault struct {
	Operation Operation
	Suffix    string // only files whose path ends so, such as "-wal"; "" means any
	Skip      int    // matching calls let through first
	Times     int    // matching calls refused after those; 0 means all
	Failure   Failure
}

// trigger counts one call of operation on path and says whether it is refused. The counting is in the fault itself.
func (f *Fault) trigger(operation Operation, path string) bool {
	if f.Operation != operation || !strings.HasSuffix(path, f.Suffix) || f.Times < 0 {
		return false
	}
	if f.Skip > 0 {
		f.Skip--
		return false
	}
	if f.Times > 0 {
		f.Times--
		if f.Times == 0 {
			f.Times = -1
		}
	}
	return true
}
