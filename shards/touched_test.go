package shards

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// inPlace writes to a file of the folder as its owner or a failing program would,
// and leaves a time that is not that of its sealing.
func inPlace(t *testing.T, path string, write func(f *os.File, size int64) error) {
	t.Helper()
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := write(f, info.Size()); err != nil {
		t.Fatal(err)
	}
	later := info.ModTime().Add(time.Second)
	if err := os.Chtimes(path, later, later); err != nil {
		t.Fatal(err)
	}
}

// ARCHITECTURE 6, DECISIONS 30: a file that is cut or written to while it is
// being searched, its checksums long found right, gives no wrong answer: the
// answer is that of direct reading or says what it lacks, and what is damaged is
// set aside.
func TestFileWrittenToWhileOpenGivesNoWrongAnswer(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	damages := map[string]func(f *os.File, size int64) error{
		"cut inside the first page": func(f *os.File, _ int64) error { return f.Truncate(10) },
		"cut to nothing":            func(f *os.File, _ int64) error { return f.Truncate(0) },
		"cut in half":               func(f *os.File, size int64) error { return f.Truncate(size / 2) },
		"longer":                    func(f *os.File, size int64) error { return f.Truncate(size + 4096) },
		"zeros":                     func(f *os.File, size int64) error { _, err := f.WriteAt(make([]byte, size), 0); return err },
		"another file": func(f *os.File, size int64) error {
			_, err := f.WriteAt([]byte(strings.Repeat("x", int(size))), 0)
			return err
		},
	}
	for round := range 12 {
		damages[fmt.Sprint("flipped bits ", round)] = func(f *os.File, size int64) error {
			b := make([]byte, size)
			if _, err := f.ReadAt(b, 0); err != nil {
				return err
			}
			for range 20 {
				b[random.Int64N(size)] ^= 1 << random.IntN(8)
			}
			_, err := f.WriteAt(b, 0)
			return err
		}
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{DirectRows: 100})
			w.flood(cellOf("mia"), 300, words)
			w.flood(cellOf("ken"), 50, words)
			w.flood(cellOf("林"), 200, words)
			if err := w.index.Seal(context.Background()); err != nil {
				t.Fatal(err)
			}
			ask := func() {
				for _, agent := range []string{"mia", "ken", "林"} {
					for i := range 4 {
						w.same(agent, words(i)) // fails unless it is what direct reading gives
					}
				}
			}
			ask()
			sealed := w.index.files[0].Name
			inPlace(t, filepath.Join(w.opts.Folder, sealed), damage)
			ask()
			w.say(cellOf("mia"), "s", "the harbor after the damage")
			ask()
			w.settled()
			ask()
			if a := w.same("mia", "harbor lantern"); a.NotBuilt > 0 || len(a.Hits) == 0 {
				t.Errorf("after building: %d hits, %d not built", len(a.Hits), a.NotBuilt)
			}
			if _, err := os.Stat(filepath.Join(w.opts.Folder, quarantined, sealed)); err != nil {
				t.Errorf("the damaged file is not kept: %v", err)
			}
		})
	}
}

// DECISIONS 30: damage is noticed without a search, too.
func TestFileWrittenToIsNoticedWithoutASearch(t *testing.T) {
	w := newWorld(t, Options{})
	w.flood(cellOf("mia"), 300, words)
	if err := w.index.Seal(context.Background()); err != nil {
		t.Fatal(err)
	}
	sealed := w.index.files[0].Name
	inPlace(t, filepath.Join(w.opts.Folder, sealed), func(f *os.File, _ int64) error { return f.Truncate(10) })
	w.eventually("the file is set aside", func() bool {
		_, err := os.Stat(filepath.Join(w.opts.Folder, quarantined, sealed))
		return err == nil
	})
}

// DECISIONS 30: a file that was written to without being changed is verified and
// stays in use; one that is removed by name stays in use as well.
func TestFileThatIsStillRightStaysInUse(t *testing.T) {
	w := newWorld(t, Options{DirectRows: 1})
	w.flood(cellOf("mia"), 300, words)
	if err := w.index.Seal(context.Background()); err != nil {
		t.Fatal(err)
	}
	sealed := w.index.files[0]
	path := filepath.Join(w.opts.Folder, sealed.Name)
	inPlace(t, path, func(*os.File, int64) error { return nil })
	if err := intact([]*file{sealed}); err == nil {
		t.Error("the file counts as not written to")
	}
	for _, change := range []func(string) error{
		func(string) error { return nil },
		os.Remove,
		func(path string) error { return os.WriteFile(path, []byte("not postings"), 0o600) },
	} {
		if err := change(path); err != nil {
			t.Fatal(err)
		}
		if a := w.same("mia", "harbor lantern"); a.NotBuilt > 0 || len(a.Hits) == 0 {
			t.Errorf("%d hits, %d not built", len(a.Hits), a.NotBuilt)
		}
	}
	if len(w.index.files) != 1 || w.index.files[0] != sealed {
		t.Error("the file was set aside")
	}
}

// DECISIONS 30: no new file is made from one that was written to, whose checksums
// would vouch for what is wrong.
func TestNothingIsMergedFromAFileWrittenTo(t *testing.T) {
	w := newWorld(t, Options{})
	ctx := context.Background()
	for i := range 2 { // files of one cell, which is coded anew
		w.flood(cellOf("mia"), 300, func(n int) string { return words(300*i + n) })
		if err := w.index.Seal(ctx); err != nil {
			t.Fatal(err)
		}
		w.same("mia", "harbor lantern")
	}
	if n := len(w.index.files); n != 2 {
		t.Fatalf("%d files, want 2", n)
	}
	path := filepath.Join(w.opts.Folder, w.index.files[0].Name)
	inPlace(t, path, func(f *os.File, size int64) error {
		b := make([]byte, size)
		if _, err := f.ReadAt(b, 0); err != nil {
			return err
		}
		at := bytes.Index(b, []byte("lantern"))
		if at < 0 {
			t.Fatal("the word is not in the file")
		}
		_, err := f.WriteAt([]byte("lantero"), int64(at))
		return err
	})
	if err := w.index.publish(ctx, false, func(all []*file) []*file { return all }); err != nil && !errors.Is(err, errWrittenTo) {
		t.Fatal(err)
	}
	w.same("mia", "harbor lantern")
	if err := w.index.Erase(ctx); err != nil { // the quarantine
		t.Fatal(err)
	}
	if in := bytesBelow(t, w.opts.Folder, "lantero"); len(in) > 0 {
		t.Errorf("what was written is in %v", in)
	}
	w.settled()
	if a := w.same("mia", "lantern"); len(a.Hits) == 0 || a.NotBuilt > 0 {
		t.Errorf("%d hits, %d not built", len(a.Hits), a.NotBuilt)
	}
}
