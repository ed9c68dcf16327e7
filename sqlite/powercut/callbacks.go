//go:build cgo && (linux || darwin)

package powercut

// #include "shim.h"
import "C"

import (
	"runtime/cgo"
	"unsafe"
)

// The functions below are called by shim.c, from whichever thread runs SQLite.

func diskOf(handle C.uintptr_t) *Disk { return cgo.Handle(handle).Value().(*Disk) }

//export powercutMayOpen
func powercutMayOpen(disk C.uintptr_t, name *C.char) C.int {
	if _, found := diskOf(disk).inside(C.GoString(name)); !found {
		return C.SQLITE_CANTOPEN
	}
	return C.SQLITE_OK
}

//export powercutOpened
func powercutOpened(disk C.uintptr_t, name *C.char, flags C.int) C.longlong {
	const journals = C.SQLITE_OPEN_MAIN_JOURNAL | C.SQLITE_OPEN_SUPER_JOURNAL | C.SQLITE_OPEN_WAL
	d := diskOf(disk)
	f := &file{}
	if name != nil {
		f.path, _ = d.inside(C.GoString(name))
		f.syncFolder = flags&C.SQLITE_OPEN_CREATE != 0 && flags&journals != 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opened++
	d.files[d.opened] = f
	if f.path != "" {
		d.log.ops = append(d.log.ops, op{kind: opened, file: d.opened, path: f.path})
	}
	return C.longlong(d.opened)
}

//export powercutClosed
func powercutClosed(disk C.uintptr_t, handle C.longlong) {
	d := diskOf(disk)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.files, int64(handle))
}

//export powercutAllow
func powercutAllow(disk C.uintptr_t, handle C.longlong, operation C.int) C.int {
	d := diskOf(disk)
	return refusal(d, Operation(operation), d.path(int64(handle)))
}

//export powercutMayDelete
func powercutMayDelete(disk C.uintptr_t, name *C.char) C.int {
	d := diskOf(disk)
	path, found := d.inside(C.GoString(name))
	if !found {
		return C.SQLITE_IOERR_DELETE
	}
	return refusal(d, Delete, path)
}

func refusal(d *Disk, operation Operation, path string) C.int {
	failure, allowed := d.allow(operation, path)
	switch {
	case allowed:
		return C.SQLITE_OK
	case failure == DiskFull:
		return C.SQLITE_FULL
	}
	return [...]C.int{
		Write: C.SQLITE_IOERR_WRITE, Truncate: C.SQLITE_IOERR_TRUNCATE,
		Sync: C.SQLITE_IOERR_FSYNC, Delete: C.SQLITE_IOERR_DELETE,
	}[operation]
}

//export powercutWrote
func powercutWrote(disk C.uintptr_t, handle C.longlong, bytes unsafe.Pointer, n C.int, offset C.longlong) {
	if d := diskOf(disk); d.path(int64(handle)) != "" {
		d.record(op{kind: wrote, file: int64(handle), offset: int64(offset), bytes: C.GoBytes(bytes, n)})
	}
}

//export powercutTruncated
func powercutTruncated(disk C.uintptr_t, handle C.longlong, size C.longlong) {
	if d := diskOf(disk); d.path(int64(handle)) != "" {
		d.record(op{kind: truncated, file: int64(handle), offset: int64(size)})
	}
}

//export powercutSynced
func powercutSynced(disk C.uintptr_t, handle C.longlong) {
	d := diskOf(disk)
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[int64(handle)]
	if f.path == "" || d.lying {
		return
	}
	d.log.ops = append(d.log.ops, op{kind: synced, file: int64(handle), path: f.path, folder: f.syncFolder})
	f.syncFolder = false
}

//export powercutDeleted
func powercutDeleted(disk C.uintptr_t, name *C.char, syncFolder C.int) {
	d := diskOf(disk)
	path, _ := d.inside(C.GoString(name))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log.ops = append(d.log.ops, op{kind: deleted, path: path, folder: syncFolder != 0 && !d.lying})
}

// path returns the path of an open file, "" for one without a name.
func (d *Disk) path(handle int64) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files[handle].path
}
