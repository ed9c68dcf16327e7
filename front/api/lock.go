package api

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"recalld/memory"
)

// lockName is the file in a data folder whose lock says who owns the store. It
// stays when the owner goes; the lock does not.
const lockName = "lock"

// FolderLock is the right to open a data folder's store. The kernel lifts it
// when the process ends, however it ends.
type FolderLock struct{ file *os.File }

// LockFolder makes the data folder if there is none and takes its lock without
// waiting. It wraps [memory.ErrBusy], naming the process that has it, and
// [memory.ErrReadOnly] for a folder that cannot be written.
func LockFolder(dir string) (*FolderLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make data folder: %w", withKind(err))
	}
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data folder: %w", withKind(err))
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: process %s has it; stop it or use its socket: %w", dir, owner(file), memory.ErrBusy)
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := writeOwner(file); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, withKind(err)), file.Close())
	}
	return &FolderLock{file}, nil
}

// Unlock gives the folder up.
func (l *FolderLock) Unlock() error { return l.file.Close() }

func writeOwner(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func owner(file *os.File) string {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, 20))
	if pid, convErr := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && convErr == nil {
		return strconv.Itoa(pid)
	}
	return "unknown"
}

// withKind adds the kind of a file system's refusal.
func withKind(err error) error {
	switch {
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: %w", err, memory.ErrReadOnly)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w: %w", err, memory.ErrFull)
	}
	return err
}
