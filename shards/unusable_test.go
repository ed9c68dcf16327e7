package shards

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ARCHITECTURE 6: derived files are never needed. Where they cannot be kept, the
// index is in memory, says so, and answers in full; deletion still deletes.
func TestUnusableFolderKeepsTheIndexInMemory(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, folder string){
		"derived is a file": func(t *testing.T, folder string) {
			derived := filepath.Dir(folder)
			if err := os.RemoveAll(derived); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(derived, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"the folder is a file": func(t *testing.T, folder string) {
			if err := os.RemoveAll(folder); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(folder, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"the manifest cannot be read": func(t *testing.T, folder string) {
			// A link to itself cannot be read by anybody.
			path := filepath.Join(folder, manifestName)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(manifestName, path); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{DirectRows: 1})
			w.flood(cellOf("mia"), 300, words)
			gone := w.say(cellOf("mia"), "s", "the zanzibarite was deleted")
			if err := w.index.Seal(context.Background()); err != nil {
				t.Fatal(err)
			}
			w.closeIndex()
			spoil(t, w.opts.Folder)
			w.open()
			w.settled()
			if a := w.same("mia", "harbor lantern"); a.NotBuilt > 0 || len(a.Hits) == 0 {
				t.Errorf("%d hits, %d not built", len(a.Hits), a.NotBuilt)
			}
			if s := w.index.State(); !strings.Contains(s.Trouble, "stay in memory") {
				t.Errorf("the trouble is %q", s.Trouble)
			}
			w.delete("mia", gone)
			if err := w.index.Erase(context.Background()); err != nil {
				t.Fatal(err)
			}
			if in := bytesBelow(t, filepath.Dir(w.opts.Folder), "zanzibarit"); len(in) > 0 {
				t.Errorf("deleted words are in %v", in)
			}
			if a := w.same("mia", "zanzibarite harbor"); len(a.Hits) == 0 {
				t.Error("nothing is found after a deletion")
			}
		})
	}
}

// ARCHITECTURE 6: a folder in the place of the manifest is set aside, and files
// are kept as ever.
func TestFolderNamedLikeTheManifestIsSetAside(t *testing.T) {
	w := newWorld(t, Options{DirectRows: 1})
	w.flood(cellOf("mia"), 300, words)
	w.closeIndex()
	path := filepath.Join(w.opts.Folder, manifestName)
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(path, "inside"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.open()
	w.settled()
	w.same("mia", "harbor lantern")
	if s := w.index.State(); s.Trouble != "" || s.Files == 0 {
		t.Errorf("%+v", s)
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the manifest is %v, %v", info, err)
	}
}

// ARCHITECTURE 6: when files cannot be written while the index is open, what
// waits stays in memory, answers are whole, and the state says why until it is
// over.
func TestFilesThatCannotBeWrittenAreSaid(t *testing.T) {
	w := newWorld(t, Options{SealRows: 100})
	w.flood(cellOf("mia"), 50, words)
	if err := os.RemoveAll(w.opts.Folder); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(w.opts.Folder), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.opts.Folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.flood(cellOf("mia"), 300, func(i int) string { return words(i + 50) })
	w.eventually("the trouble is said", func() bool { return w.index.State().Trouble != "" })
	if a := w.same("mia", "harbor lantern"); a.Rows != 350 {
		t.Errorf("%d rows", a.Rows)
	}
	if err := os.Remove(w.opts.Folder); err != nil {
		t.Fatal(err)
	}
	w.eventually("the trouble is over", func() bool { s := w.index.State(); return s.Trouble == "" && s.Files > 0 })
	w.same("mia", "harbor lantern")
}

// ARCHITECTURE 6: what cannot be sealed when the index is closed is no error; the
// store has it.
func TestCloseNeedsNoFiles(t *testing.T) {
	w := newWorld(t, Options{})
	w.settled()
	w.flood(cellOf("mia"), sealAtClose+100, words)
	w.same("mia", "harbor lantern")
	if err := os.RemoveAll(w.opts.Folder); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(w.opts.Folder), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.opts.Folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.closeIndex()
	w.open()
	w.settled()
	if a := w.same("mia", "harbor lantern"); a.NotBuilt > 0 || len(a.Hits) == 0 {
		t.Errorf("%d hits, %d not built", len(a.Hits), a.NotBuilt)
	}
}
