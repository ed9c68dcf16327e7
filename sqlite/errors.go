package sqlite

import (
	"errors"
	"fmt"
	"syscall"

	sqlite3 "github.com/mattn/go-sqlite3"

	"recalld/memory"
)

// Errors of this package beside those of package memory.
var (
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("store is closed")
	// ErrNoFTS5 says that the binary was built without full-text search.
	ErrNoFTS5 = errors.New("this binary was built without FTS5; build it with `make build`, or with `CGO_ENABLED=1 go build -tags sqlite_fts5 ./cmd/recalld`")
)

// translate turns what the driver says into the kinds that callers tell apart,
// keeping the original text for the log.
func translate(err error) error {
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return err
	}
	switch {
	case e.Code == sqlite3.ErrFull, e.SystemErrno == syscall.ENOSPC, e.SystemErrno == syscall.EDQUOT:
		return fmt.Errorf("%w: nothing was changed; free some space and try again (%w)", memory.ErrFull, err)
	case e.Code == sqlite3.ErrReadonly, e.Code == sqlite3.ErrPerm, e.SystemErrno == syscall.EROFS:
		return fmt.Errorf("%w: make the file and its folder writable (%w)", memory.ErrReadOnly, err)
	case e.Code == sqlite3.ErrCorrupt, e.Code == sqlite3.ErrNotADB:
		return fmt.Errorf("%w: nothing was repaired; bring a backup back with `recalld restore` (%w)", memory.ErrCorrupt, err)
	case e.Code == sqlite3.ErrBusy, e.Code == sqlite3.ErrLocked:
		return fmt.Errorf("%w: another process is writing to the file (%w)", memory.ErrBusy, err)
	}
	return err
}

// fatal errors speak of the file or the machine, not of the item, and end the
// whole batch.
func fatal(err error) bool {
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case sqlite3.ErrFull, sqlite3.ErrIoErr, sqlite3.ErrNomem, sqlite3.ErrCantOpen, sqlite3.ErrReadonly, sqlite3.ErrPerm, sqlite3.ErrCorrupt, sqlite3.ErrNotADB:
		return true
	}
	return false
}
