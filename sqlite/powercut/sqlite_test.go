//go:build cgo && (linux || darwin)

package powercut

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mattn/go-sqlite3"
)

// body is the content of row id: rows of all sizes, some over several pages.
func body(id int64) []byte {
	return bytes.Repeat([]byte(fmt.Sprintf("row %d 記憶 记忆 ", id)), 1+int(id*id%700))
}

func openDatabase(t *testing.T, disk *Disk, file, settings string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+file+"?vfs="+disk.Name()+"&_busy_timeout=60000&_txlock=immediate&"+settings)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("PRAGMA wal_autocheckpoint=12; CREATE TABLE IF NOT EXISTS rows(id INTEGER PRIMARY KEY, body BLOB)"); err != nil {
		t.Fatal(err)
	}
	return db
}

// storeRows writes three times 60 rows through three connections at once, closing the database in between, and marks each
// row once its commit returned.
func storeRows(t *testing.T, disk *Disk, file, settings string) {
	t.Helper()
	var next atomic.Int64
	for range 3 {
		var writers sync.WaitGroup
		for range 3 {
			db := openDatabase(t, disk, file, settings)
			writers.Go(func() {
				for range 20 {
					id := next.Add(1)
					if _, err := db.Exec("INSERT INTO rows VALUES(?, ?)", id, body(id)); err != nil {
						t.Errorf("store row %d: %v", id, err)
						return
					}
					disk.Mark(id)
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		writers.Wait()
	}
}

// verdict is what opening crash images showed.
type verdict struct {
	cuts, acknowledged, unsynced, damaged int
	lost                                  int // acknowledged rows that are not there
	corrupt                               int // images that SQLite cannot read or whose integrity check fails
}

// TestImage: the folder that is written is the image, sub-folders and bystanders included.
func TestImage(t *testing.T) {
	root := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "sub", "empty"), 0o700),
		os.WriteFile(filepath.Join(root, "sub", "other"), []byte("kept"), 0o600),
		os.WriteFile(filepath.Join(root, "a.db-shm"), []byte("wal-index"), 0o600)); err != nil {
		t.Fatal(err)
	}
	disk, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := disk.Close(); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "new", "image")
	if _, err := disk.Log().Replay().Crash(seeded(1), 0, target); err != nil {
		t.Fatal(err)
	}
	folders, files, err := read(target)
	if err != nil || !slices.Equal(folders, []string{"sub", "sub/empty"}) || len(files) != 1 || string(files["sub/other"]) != "kept" {
		t.Errorf("folders %q, files %q, %v", folders, files, err)
	}
	if _, err := os.Stat(filepath.Join(target, "a.db-shm")); err == nil {
		t.Error("the wal-index is in the image")
	}
}

// crashTest opens one image per cut with the ordinary VFS.
func crashTest(t *testing.T, l *Log, rng *rand.Rand, cuts int) (v verdict) {
	t.Helper()
	replay, folder := l.Replay(), filepath.Join(t.TempDir(), "image")
	for _, cut := range l.Cuts(rng, cuts) {
		image, err := replay.Crash(rng, cut, folder)
		if err != nil {
			t.Fatal(err)
		}
		missing, err := inspect(filepath.Join(folder, "a.db"), image.Acknowledged)
		if err != nil {
			v.corrupt++
		}
		v.cuts++
		v.acknowledged += len(image.Acknowledged)
		v.unsynced += image.Unsynced
		v.damaged += image.Damaged
		v.lost += missing
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d operations: %+v", l.Len(), v)
	return v
}

// inspect counts the acknowledged rows that are missing; an error means corruption, and then all of them are.
func inspect(file string, acknowledged []int64) (missing int, err error) {
	found := map[int64]bool{}
	defer func() {
		for _, id := range acknowledged {
			if err != nil || !found[id] {
				missing++
			}
		}
	}()
	db, err := sql.Open("sqlite3", "file:"+file+"?_synchronous=OFF")
	if err != nil {
		return 0, err
	}
	defer db.Close()
	var integrity string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&integrity); err != nil {
		return 0, err
	}
	if integrity != "ok" {
		return 0, errors.New(integrity)
	}
	rows, err := db.Query("SELECT id, body FROM rows")
	if err != nil {
		if strings.Contains(err.Error(), "no such table") {
			err = nil
		}
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var content []byte
		if err := rows.Scan(&id, &content); err != nil {
			return 0, err
		}
		if !bytes.Equal(content, body(id)) {
			return 0, fmt.Errorf("row %d has foreign bytes", id)
		}
		found[id] = true
	}
	return 0, rows.Err()
}

