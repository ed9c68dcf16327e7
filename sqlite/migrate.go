package sqlite

import (
	"context"
	"embed"
	"fmt"
	"os"
	"strconv"

	"recalld/memory"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration moves a file from version-1 to version. minReader is the oldest
// schema version whose readers understand the result.
type migration struct {
	version   int
	minReader int
	sql       string
}

// migrations returns every step, oldest first. Released steps never change.
func migrations() ([]migration, error) {
	steps := []migration{{version: 1, minReader: 1}, {version: 2, minReader: 1}}
	for i, name := range []string{"001_first.sql", "002_blocks.sql"} {
		text, err := migrationFiles.ReadFile("migrations/" + name)
		if err != nil {
			return nil, err
		}
		steps[i].sql = string(text)
	}
	return steps, nil
}

// migrate brings the file to the last step. Before each step of a file that
// already holds something a backup is written beside it (RR-010).
func (s *Store) migrate(ctx context.Context, c *conn, a access, steps []migration) error {
	latest := steps[len(steps)-1].version
	version, err := c.intPragma("user_version")
	if err != nil {
		return err
	}
	owner, err := c.intPragma("application_id")
	if err != nil {
		return err
	}
	r, err := c.first(ctx, "SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return err
	}
	empty := r.int(0) == 0
	switch {
	case !empty && owner != applicationID:
		return fmt.Errorf("%w: it is a SQLite file of another program; give recalld a path of its own", memory.ErrCorrupt)
	case version > latest:
		reader := version
		if r, err := c.first(ctx, "SELECT value FROM instance WHERE name = 'min_reader_version'"); err == nil && r != nil {
			reader, _ = strconv.Atoi(r.text(0))
		}
		if !a.readOnly || reader > latest {
			return fmt.Errorf("%w: it has schema %d, this program knows %d; use the newer recalld, or a backup from before the upgrade", memory.ErrTooNew, version, latest)
		}
	case version < latest && a.readOnly:
		return fmt.Errorf("%w: it has schema %d and cannot be moved to %d; open it once for writing", memory.ErrReadOnly, version, latest)
	}
	for _, step := range steps {
		if step.version <= version {
			continue
		}
		if !empty {
			if err := s.backupBefore(ctx, c, step.version); err != nil {
				return fmt.Errorf("back up before migration %d: %w", step.version, err)
			}
		}
		if err := s.apply(ctx, c, step); err != nil {
			return fmt.Errorf("migration %d: %w", step.version, err)
		}
		version = step.version
	}
	s.version = version
	return nil
}

// backupBefore copies the file to PATH.before-N. A copy that is already there
// comes from an attempt that failed after it and is as good.
func (s *Store) backupBefore(ctx context.Context, c *conn, version int) error {
	target := s.path + ".before-" + strconv.Itoa(version)
	if _, err := os.Stat(target); err == nil {
		return nil
	}
	return copyTo(ctx, c, target, nil)
}

func (s *Store) apply(ctx context.Context, c *conn, step migration) error {
	if err := c.script("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := s.applyInside(ctx, c, step)
	if err == nil {
		err = c.script("COMMIT")
	}
	if err != nil && !c.raw.AutoCommit() {
		if undo := c.script("ROLLBACK"); undo != nil {
			return fmt.Errorf("%w (rollback: %v)", err, undo)
		}
	}
	return err
}

func (s *Store) applyInside(ctx context.Context, c *conn, step migration) error {
	if err := c.script(step.sql); err != nil {
		return err
	}
	if step.version == 1 {
		id, err := s.newTruthID()
		if err != nil {
			return err
		}
		if _, _, err := c.exec("INSERT INTO instance (name, value) VALUES ('truth_id', ?), ('created', ?)", id, s.stamp().String()); err != nil {
			return err
		}
	}
	if _, _, err := c.exec("INSERT INTO instance (name, value) VALUES ('min_reader_version', ?) ON CONFLICT DO UPDATE SET value = excluded.value", strconv.Itoa(step.minReader)); err != nil {
		return err
	}
	return c.script(fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, step.version))
}

func (c *conn) intPragma(name string) (int, error) {
	text, err := c.pragma(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("pragma %s: %w", name, err)
	}
	return n, nil
}
