//go:build cgo && (linux || darwin)

/* The VFS itself: every call goes to the platform's VFS; those that change what is stored are reported to Go. */
#include <stdlib.h>
#include <string.h>
#include "shim.h"
#include "_cgo_export.h"

typedef struct {
  sqlite3_vfs base;
  sqlite3_vfs *real;
  uintptr_t disk;
} shim_vfs;

typedef struct {
  sqlite3_file base;
  sqlite3_file *real; /* lies behind this struct, in the memory that SQLite allotted */
  uintptr_t disk;
  long long file;     /* the disk's number for this handle */
} shim_file;

#define REAL_FILE(f) (((shim_file*)(f))->real)
#define REAL_VFS(v) (((shim_vfs*)(v))->real)

static int file_close(sqlite3_file *f){
  shim_file *s = (shim_file*)f;
  int rc = s->real->pMethods->xClose(s->real);
  powercutClosed(s->disk, s->file);
  return rc;
}

static int file_read(sqlite3_file *f, void *buf, int n, sqlite3_int64 at){
  return REAL_FILE(f)->pMethods->xRead(REAL_FILE(f), buf, n, at);
}

static int file_write(sqlite3_file *f, const void *buf, int n, sqlite3_int64 at){
  shim_file *s = (shim_file*)f;
  int rc = powercutAllow(s->disk, s->file, POWERCUT_WRITE);
  if( rc==SQLITE_OK ) rc = s->real->pMethods->xWrite(s->real, buf, n, at);
  if( rc==SQLITE_OK ) powercutWrote(s->disk, s->file, (void*)buf, n, at);
  return rc;
}

static int file_truncate(sqlite3_file *f, sqlite3_int64 size){
  shim_file *s = (shim_file*)f;
  int rc = powercutAllow(s->disk, s->file, POWERCUT_TRUNCATE);
  if( rc==SQLITE_OK ) rc = s->real->pMethods->xTruncate(s->real, size);
  if( rc==SQLITE_OK ) powercutTruncated(s->disk, s->file, size);
  return rc;
}

static int file_sync(sqlite3_file *f, int flags){
  shim_file *s = (shim_file*)f;
  int rc = powercutAllow(s->disk, s->file, POWERCUT_SYNC);
  (void)flags;
  if( rc==SQLITE_OK ) powercutSynced(s->disk, s->file);
  return rc;
}

static int file_size(sqlite3_file *f, sqlite3_int64 *size){
  return REAL_FILE(f)->pMethods->xFileSize(REAL_FILE(f), size);
}

static int file_lock(sqlite3_file *f, int level){
  return REAL_FILE(f)->pMethods->xLock(REAL_FILE(f), level);
}

static int file_unlock(sqlite3_file *f, int level){
  return REAL_FILE(f)->pMethods->xUnlock(REAL_FILE(f), level);
}

static int file_check_reserved(sqlite3_file *f, int *out){
  return REAL_FILE(f)->pMethods->xCheckReservedLock(REAL_FILE(f), out);
}

static int file_control(sqlite3_file *f, int op, void *arg){
  /* Both would grow the file without a write. */
  if( op==SQLITE_FCNTL_SIZE_HINT || op==SQLITE_FCNTL_CHUNK_SIZE ) return SQLITE_NOTFOUND;
  return REAL_FILE(f)->pMethods->xFileControl(REAL_FILE(f), op, arg);
}

static int file_sector_size(sqlite3_file *f){
  return REAL_FILE(f)->pMethods->xSectorSize(REAL_FILE(f));
}

static int file_characteristics(sqlite3_file *f){
  /* No other promise of the platform's file system holds in the model. */
  return REAL_FILE(f)->pMethods->xDeviceCharacteristics(REAL_FILE(f)) & SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static int file_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **out){
  return REAL_FILE(f)->pMethods->xShmMap(REAL_FILE(f), page, size, extend, out);
}

static int file_shm_lock(sqlite3_file *f, int offset, int n, int flags){
  return REAL_FILE(f)->pMethods->xShmLock(REAL_FILE(f), offset, n, flags);
}

static void file_shm_barrier(sqlite3_file *f){
  REAL_FILE(f)->pMethods->xShmBarrier(REAL_FILE(f));
}

static int file_shm_unmap(sqlite3_file *f, int remove){
  return REAL_FILE(f)->pMethods->xShmUnmap(REAL_FILE(f), remove);
}

#define VERSION_1_METHODS \
  file_close, file_read, file_write, file_truncate, file_sync, file_size, file_lock, file_unlock, \
  file_check_reserved, file_control, file_sector_size, file_characteristics

static const sqlite3_io_methods without_shm = { 1, VERSION_1_METHODS, 0, 0, 0, 0, 0, 0 };
static const sqlite3_io_methods with_shm = {
  2, VERSION_1_METHODS, file_shm_map, file_shm_lock, file_shm_barrier, file_shm_unmap, 0, 0
};