func openDisk(t *testing.T) (disk *Disk, file string) {
	t.Helper()
	folder := t.TempDir()
	disk, err := Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	})
	return disk, filepath.Join(folder, "a.db")
}

// TestPowerCuts: SQLite's own promises, found again. What should be safe loses nothing, and what is known to be unsafe
// loses rows, so the instrument bites on syncs, on their absence, and on folder entries.
// DECISIONS 13
func TestPowerCuts(t *testing.T) {
	for _, test := range []struct {
		settings            string
		lie                 bool
		cuts                int
		loses, mayBeCorrupt bool
	}{
		{settings: "_journal_mode=WAL&_synchronous=FULL", cuts: 400},
		{settings: "_journal_mode=WAL&_synchronous=FULL", lie: true, cuts: 60, loses: true, mayBeCorrupt: true},
		{settings: "_journal_mode=WAL&_synchronous=NORMAL", cuts: 200, loses: true},
		{settings: "_journal_mode=WAL&_synchronous=OFF", cuts: 60, loses: true, mayBeCorrupt: true},
		{settings: "_journal_mode=DELETE&_synchronous=EXTRA", cuts: 200},
		{settings: "_journal_mode=DELETE&_synchronous=FULL", cuts: 200, loses: true},
		{settings: "_journal_mode=TRUNCATE&_synchronous=FULL", cuts: 200},
	} {
		t.Run(fmt.Sprintf("%s&lie=%v", test.settings, test.lie), func(t *testing.T) {
			disk, file := openDisk(t)
			if test.lie {
				disk.LieAboutSyncs()
			}
			storeRows(t, disk, file, test.settings)
			v := crashTest(t, disk.Log(), seeded(2), test.cuts)
			if v.acknowledged == 0 || v.damaged == 0 {
				t.Error("no image tested anything")
			}
			if test.loses != (v.lost > 0) {
				t.Errorf("%d of %d acknowledged rows lost", v.lost, v.acknowledged)
			}
			if v.corrupt > 0 && !test.mayBeCorrupt {
				t.Errorf("%d of %d images are corrupt", v.corrupt, v.cuts)
			}
		})
	}
}

// TestPowerCutDuringRecovery: an image is cut again while SQLite recovers it and stores more.
// DECISIONS 13
func TestPowerCutDuringRecovery(t *testing.T) {
	const settings = "_journal_mode=WAL&_synchronous=FULL"
	first, file := openDisk(t)
	storeRows(t, first, file, settings)
	l, rng := first.Log(), seeded(3)
	replay := l.Replay()
	for round, cut := range l.Cuts(rng, 12) {
		folder := filepath.Join(t.TempDir(), "recovering")
		image, err := replay.Crash(rng, cut, folder)
		if err != nil {
			t.Fatal(err)
		}
		second, err := Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range image.Acknowledged {
			second.Mark(id)
		}
		db := openDatabase(t, second, filepath.Join(folder, "a.db"), settings)
		for id := int64(1000); id < 1010; id++ {
			if _, err := db.Exec("INSERT INTO rows VALUES(?, ?)", id, body(id)); err != nil {
				t.Fatal(err)
			}
			second.Mark(id)
		}
		if err := errors.Join(db.Close(), second.Close()); err != nil {
			t.Fatal(err)
		}
		if v := crashTest(t, second.Log(), rng, 20); v.lost > 0 || v.corrupt > 0 {
			t.Errorf("round %d: %+v", round, v)
		}
	}
}

