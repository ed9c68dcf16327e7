package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"recalld/memory"
)

// backupPages is how many pages one step copies.
const backupPages = 256

// Backup copies one snapshot of the file to dst, which must not exist, while
// reads and writes go on. The copy is one file without a log beside it. done and
// total count pages; progress may be nil. A copy that is damaged is removed again
// and the error is [memory.ErrCorrupt].
func (s *Store) Backup(ctx context.Context, dst string, progress func(done, total int64)) error {
	v, err := s.ViewRecords(ctx)
	if err != nil {
		return err
	}
	defer v.Close()
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := copyTo(ctx, v.conn, dst, progress); err != nil {
		return fmt.Errorf("back up to %s: %w", dst, err)
	}
	return nil
}

// copyTo copies what the connection sees into a new file, through a temporary
// name, so that a file of that name is always whole.
func copyTo(ctx context.Context, source *conn, dst string, progress func(done, total int64)) (err error) {
	if _, err := os.Lstat(dst); !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return err
		}
		return &memory.FieldError{Field: "path", Problem: "already exists", Next: "give a new name; nothing is overwritten"}
	}
	part := dst + ".part"
	if err := removeWithLog(part); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeWithLog(part))
		}
	}()
	if err := copyPages(ctx, source, part, progress); err != nil {
		return err
	}
	if err := checkCopy(ctx, part); err != nil {
		return err
	}
	if err := syncFile(part); err != nil {
		return err
	}
	if err := os.Link(part, dst); err != nil {
		return err
	}
	if err := os.Remove(part); err != nil {
		return err
	}
	return syncFile(filepath.Dir(dst))
}

func copyPages(ctx context.Context, source *conn, dst string, progress func(done, total int64)) (err error) {
	// SQLite would make the file readable by everybody.
	made, err := os.OpenFile(dst, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := made.Close(); err != nil {
		return err
	}
	target, err := connect(dst, "rw", "", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.close()) }()
	b, err := target.raw.Backup("main", source.raw, "main")
	if err != nil {
		return translate(err)
	}
	for done := false; !done; {
		if err := ctx.Err(); err != nil {
			return errors.Join(err, translate(b.Finish()))
		}
		if done, err = b.Step(backupPages); err != nil {
			return errors.Join(translate(err), translate(b.Finish()))
		}
		if progress != nil {
			progress(int64(b.PageCount()-b.Remaining()), int64(b.PageCount()))
		}
	}
	if err := b.Finish(); err != nil {
		return translate(err)
	}
	// The header says that the source has a log; the copy has none.
	mode, err := target.pragma("journal_mode = DELETE")
	if err == nil && mode != "delete" {
		err = fmt.Errorf("the copy stays in journal mode %s", mode)
	}
	return err
}

// checkCopy refuses a copy whose pages do not fit together: a backup that cannot
// be restored must not pass for one.
func checkCopy(ctx context.Context, path string) (err error) {
	c, err := connect(path, "ro", "", true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	r, err := c.first(ctx, "PRAGMA quick_check(1)")
	if err == nil && r.text(0) != "ok" {
		err = fmt.Errorf("%w: %s; run `recalld doctor`, or bring an earlier backup back with `recalld restore`", memory.ErrCorrupt, r.text(0))
	}
	return err
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// removeWithLog removes a database file and what lies beside it.
func removeWithLog(path string) error {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
