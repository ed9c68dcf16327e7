package sqlite_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recalld/memory"
	"recalld/sqlite"
)

// TestOpenCreates: a new file has the page size, journal and marks of the truth,
// and keeps its identity.
// DECISIONS 8, DECISIONS 13
func TestOpenCreates(t *testing.T) {
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	id := s.TruthID()
	if len(id) != 32 || s.SchemaVersion() != 2 || s.Path() != path || s.ReadOnly() {
		t.Errorf("%q, schema %d", id, s.SchemaVersion())
	}
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "x"})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	header, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if size := binary.BigEndian.Uint16(header[16:]); size != 16384 {
		t.Errorf("the page size is %d", size)
	}
	if header[18] != 2 || header[19] != 2 {
		t.Error("the file is not in write-ahead mode")
	}
	if app := binary.BigEndian.Uint32(header[68:]); app != 0x72636c64 {
		t.Errorf("the application id is %x", app)
	}
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the log is still there: %v", err)
	}
	if again := reopen(t, path, sqlite.Options{}); again.TruthID() != id {
		t.Errorf("%q became %q", id, again.TruthID())
	}
}

// TestOpenRefuses: each kind of unusable file has its own error, which names the
// next step, and stays as it was.
// DECISIONS 13, RR-010
func TestOpenRefuses(t *testing.T) {
	damage := func(change func(b []byte) []byte) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, change(b), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		prepare func(t *testing.T, path string)
		want    error
		says    string
	}{
		"not a database":        {damage(func([]byte) []byte { return []byte(strings.Repeat("hello", 1000)) }), memory.ErrCorrupt, "recalld restore"},
		"half a file":           {damage(func(b []byte) []byte { return b[:len(b)/2] }), memory.ErrCorrupt, "recalld restore"},
		"shorter than a header": {damage(func(b []byte) []byte { return b[:50] }), memory.ErrCorrupt, "recalld restore"},
		"damaged schema":        {damage(func(b []byte) []byte { copy(b[100:16384], make([]byte, 16284)); return b }), memory.ErrCorrupt, "recalld restore"},
		"damaged root page":     {damage(func(b []byte) []byte { copy(b[2*16384:], strings.Repeat("\xee", 20*16384)); return b }), memory.ErrCorrupt, "recalld restore"},
		"newer schema": {func(t *testing.T, path string) {
			foreign(t, path, "PRAGMA user_version = 3", "UPDATE instance SET value = 3 WHERE name = 'min_reader_version'")
		}, memory.ErrTooNew, "newer recalld"},
		"another program's": {func(t *testing.T, path string) { foreign(t, path, "PRAGMA application_id = 1") }, memory.ErrCorrupt, "another program"},
		"no truth id":       {func(t *testing.T, path string) { foreign(t, path, "DELETE FROM instance WHERE name = 'truth_id'") }, memory.ErrCorrupt, "recalld restore"},
		"a folder": {func(t *testing.T, path string) {
			if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
				t.Fatal(err)
			}
		}, memory.ErrInvalid, "recall.db"},
	} {
		t.Run(name, func(t *testing.T) {
			s, path := openStore(t, sqlite.Options{})
			store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "x"})
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			c.prepare(t, path)
			before, _ := os.ReadFile(path)
			for _, readOnly := range []bool{false, true} {
				s, err := sqlite.Open(context.Background(), path, sqlite.Options{ReadOnly: readOnly})
				if err == nil {
					s.Close()
				}
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
					t.Errorf("read-only %v: %v", readOnly, err)
				}
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
}

// TestOpenOldProgramReads: a newer file whose min_reader_version allows it can be
// read, and not written.
// DECISIONS 8
func TestOpenOldProgramReads(t *testing.T) {
	s, path := openStore(t, sqlite.Options{})
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "x"})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	foreign(t, path, "PRAGMA user_version = 9", "UPDATE instance SET value = '1' WHERE name = 'min_reader_version'")
	if _, err := sqlite.Open(context.Background(), path, sqlite.Options{}); !errors.Is(err, memory.ErrTooNew) {
		t.Error(err)
	}
	s = reopen(t, path, sqlite.Options{ReadOnly: true})
	if got := recall(t, s, "a", mem(1)); len(got) != 1 {
		t.Error(got)
	}
	foreign(t, path, "UPDATE instance SET value = '9' WHERE name = 'min_reader_version'")
	if _, err := sqlite.Open(context.Background(), path, sqlite.Options{ReadOnly: true}); !errors.Is(err, memory.ErrTooNew) {
		t.Error(err)
	}
}