static int vfs_open(sqlite3_vfs *v, sqlite3_filename name, sqlite3_file *f, int flags, int *out){
  shim_vfs *vfs = (shim_vfs*)v;
  shim_file *s = (shim_file*)f;
  /* A file that does not outlive its handle is nothing to a power cut. */
  int recorded = name!=0 && !(flags & SQLITE_OPEN_DELETEONCLOSE);
  int rc;
  memset(s, 0, sizeof(*s));
  s->real = (sqlite3_file*)&s[1];
  s->disk = vfs->disk;
  if( recorded ){
    rc = powercutMayOpen(vfs->disk, (char*)name);
    if( rc!=SQLITE_OK ) return rc;
  }
  rc = vfs->real->xOpen(vfs->real, name, s->real, flags, out);
  if( rc!=SQLITE_OK ){
    if( s->real->pMethods ) s->real->pMethods->xClose(s->real);
    return rc;
  }
  s->file = powercutOpened(vfs->disk, recorded ? (char*)name : 0, flags);
  s->base.pMethods = s->real->pMethods->iVersion>=2 ? &with_shm : &without_shm;
  return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *v, const char *name, int sync_folder){
  shim_vfs *vfs = (shim_vfs*)v;
  int rc = powercutMayDelete(vfs->disk, (char*)name);
  if( rc==SQLITE_OK ) rc = vfs->real->xDelete(vfs->real, name, 0);
  if( rc==SQLITE_OK ) powercutDeleted(vfs->disk, (char*)name, sync_folder);
  return rc;
}

static int vfs_access(sqlite3_vfs *v, const char *name, int flags, int *out){
  return REAL_VFS(v)->xAccess(REAL_VFS(v), name, flags, out);
}

static int vfs_full_pathname(sqlite3_vfs *v, const char *name, int n, char *out){
  return REAL_VFS(v)->xFullPathname(REAL_VFS(v), name, n, out);
}

static void *vfs_dl_open(sqlite3_vfs *v, const char *name){
  return REAL_VFS(v)->xDlOpen(REAL_VFS(v), name);
}

static void vfs_dl_error(sqlite3_vfs *v, int n, char *out){
  REAL_VFS(v)->xDlError(REAL_VFS(v), n, out);
}

static void (*vfs_dl_sym(sqlite3_vfs *v, void *library, const char *name))(void){
  return REAL_VFS(v)->xDlSym(REAL_VFS(v), library, name);
}

static void vfs_dl_close(sqlite3_vfs *v, void *library){
  REAL_VFS(v)->xDlClose(REAL_VFS(v), library);
}

static int vfs_randomness(sqlite3_vfs *v, int n, char *out){
  return REAL_VFS(v)->xRandomness(REAL_VFS(v), n, out);
}

static int vfs_sleep(sqlite3_vfs *v, int microseconds){
  return REAL_VFS(v)->xSleep(REAL_VFS(v), microseconds);
}

static int vfs_current_time(sqlite3_vfs *v, double *out){
  return REAL_VFS(v)->xCurrentTime(REAL_VFS(v), out);
}

static int vfs_last_error(sqlite3_vfs *v, int n, char *out){
  return REAL_VFS(v)->xGetLastError(REAL_VFS(v), n, out);
}

static int vfs_current_time_64(sqlite3_vfs *v, sqlite3_int64 *out){
  return REAL_VFS(v)->xCurrentTimeInt64(REAL_VFS(v), out);
}

sqlite3_vfs *powercut_register(const char *name, uintptr_t disk){
  sqlite3_vfs *real = sqlite3_vfs_find(0);
  size_t length = strlen(name) + 1;
  shim_vfs *vfs;
  char *copy;
  if( real==0 || real->iVersion<2 ) return 0;
  vfs = calloc(1, sizeof(*vfs) + length);
  if( vfs==0 ) return 0;
  copy = (char*)&vfs[1];
  memcpy(copy, name, length);
  vfs->real = real;
  vfs->disk = disk;
  vfs->base.iVersion = 2;
  vfs->base.szOsFile = (int)sizeof(shim_file) + real->szOsFile;
  vfs->base.mxPathname = real->mxPathname;
  vfs->base.zName = copy;
  vfs->base.xOpen = vfs_open;
  vfs->base.xDelete = vfs_delete;
  vfs->base.xAccess = vfs_access;
  vfs->base.xFullPathname = vfs_full_pathname;
  vfs->base.xDlOpen = vfs_dl_open;
  vfs->base.xDlError = vfs_dl_error;
  vfs->base.xDlSym = vfs_dl_sym;
  vfs->base.xDlClose = vfs_dl_close;
  vfs->base.xRandomness = vfs_randomness;
  vfs->base.xSleep = vfs_sleep;
  vfs->base.xCurrentTime = vfs_current_time;
  vfs->base.xGetLastError = vfs_last_error;
  vfs->base.xCurrentTimeInt64 = vfs_current_time_64;
  if( sqlite3_vfs_register(&vfs->base, 0)!=SQLITE_OK ){
    free(vfs);
    return 0;
  }
  return &vfs->base;
}

void powercut_unregister(sqlite3_vfs *vfs){
  sqlite3_vfs_unregister(vfs);
  free(vfs);
}
