#ifndef POWERCUT_SHIM_H
#define POWERCUT_SHIM_H

#include <stdint.h>
#include "abi.h"

/* The calls that a fault can refuse; Operation in Go. */
enum { POWERCUT_WRITE, POWERCUT_TRUNCATE, POWERCUT_SYNC, POWERCUT_DELETE };

/* Registers a VFS under name, over the platform's default one, whose calls report to the disk. NULL: no default VFS, no
** memory, or the name is refused. */
sqlite3_vfs *powercut_register(const char *name, uintptr_t disk);

/* Unregisters and frees. No file of the VFS may be open. */
void powercut_unregister(sqlite3_vfs *vfs);

#endif
