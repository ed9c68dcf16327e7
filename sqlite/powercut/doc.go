// Package powercut is a SQLite VFS for tests that simulates power cuts and failing disks.
//
// SIGKILL says nothing about fsync, because the kernel keeps what a dead process wrote. This package does: a [Disk]
// stands between SQLite and the platform's own VFS, carries every call out, and records each open, write,
// truncation, sync and deletion in one order. Nothing is cut while the test runs. Afterwards [Log.Replay] makes, for
// any point of the record, a folder as a power cut there could have left it, and the test opens that folder with the
// ordinary VFS and looks for everything that had been acknowledged ([Disk.Mark]) by then.
//
//	disk, err := powercut.Open(folder)
//	db, err := sql.Open("sqlite3", "file:"+path+"?vfs="+disk.Name()+"&_journal_mode=WAL&_synchronous=FULL")
//	... store; after each commit returned: disk.Mark(id) ...
//	replay := disk.Log().Replay()
//	for _, cut := range disk.Log().Cuts(rng, 2000) {
//		image, err := replay.Crash(rng, cut, newFolder)
//		... open newFolder, find every id of image.Acknowledged ...
//	}
//
// # The model
//
// What a cut leaves of a file is what its last sync before the cut covered, plus any choice from the later,
// unsynced operations:
//
//   - A write survives whole, not at all, or torn: each 512-byte sector that it touches survives or not by itself.
//     Bytes outside the written range never change (SQLite's "powersafe overwrite", which the VFS reports).
//   - Survivors apply in the order of the record or in any other order, so that of several writes to one sector any
//     may be the last. A truncation is an operation like the others.
//   - The length may have run ahead of the contents: the file then ends in zeros or in garbage.
//   - Files fare independently: one may keep everything that was unsynced and its neighbour nothing.
//   - A name is an entry of its folder. Creating and deleting become durable with the next sync of the folder, not with
//     a sync of the file; until then each name keeps any prefix of its changes, so a file may be missing and a deleted
//     one may be back. SQLite syncs the folder with the first sync of a rollback journal, super-journal or write-ahead
//     log that it opened for creation, and with a deletion that asks for it.
//   - What the folder held when the disk was opened is durable, and so are its sub-folders.
//   - A sync that returned is complete. Syncs are recorded, not carried out, which makes a run fast.
//
// How much survives differs from cut to cut (nothing, a tenth, half, nine tenths, everything), so that the extremes
// occur. The same seed, record and cuts give the same images.
//
// # Faults
//
// [Disk.Inject] makes a chosen operation fail as a full disk or with an I/O error, and [Disk.LieAboutSyncs] makes syncs
// return without effect, which is how a test shows that it would notice a loss. A failed operation changes
// nothing; a failed sync leaves its writes unsynced.
//
// # Invariants
//
//   - An operation is in the record before SQLite learns that it is done, so an acknowledgement never precedes it.
//   - A sync covers exactly the operations recorded before it, and nothing that is not in the record survives a cut.
//   - Locks and shared memory pass through: any number of connections work, also in WAL mode. Memory-mapped
//     reading, size hints and chunked growth are withheld, as they would change files behind the record.
//
// # What it refuses
//
// It opens no named file outside its folder (SQLITE_CANTOPEN). It does not see files that the program writes without
// SQLite: an image holds them as they were when the disk was opened. The wal-index (-shm) is in no image: SQLite rebuilds
// it. It is for tests, on Linux and macOS with cgo, and no production package imports it.
package powercut
