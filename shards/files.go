package shards

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/edsrzf/mmap-go"

	"recalld/lexical"
	"recalld/memory"
)

const (
	fileSuffix  = ".postings"
	tempSuffix  = ".tmp"
	quarantined = "quarantine"
)

// file is one sealed file of the current generation.
type file struct {
	entry
	*lexical.File
	mapped mmap.MMap // nil for a file that is kept in memory
	opened *os.File  // the file that is mapped, under whatever name
	// asSeen is the file before its checksums were last found right. It is written
	// with Lexical.work and mu held.
	asSeen fs.FileInfo
	// own is an index over this file alone, which knows whether a row is in it.
	own  *lexical.Index
	dead []row // rows of the file that are deleted; guarded by Lexical.mu
}

// row names a row of a file.
type row struct {
	cell lexical.Cell
	ref  memory.Ref
}

func newFile(e entry, f *lexical.File) *file {
	return &file{entry: e, File: f, own: lexical.NewIndex(f)}
}

// bury notes that a row is deleted, if the file has it.
func (f *file) bury(cell lexical.Cell, ref memory.Ref) error {
	_, before := f.own.Recent()
	if err := guard(func() error { return f.own.Delete(cell, ref) }); err != nil {
		return err
	}
	if _, after := f.own.Recent(); after > before {
		f.dead = append(f.dead, row{cell, ref})
	}
	return nil
}

// put writes bytes as a file of the folder and opens it. Without a folder they
// stay in memory.
func put(dir string, b []byte) (*file, error) {
	sum := sha256.Sum256(b)
	e := entry{Name: hex.EncodeToString(sum[:]) + fileSuffix, Bytes: int64(len(b))}
	if dir == "" {
		f, err := lexical.Open(b)
		if err != nil {
			return nil, err
		}
		return newFile(e.describe(f), f), nil
	}
	if err := place(dir, e.Name, b, 0o400); err != nil {
		return nil, err
	}
	return openFile(dir, e)
}

// describe fills in what the file itself says.
func (e entry) describe(f *lexical.File) entry {
	e.Rows = f.Rows()
	for c := range f.Cells {
		if e.First == 0 {
			e.First = c
		}
		e.Last = c
	}
	return e
}

// openFile maps a file of the generation. Damage is [lexical.ErrCorrupt].
func openFile(dir string, e entry) (_ *file, err error) {
	opened, err := os.Open(filepath.Join(dir, e.Name))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, opened.Close())
		}
	}()
	info, err := opened.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() != e.Bytes || e.Bytes == 0 {
		return nil, fmt.Errorf("%w: %s has %d bytes, not %d", lexical.ErrCorrupt, e.Name, info.Size(), e.Bytes)
	}
	mapped, err := mmap.Map(opened, mmap.RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", e.Name, err)
	}
	var f *lexical.File
	err = guard(func() (err error) {
		f, err = lexical.Open(mapped)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, mapped.Unmap())
	}
	if e.First == 0 {
		e = e.describe(f)
	}
	sealed := newFile(e, f)
	sealed.mapped, sealed.opened, sealed.asSeen = mapped, opened, info
	return sealed, nil
}

// release unmaps the file. Nobody may read it any more.
func (f *file) release() error {
	if f.mapped == nil {
		return nil
	}
	return errors.Join(f.mapped.Unmap(), f.opened.Close())
}

// guard turns a fault while reading a mapping, such as behind the end of a file
// that somebody cut short, into [lexical.ErrCorrupt].
func guard(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		caught := recover()
		if caught == nil {
			return
		}
		if fault, ok := caught.(interface {
			error
			Addr() uintptr
		}); ok {
			err = fmt.Errorf("%w: reading a mapped file failed: %v", lexical.ErrCorrupt, fault)
			return
		}
		panic(caught)
	}()
	return read()
}

// place writes a file under a temporary name and renames it, so that it is there
// whole or not at all. It is durable on return.
func place(dir, name string, b []byte, mode fs.FileMode) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temp := filepath.Join(dir, name+tempSuffix)
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return syncFolder(dir)
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// removeName removes a file of the folder; one that is gone is no error.
func removeName(dir, name string) error {
	if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// setAside moves a file to the quarantine, where it stays for inspection.
func setAside(dir, name string) error {
	to := filepath.Join(dir, quarantined)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, name), filepath.Join(to, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncFolder(dir)
}

// emptyQuarantine removes every file that was set aside: words that are deleted
// now may be in them.
func emptyQuarantine(dir string) error {
	if err := os.RemoveAll(filepath.Join(dir, quarantined)); err != nil {
		return fmt.Errorf("empty the quarantine: %w", err)
	}
	return nil
}

// usable reports why files cannot be kept in the folder; nil when they can.
func usable(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	probe, err := os.CreateTemp(dir, "probe-*"+tempSuffix)
	if err != nil {
		return err
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// eraseFolder removes every file of postings, those that were set aside
// included. A path on which there is no folder holds none.
func eraseFolder(dir string) error {
	if info, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || err == nil && !info.IsDir() {
		return nil
	}
	_, err := sweep(dir, nil, fileSuffix)
	return errors.Join(err, emptyQuarantine(dir))
}

// sweep removes what no generation names: files that a killed process had begun
// or not yet published, or that another version left. It touches nothing but files
// whose names are of our making, with one of the suffixes, and returns theirs.
func sweep(dir string, named map[string]bool, suffixes ...string) (removed []string, err error) {
	items, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		name := item.Name()
		if !item.Type().IsRegular() || named[name] || !ownName(name, suffixes) {
			continue
		}
		if err := removeName(dir, name); err != nil {
			return removed, err
		}
		removed = append(removed, name)
	}
	return removed, nil
}

// ownName reports whether a name is one that files of ours have: an address of 64
// lower-case hexadecimal digits with one of the suffixes, or what such a file, a
// manifest or a catalog is called while it is written.
func ownName(name string, suffixes []string) bool {
	if of, written := strings.CutSuffix(name, tempSuffix); written {
		for _, prefix := range []string{"new-", "part-", "probe-"} {
			if number, ok := strings.CutPrefix(of, prefix); ok {
				return number != "" && strings.Trim(number, "0123456789") == ""
			}
		}
		if of == manifestName || of == catalogName {
			return true
		}
		name = of
	}
	return slices.ContainsFunc(suffixes, func(suffix string) bool {
		address, ok := strings.CutSuffix(name, suffix)
		return ok && len(address) == 2*sha256.Size && strings.Trim(address, "0123456789abcdef") == ""
	})
}