// TestReadOnly: reads work, every write answers ErrReadOnly, and the file stays
// byte for byte.
func TestReadOnly(t *testing.T) {
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	m := model(t, s, 1)
	store(t, s, sqlite.NewMemory{Cell: cell("a", "p", ""), Content: "the needle is here", Vector: []float32{1}, Model: m})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s = reopen(t, path, sqlite.Options{ReadOnly: true})
	ctx := context.Background()
	if !s.ReadOnly() {
		t.Error("it can be written")
	}
	v := view(t, s)
	if found, _, err := v.MatchFTS(memory.Scope{Agent: "a"}, memory.KindMemory, sqlite.BuildFTSQuery("needle"), 5, ""); err != nil || len(found) != 1 {
		t.Error(found, err)
	}
	if n, err := v.Unindexed(); n != 0 || err != nil {
		t.Error(n, err)
	}
	v.Close()
	for name, write := range map[string]func() error{
		"store":   func() error { _, err := s.StoreMemories(ctx, []sqlite.NewMemory{{}}); return err },
		"episode": func() error { _, err := s.StoreEpisodes(ctx, []sqlite.NewEpisode{{}}); return err },
		"update":  func() error { _, err := s.Update(ctx, "a", mem(1), sqlite.Patch{}); return err },
		"delete":  func() error { _, err := s.Delete(ctx, "a", []memory.Ref{mem(1)}); return err },
		"profile": func() error { _, err := s.PutProfile(ctx, memory.Profile{Agent: "a", Content: "x"}); return err },
		"setting": func() error { return s.SetSetting(ctx, "a", "b") },
		"vacuum":  func() error { return s.Vacuum(ctx, nil) },
		"recalls": func() error {
			return s.AddRecalls(ctx, []sqlite.Recalls{{Ref: mem(1), Count: 1, Last: memory.TimeOf(fixed())}})
		},
		"vectors":  func() error { _, err := s.PutVectors(ctx, nil); return err },
		"trimming": func() error { return s.TrimChanges(ctx, 1) },
	} {
		if err := write(); !errors.Is(err, memory.ErrReadOnly) {
			t.Errorf("%s: %v", name, err)
		}
	}
	sound(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the file was changed: %v", err)
	}
	if _, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "none.db"), sqlite.Options{ReadOnly: true}); !errors.Is(err, memory.ErrNotFound) {
		t.Error(err)
	}
}

// TestDiskFull: a store that does not fit answers ErrFull and changes nothing;
// reads go on, and so do writes once there is room.
func TestDiskFull(t *testing.T) {
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	ctx := context.Background()
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "before"})
	if err := s.Limit(ctx, 55); err != nil {
		t.Fatal(err)
	}
	full := 0
	for i := range 40 {
		items := []sqlite.NewMemory{{Cell: cell("a", "", ""), Content: fmt.Sprint("small ", i)}, {Cell: cell("a", "", ""), Content: strings.Repeat(fmt.Sprint("large ", i), 10_000)}}
		r, err := s.StoreMemories(ctx, items)
		if err != nil {
			if !errors.Is(err, memory.ErrFull) || r != nil {
				t.Fatal(r, err)
			}
			full++
		}
	}
	if full == 0 || full == 40 {
		t.Fatalf("%d of 40 did not fit", full)
	}
	st, err := s.Stats(ctx)
	if err != nil || st.Memories != int64(1+2*(40-full)) {
		t.Errorf("%d memories after %d refusals, %v", st.Memories, full, err)
	}
	if got := recall(t, s, "a", mem(1)); len(got) != 1 {
		t.Errorf("reads stopped: %v", got)
	}
	if err := s.Limit(ctx, 1<<30); err != nil {
		t.Fatal(err)
	}
	if r := store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "after"}); r[0].Outcome != sqlite.OutcomeStored {
		t.Error(r)
	}
	sound(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	sound(t, reopen(t, path, sqlite.Options{}))
}

// TestForeignWriter: another program's writes are noticed, reported, and seen.
// DECISIONS 13
func TestForeignWriter(t *testing.T) {
	noticed := make(chan bool, 10)
	s, path := openStore(t, sqlite.Options{Clock: fixed, OnForeignWrite: func() { noticed <- true }})
	ctx := context.Background()
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "ours"})
	v := view(t, s) // the index is up to date
	v.Close()
	for range 5 { // our own writes are not foreign
		store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "ours"})
	}
	if st, err := s.Stats(ctx); err != nil || st.ForeignWrites != 0 || len(noticed) != 0 {
		t.Fatalf("%+v, %v", st, err)
	}
	foreign(t, path, `INSERT INTO memory (cell, pool, digest, message_id, version, locked, time_offset, created, created_offset, updated, updated_offset, source_type, source_id, source_name, content)
		SELECT cell, pool, x'00', '', 1, 0, 0, 0, 0, 0, 0, '', '', '', 'a foreign text' FROM memory`)
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "ours again"})
	if st, err := s.Stats(ctx); err != nil || st.ForeignWrites != 1 || len(noticed) != 1 || st.Memories != 3 {
		t.Errorf("%+v, %v", st, err)
	}
	v = view(t, s)
	defer v.Close()
	if found, _, err := v.MatchFTS(memory.Scope{Agent: "a"}, memory.KindMemory, sqlite.BuildFTSQuery("foreign"), 5, ""); err != nil || len(found) != 1 {
		t.Errorf("%v, %v", found, err)
	}
	sound(t, s, "foreign_writer", "digests")
}

// TestClosed: a closed store answers ErrClosed.
func TestClosed(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.View(context.Background()); !errors.Is(err, sqlite.ErrClosed) {
		t.Error(err)
	}
	if err := s.SetSetting(context.Background(), "a", "b"); !errors.Is(err, sqlite.ErrClosed) {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestCancelled: a cancelled request is not begun, and a cancelled read stops.
func TestCancelled(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Readers: 1})
	ctx, cancel := context.WithCancel(context.Background())
	v, err := s.View(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := v.Cells(memory.Scope{Agent: "a"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := s.View(ctx); !errors.Is(err, context.Canceled) { // the only reader is taken
		t.Error(err)
	}
	v.Close()
	if _, err := s.StoreMemories(ctx, []sqlite.NewMemory{{Cell: cell("a", "", ""), Content: "x"}}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if st, err := s.Stats(context.Background()); err != nil || st.Memories != 0 {
		t.Errorf("%+v, %v", st, err)
	}
}
