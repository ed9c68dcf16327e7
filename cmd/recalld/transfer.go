package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"recalld/memory"
)

// writeWhole writes a file under a temporary name beside it, syncs it and
// renames it. A device or a pipe is written to instead: a rename would put a file
// in its place.
func writeWhole(path string, write func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return writeInto(path, write)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".part-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(f.Name())
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func writeInto(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	err = write(f)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// outside refuses an existing file of the data folder as one to write to: an export
// in the place of the data file would lose every record. A link is followed to what
// it names, which is what an export replaces.
func (a *app) outside(field, path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return path, nil // a new file; whether its folder is there, writing says
	}
	folder, err := os.Stat(filepath.Dir(real))
	if err != nil {
		return "", err
	}
	if data, err := os.Stat(a.data); err == nil && os.SameFile(folder, data) {
		return "", &memory.FieldError{Field: field, Problem: memory.Shape(path) + " is a file of the data folder", Limit: "no file that recalld keeps", Next: "give a name in another folder"}
	}
	return real, nil
}

func (a *app) backupCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "backup PATH",
		Short: "Copy the whole instance into one file, also while serving",
		Long: `Copy the whole instance into one file, also while a server runs. The file is an
ordinary data file: everything, settings and calibration included, is in it.`,
		Example: `  recalld backup ~/backups/recall-2026-11-30.db`,
		Args:    exactly(1, "PATH"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkPath("PATH", args[0]); err != nil {
				return err
			}
			path, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			s, err := a.open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			progress, done := a.bar("copying pages", false)
			err = s.Backup(c.Context(), path, progress)
			done()
			if err != nil {
				return err
			}
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return a.print(map[string]any{"path": path, "bytes": info.Size()}, func(w io.Writer) { fmt.Fprintf(w, "%s, %d bytes\n", path, info.Size()) })
		},
	}
	return c
}

func (a *app) vacuumCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "vacuum",
		Short:   "Give unused space in the file back",
		Example: "  recalld vacuum",
		Args:    exactly(0, ""),
		RunE: a.with(func(c *cobra.Command, _ []string, s *session) error {
			path := filepath.Join(a.data, truthName)
			before := size(path)
			progress, done := a.bar("vacuuming", false)
			err := s.Vacuum(c.Context(), progress)
			done()
			if err != nil {
				return err
			}
			after := size(path)
			return a.print(map[string]int64{"bytes_before": before, "bytes_after": after}, func(w io.Writer) { fmt.Fprintf(w, "%d bytes, before %d\n", after, before) })
		}),
	}
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
