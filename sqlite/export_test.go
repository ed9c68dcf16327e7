package sqlite

import (
	"context"
	"fmt"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// Limit makes the file full at a number of pages.
func (s *Store) Limit(ctx context.Context, pages int) error {
	return s.submit(&job{ctx: ctx, alone: func(c *conn) error {
		return c.script(fmt.Sprintf("PRAGMA max_page_count = %d", pages))
	}})
}

// LimitLog sets how long the log may grow before readers are held back.
func (s *Store) LimitLog(ctx context.Context, bytes int64) error {
	return s.submit(&job{ctx: ctx, alone: func(*conn) error {
		s.walLimit = bytes
		return nil
	}})
}

// ScanAtMost sets in how large a scope a substring is looked for by reading.
func (s *Store) ScanAtMost(memories int64) { s.scannedRows = memories }

// OpenAt opens a file at an older schema.
func OpenAt(ctx context.Context, path string, version int) (*Store, error) {
	steps, err := migrations()
	if err != nil {
		return nil, err
	}
	return open(ctx, path, Options{}, steps[:version])
}

// Compiling makes a view call each for every step of compiling a statement.
func (v *View) Compiling(each func()) {
	v.conn.raw.RegisterAuthorizer(func(int, string, string, string) int {
		each()
		return sqlite3.SQLITE_OK
	})
}
