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

// Restored says what Restore did.
type Restored struct {
	TruthID string // of the restored file
	Schema  int
	// SetAside is where the file that was in the way went, "" when there was none.
	SetAside string
	Findings []CheckFinding // with verify: every check
}

// CheckFinding is one check and what it found.
type CheckFinding struct {
	Name    string
	Finding Finding
}

// Restore puts a backup in the place of dst, under a new truth id, so that
// everything derived from the former file is built again (DECISIONS 4). The
// backup is not changed. A file at dst is set aside, never overwritten. With
// verify every check must pass first. Nobody may have dst open.
func Restore(ctx context.Context, src, dst string, verify bool, o Options) (r Restored, err error) {
	part := dst + restoreMark
	if err := removeWithLog(part); err != nil {
		return r, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("restore %s: %w", src, errors.Join(err, removeWithLog(part)))
		}
	}()
	if err := copyBackup(ctx, src, part); err != nil {
		return r, err
	}
	if r, err = renew(ctx, part, verify, o); err != nil {
		return r, err
	}
	if r.SetAside, err = setAside(dst, r.TruthID); err != nil {
		return r, err
	}
	// The old name must be gone for good before the new file takes it.
	if err := syncFile(filepath.Dir(dst)); err != nil {
		return r, err
	}
	if err := os.Rename(part, dst); err != nil {
		return r, err
	}
	return r, syncFile(filepath.Dir(dst))
}

func copyBackup(ctx context.Context, src, part string) (err error) {
	a, err := examine(src, Options{ReadOnly: true})
	if err != nil {
		return err
	}
	source, err := connect(src, "ro", "", a.immutable)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.close()) }()
	if _, err := source.first(ctx, "SELECT count(*) FROM sqlite_schema"); err != nil {
		return err
	}
	return copyPages(ctx, source, part, nil)
}

// renew migrates and verifies the copy and gives it its own truth id.
func renew(ctx context.Context, part string, verify bool, o Options) (r Restored, err error) {
	o.ReadOnly, o.VFS, o.Readers = false, "", 1
	s, err := Open(ctx, part, o)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close(), removeLog(part)) }()
	if verify {
		bad := 0
		for _, c := range s.Checks() {
			f, err := c.Run(ctx)
			if err != nil {
				return r, fmt.Errorf("check %s: %w", c.Name, err)
			}
			if !f.OK && f.Severity == SeverityError {
				bad++
			}
			r.Findings = append(r.Findings, CheckFinding{c.Name, f})
		}
		if bad > 0 {
			return r, fmt.Errorf("%w: %d checks failed; use another backup, or restore without verifying", memory.ErrCorrupt, bad)
		}
	}
	if r.TruthID, err = s.newTruthID(); err != nil {
		return r, err
	}
	r.Schema = s.version
	return r, s.write(ctx, func(t *tx) error {
		return t.item(func() error {
			_, _, err := t.exec("UPDATE instance SET value = ? WHERE name = 'truth_id'", r.TruthID)
			return err
		})
	})
}

// removeLog removes the empty log that a closed store may leave.
func removeLog(path string) error {
	for _, suffix := range []string{"-wal", "-shm"} {
		if info, err := os.Stat(path + suffix); err == nil && suffix == "-wal" && info.Size() > 0 {
			return fmt.Errorf("the log of %s was not emptied", path)
		}
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// setAside renames the file at dst and its log to names that say why, and
// returns the file's, "" when there was none. A log alone is kept too: it may be
// that of a file which an interrupted restore set aside.
func setAside(dst, truthID string) (string, error) {
	aside, found := dst+asideMark+truthID[:8], ""
	for _, suffix := range []string{"", "-wal", "-shm"} {
		switch err := os.Rename(dst+suffix, aside+suffix); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return "", err
		case suffix == "":
			found = aside
		}
	}
	return found, nil
}

// What stands behind the name of a file that a restore makes, and of one that it
// set aside.
const (
	restoreMark = ".restore"
	asideMark   = ".replaced-by-"
)

// checkRestored refuses to begin an empty file where a restore was interrupted
// after it had set the former file aside.
func checkRestored(path string) error {
	if _, err := os.Lstat(path + restoreMark); err != nil {
		return nil
	}
	aside, err := filepath.Glob(escapeGlob(path) + asideMark + "*")
	if err != nil || len(aside) == 0 {
		return err
	}
	return fmt.Errorf("%w: a restore was interrupted and the file is set aside; run `recalld restore` again, or rename %s and what belongs to it back",
		memory.ErrCorrupt, filepath.Base(aside[0]))
}
