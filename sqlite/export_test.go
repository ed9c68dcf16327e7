package sqlite

import (
	"context"
	"fmt"
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

// OpenAt opens a file at an older schema.
func OpenAt(ctx context.Context, path string, version int) (*Store, error) {
	steps, err := migrations()
	if err != nil {
		return nil, err
	}
	return open(ctx, path, Options{}, steps[:version])
}
