//go:build cgo && (linux || darwin)

package powercut

/*
#cgo darwin LDFLAGS: -Wl,-undefined,dynamic_lookup
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/cgo"
	"slices"
	"strings"
	"sync"
	"unsafe"

	_ "github.com/mattn/go-sqlite3" // defines the SQLite that the VFS is registered with
)

// Disk is one folder seen through a recording VFS of its own. Its methods may be called from any goroutine; disks are
// independent of each other.
type Disk struct {
	root   string
	name   string
	vfs    *C.sqlite3_vfs
	handle cgo.Handle

	mu     sync.Mutex
	log    Log
	opened int64           // files opened so far
	files  map[int64]*file // open now
	lying  bool
	faults []*Fault
}

// file is one open handle.
type file struct {
	path       string // "" for a file without a name
	syncFolder bool   // the next sync covers the folder
}

// Open registers a VFS for the existing folder root. What root holds is taken as durable, and read into memory; no
// file of it may be open.
func Open(root string) (*Disk, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("open power-cut disk: %w", err)
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return nil, fmt.Errorf("open power-cut disk: %w", err)
	}
	d := &Disk{root: root, files: map[int64]*file{}}
	if d.log.folders, d.log.files, err = read(root); err != nil {
		return nil, fmt.Errorf("open power-cut disk: %w", err)
	}
	d.handle = cgo.NewHandle(d)
	d.name = fmt.Sprintf("powercut-%d", d.handle)
	name := C.CString(d.name)
	defer C.free(unsafe.Pointer(name))
	if d.vfs = C.powercut_register(name, C.uintptr_t(d.handle)); d.vfs == nil {
		d.handle.Delete()
		return nil, errors.New("open power-cut disk: SQLite does not accept the VFS")
	}
	return d, nil
}

// read returns the folders and regular files below root. A wal-index is left out: it has no meaning after a cut.
func read(root string) (folders []string, files map[string][]byte, err error) {
	files = map[string][]byte{}
	err = filepath.WalkDir(root, func(p string, entry fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		relative, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		switch {
		case entry.IsDir():
			folders = append(folders, relative)
		case entry.Type().IsRegular() && !strings.HasSuffix(p, "-shm"):
			files[relative], err = os.ReadFile(p)
		}
		return err
	})
	return folders, files, err
}

// Name is the VFS's name, for the vfs parameter of a data source name. It is unique in the process.
func (d *Disk) Name() string { return d.name }

// Mark records that the caller has been told that what id stands for is durable. Call it after the acknowledgement.
func (d *Disk) Mark(id int64) { d.record(op{kind: acknowledged, mark: id}) }

// Log returns the record so far.
func (d *Disk) Log() *Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &Log{folders: d.log.folders, files: d.log.files, ops: slices.Clip(d.log.ops)}
}

// Inject adds a fault. Each call is shown to the faults in the order of their injection until one refuses it.
func (d *Disk) Inject(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, &f)
}

// LieAboutSyncs makes every later sync, of files and folders, succeed without effect.
func (d *Disk) LieAboutSyncs() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lying = true
}

// Heal removes all faults and makes syncs honest again.
func (d *Disk) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults, d.lying = nil, false
}

// Close unregisters the VFS. It refuses while SQLite has files open in it.
func (d *Disk) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.vfs == nil {
		return nil
	}
	if n := len(d.files); n > 0 {
		return fmt.Errorf("close power-cut disk %s: %d files are open; close their databases first", d.name, n)
	}
	C.powercut_unregister(d.vfs)
	d.handle.Delete()
	d.vfs = nil
	return nil
}

func (d *Disk) record(o op) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log.ops = append(d.log.ops, o)
}

// inside turns SQLite's absolute name into a path of the log.
func (d *Disk) inside(name string) (string, bool) {
	below, found := strings.CutPrefix(name, d.root+string(filepath.Separator))
	return filepath.ToSlash(below), found
}

// allow decides the fate of one call. Files without a name never fail.
func (d *Disk) allow(operation Operation, path string) (Failure, bool) {
	if path == "" {
		return 0, true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.faults {
		if f.trigger(operation, path) {
			return f.Failure, false
		}
	}
	return 0, true
}
