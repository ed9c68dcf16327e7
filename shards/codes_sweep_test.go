package shards

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"recalld/layout"
)

// What another version or a killed process left under names of ours goes at the start,
// with a line in the log; files of others in the same folder stay, whatever their
// suffix, and so do the files in use.
func TestCodesThatNothingRefersToAreRemoved(t *testing.T) {
	var log bytes.Buffer
	w := newCodesWorld(t, 20, CodesOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
	w.fill(cellOf("mia"), 5)
	w.tidy()
	used := w.filesOf()
	w.closeCodes()
	log.Reset()
	address := strings.Repeat("0123456789abcdef", 4)
	left := []string{
		address + layout.FloatsSuffix, address + layout.ValuesSuffix, address + layout.SegmentSuffix,
		"new-184467.tmp", "part-7.tmp", catalogName + ".tmp",
	}
	foreign := []string{
		"embeddings.f32", "会議.bits", "notes.tmp", "new-draft.tmp", "new-.tmp", address, address + ".npy", address + ".f32.bak", address[1:] + ".f32", "0" + address + ".f32",
		strings.ToUpper(address) + ".f32", "g" + address[1:] + ".i8", address + ".postings",
	}
	for _, name := range slices.Concat(left, foreign) {
		if err := os.WriteFile(filepath.Join(w.opts.Folder, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link, inner := strings.Repeat("ab", 32)+".f32", strings.Repeat("cd", 32)+".f32"
	if err := errors.Join(os.Symlink("embeddings.f32", filepath.Join(w.opts.Folder, link)), os.MkdirAll(filepath.Join(w.opts.Folder, inner), 0o700)); err != nil {
		t.Fatal(err)
	}
	foreign = append(foreign, link)
	w.open()
	w.tidy()
	want := slices.Sorted(slices.Values(slices.Concat(used, foreign)))
	if got := w.filesOf(); !slices.Equal(got, want) {
		t.Errorf("there are\n%q, not\n%q", got, want)
	}
	if _, err := os.Stat(filepath.Join(w.opts.Folder, inner)); err != nil {
		t.Error(err)
	}
	if said := log.String(); strings.Count(said, "no generation names were removed") != 1 || !strings.Contains(said, "files=6 ") {
		t.Errorf("the log says %s", said)
	}
	w.same("mia")
}

// The same of the folder of words.
func TestPostingsThatNothingRefersToAreRemoved(t *testing.T) {
	w := newWorld(t, Options{})
	w.flood(cellOf("mia"), 20, words)
	if err := w.index.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.closeIndex()
	address := strings.Repeat("0123456789abcdef", 4)
	for _, name := range []string{address + fileSuffix, address + fileSuffix + ".tmp", "probe-12.tmp", manifestName + ".tmp", "mine.postings", "notes.tmp", address + ".f32"} {
		if err := os.WriteFile(filepath.Join(w.opts.Folder, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.open()
	items, err := os.ReadDir(w.opts.Folder)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, item := range items {
		if name := item.Name(); !slices.ContainsFunc(w.index.files, func(f *file) bool { return f.Name == name }) {
			got = append(got, name)
		}
	}
	if want := []string{address + ".f32", manifestName, "mine.postings", "notes.tmp"}; len(w.index.files) == 0 || !slices.Equal(got, want) {
		t.Errorf("beside the files in use there are %q, not %q", got, want)
	}
	w.same("mia", "pump")
}