// TestFaults: refused operations reach SQLite as the errors of a real disk, acknowledge nothing, cost nothing that was
// acknowledged, and end with Heal.
func TestFaults(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault Fault
		want  error
	}{
		{"full disk", Fault{Operation: Write, Suffix: "-wal", Failure: DiskFull}, sqlite3.ErrFull},
		{"full disk for good after some writes", Fault{Operation: Write, Skip: 40, Failure: DiskFull}, sqlite3.ErrFull},
		{"write error", Fault{Operation: Write, Suffix: "-wal", Skip: 5}, sqlite3.ErrIoErrWrite},
		{"sync error", Fault{Operation: Sync, Suffix: "-wal", Skip: 5}, sqlite3.ErrIoErrFsync},
	} {
		t.Run(test.name, func(t *testing.T) {
			const settings = "_journal_mode=WAL&_synchronous=FULL"
			disk, file := openDisk(t)
			db := openDatabase(t, disk, file, settings)
			disk.Inject(test.fault)
			var refused error
			id := int64(1)
			for ; id <= 100 && refused == nil; id++ {
				if _, refused = db.Exec("INSERT INTO rows VALUES(?, ?)", id, body(id)); refused == nil {
					disk.Mark(id)
				}
			}
			var got sqlite3.Error
			if !errors.As(refused, &got) || got.Code != test.want && got.ExtendedCode != test.want {
				t.Fatalf("after %d rows: %v, want %v", id, refused, test.want)
			}
			var rows int64
			if err := db.QueryRow("SELECT count(*) FROM rows").Scan(&rows); err != nil || rows > id {
				t.Errorf("%d rows are readable while the disk fails: %v", rows, err)
			}
			disk.Heal()
			for end := id + 10; id < end; id++ {
				if _, err := db.Exec("INSERT INTO rows VALUES(?, ?)", id, body(id)); err != nil {
					t.Fatalf("store row %d on the healed disk: %v", id, err)
				}
				disk.Mark(id)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			if v := crashTest(t, disk.Log(), seeded(4), 60); v.lost > 0 || v.corrupt > 0 {
				t.Errorf("%+v", v)
			}
		})
	}
}

// TestFaultCounts: Skip and Times choose the calls, faults are asked in order, and other operations pass.
func TestFaultCounts(t *testing.T) {
	disk, _ := openDisk(t)
	disk.Inject(Fault{Operation: Write, Suffix: "-wal", Skip: 2, Times: 2})
	disk.Inject(Fault{Operation: Write, Skip: 5, Failure: DiskFull})
	var got []string
	for range 9 {
		failure, allowed := disk.allow(Write, "a.db-wal")
		got = append(got, fmt.Sprintf("%v %d", allowed, failure))
	}
	want := []string{"true 0", "true 0", "false 0", "false 0", "true 0", "true 0", "true 0", "false 1", "false 1"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if _, allowed := disk.allow(Sync, "a.db-wal"); !allowed {
		t.Error("a write fault refused a sync")
	}
	if _, allowed := disk.allow(Write, ""); !allowed {
		t.Error("a file without a name was refused")
	}
}

// TestDiskBounds: no named file outside the folder; no closing under open files; a closed disk's name is gone.
func TestDiskBounds(t *testing.T) {
	disk, file := openDisk(t)
	outside, err := sql.Open("sqlite3", "file:"+filepath.Join(t.TempDir(), "b.db")+"?vfs="+disk.Name())
	if err != nil {
		t.Fatal(err)
	}
	var got sqlite3.Error
	if err := outside.Ping(); !errors.As(err, &got) || got.Code != sqlite3.ErrCantOpen {
		t.Errorf("a file outside the folder: %v", err)
	}
	db := openDatabase(t, disk, file, "_journal_mode=WAL")
	if err := disk.Close(); err == nil {
		t.Fatal("the disk was closed under an open database")
	}
	if err := errors.Join(db.Close(), outside.Close(), disk.Close(), disk.Close()); err != nil {
		t.Fatal(err)
	}
	gone, err := sql.Open("sqlite3", "file:"+file+"?vfs="+disk.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close()
	if err := gone.Ping(); err == nil {
		t.Error("a closed disk still answers")
	}
	if _, err := Open(filepath.Join(file, "missing")); err == nil {
		t.Error("a missing folder was opened")
	}
}
