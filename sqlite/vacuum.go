package sqlite

import (
	"context"
	"fmt"
)

// Vacuum merges the full-text indexes, rewrites the file without its free pages
// and empties the log. Writes wait meanwhile, reads go on. progress counts the
// steps.
func (s *Store) Vacuum(ctx context.Context, progress func(done, total int64)) error {
	steps := []string{
		"INSERT INTO memory_fts (memory_fts) VALUES ('optimize')",
		"INSERT INTO episode_fts (episode_fts) VALUES ('optimize')",
		"VACUUM",
		"PRAGMA optimize",
	}
	total := int64(len(steps) + 1)
	err := s.submit(&job{ctx: ctx, alone: func(c *conn) error {
		for i, step := range steps {
			if err := ctx.Err(); err != nil {
				return err
			}
			if progress != nil {
				progress(int64(i), total)
			}
			if err := c.script(step); err != nil {
				return err
			}
		}
		return nil
	}})
	if err == nil {
		err = s.Checkpoint(ctx)
	}
	if err != nil {
		return fmt.Errorf("vacuum: %w", err)
	}
	if progress != nil {
		progress(total, total)
	}
	return nil
}

// Checkpoint empties the log into the file. While a reader holds an older
// snapshot it moves what it can; that is no error.
func (s *Store) Checkpoint(ctx context.Context) error {
	return s.submit(&job{ctx: ctx, alone: func(*conn) error {
		s.writer.truncateLog()
		return nil
	}})
}
