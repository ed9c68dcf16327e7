package guard

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"recalld/access"
	"recalld/coordinator"
	"recalld/memory"
)

// yard is a folder for files, with a file and a folder outside of it that nobody
// may reach, and every kind of way out.
type yard struct {
	inside, outside string
	folders         *Folders
}

func newYard(t *testing.T) yard {
	t.Helper()
	top := t.TempDir()
	y := yard{inside: filepath.Join(top, "files"), outside: filepath.Join(top, "outside")}
	for _, dir := range []string{y.inside, y.outside, filepath.Join(y.inside, "sub"), filepath.Join(y.inside, "sub", "子"), filepath.Join(y.inside, "open")} {
		must(t, os.Mkdir(dir, 0o700))
	}
	must(t, os.Chmod(filepath.Join(y.inside, "open"), 0o777))
	must(t, os.WriteFile(filepath.Join(y.outside, "secret"), []byte("secret"), 0o600))
	must(t, os.WriteFile(filepath.Join(y.inside, "sub", "記録.jsonl"), []byte("lines"), 0o600))
	must(t, os.Symlink(y.outside, filepath.Join(y.inside, "dir-link")))
	must(t, os.Symlink(filepath.Join(y.outside, "secret"), filepath.Join(y.inside, "file-link")))
	must(t, os.Symlink("../outside/secret", filepath.Join(y.inside, "relative-link")))
	must(t, os.Symlink("dir-link", filepath.Join(y.inside, "link-to-link")))
	must(t, os.Symlink(filepath.Join(y.outside, "new"), filepath.Join(y.inside, "dangling")))
	must(t, os.Symlink("sub", filepath.Join(y.inside, "inner-link")))
	must(t, os.Link(filepath.Join(y.outside, "secret"), filepath.Join(y.inside, "hard-link")))
	must(t, syscall.Mkfifo(filepath.Join(y.inside, "pipe"), 0o600))
	var err error
	y.folders, err = OpenFolders(filepath.Join(top, "data"), []string{y.inside})
	must(t, err)
	t.Cleanup(func() { must(t, y.folders.Close()) })
	return y
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// waysOut are paths that must not be opened, made or given to an operation.
func (y yard) waysOut() []string {
	return []string{
		"", ".", "./", "/", "..", "../outside/secret", "sub/../../outside/secret", "sub/..", "sub/../sub/記録.jsonl",
		y.outside + "/secret", y.inside + "/../outside/secret", y.inside, y.inside + "/", y.inside + "x/secret", "/etc/passwd", "/proc/self/environ", "//etc/passwd",
		"dir-link/secret", "dir-link/new", "link-to-link/secret", "file-link", "relative-link", "dangling", "hard-link", "pipe", "sub", "sub/",
		"file-link/x", "a\x00b", "sub/\x00", "a\nb", "a\u202eb", "\xff\xfe", strings.Repeat("a", 300), strings.Repeat("a/", 3000) + "b",
		`..\outside\secret` + "\x00", "file:///etc/passwd\n",
	}
}

// No name leads out of the folders: not by "..", an absolute path, a link, a
// chain of links, a link to nothing, a second name, a pipe, or a folder.
func TestNoWayOut(t *testing.T) {
	y := newYard(t)
	for _, path := range y.waysOut() {
		if f, err := y.folders.Open(path); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("open %q: %v, %v", path, f, err)
		}
		if f, err := y.folders.Create(path); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("create %q: %v, %v", path, f, err)
		}
		if target, err := y.folders.Target(path); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("target %q: %v, %v", path, target, err)
		}
	}
	entries, err := os.ReadDir(y.outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("outside there are now %v, %v", entries, err)
	}
	// Outside, what is there and what is not look the same.
	_, there := y.folders.Open("../outside/secret")
	_, missing := y.folders.Open("../outside/nosuch")
	if strings.ReplaceAll(there.Error(), "secret", "nosuch") != missing.Error() {
		t.Errorf("%v and %v differ", there, missing)
	}
}

func TestFilesInside(t *testing.T) {
	y := newYard(t)
	for _, path := range []string{"sub/記録.jsonl", "./sub//記録.jsonl", y.inside + "/sub/記録.jsonl"} {
		f, err := y.folders.Open(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		text, err := io.ReadAll(f)
		if string(text) != "lines" || err != nil || f.Close() != nil {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	if _, err := y.folders.Open("sub/none"); !errors.Is(err, memory.ErrInvalid) || !strings.Contains(err.Error(), "is not there") {
		t.Errorf("got %v", err)
	}
	f, err := y.folders.Create("sub/新しい.jsonl")
	must(t, err)
	must(t, f.Close())
	if info, err := os.Stat(filepath.Join(y.inside, "sub", "新しい.jsonl")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := y.folders.Create("sub/新しい.jsonl"); !errors.Is(err, memory.ErrInvalid) || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("overwritten: %v", err)
	}
	must(t, y.folders.Remove("sub/新しい.jsonl"))
	if target, err := y.folders.Target("sub/子/backup.db"); err != nil || target != filepath.Join(y.inside, "sub", "子", "backup.db") {
		t.Errorf("%s, %v", target, err)
	}
	for _, path := range []string{"inner-link/backup.db", "open/backup.db", "sub/記録.jsonl", "none/backup.db"} {
		if target, err := y.folders.Target(path); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("%s: %s, %v", path, target, err)
		}
	}
}

// A folder that was exchanged for a link after the start leads nowhere else.
func TestExchangedFolder(t *testing.T) {
	y := newYard(t)
	must(t, os.Rename(filepath.Join(y.inside, "sub"), filepath.Join(y.inside, "was")))
	must(t, os.Symlink(y.outside, filepath.Join(y.inside, "sub")))
	if _, err := y.folders.Open("sub/secret"); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	if _, err := y.folders.Target("sub/new"); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestWhichFoldersAreTaken(t *testing.T) {
	top := t.TempDir()
	data, open := filepath.Join(top, "data"), filepath.Join(top, "open")
	for _, dir := range []string{data, open, filepath.Join(data, "derived")} {
		must(t, os.Mkdir(dir, 0o700))
	}
	must(t, os.Chmod(open, 0o770))
	must(t, os.Symlink(data, filepath.Join(top, "link")))
	must(t, os.WriteFile(filepath.Join(top, "file"), nil, 0o600))
	for _, path := range []string{data, filepath.Join(data, "derived"), top, filepath.Join(top, "link"), open, filepath.Join(top, "none"), filepath.Join(top, "file")} {
		if f, err := OpenFolders(data, []string{path}); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("%s: %v, %v", path, f, err)
		}
	}
	// A data folder that is yet to be made is one already.
	for _, yet := range []string{filepath.Join(top, "yet"), filepath.Join(top, "a", "b", "yet")} {
		if f, err := OpenFolders(yet, []string{top}); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("%s: %v, %v", yet, f, err)
		}
	}
	var none *Folders
	if _, err := none.Open("x"); err == nil || !strings.Contains(err.Error(), "--files") || none.Close() != nil {
		t.Errorf("no folder: %v", err)
	}
}

// A backup over the network goes where the folders are and nowhere else.
func TestBackupIsConfined(t *testing.T) {
	y := newYard(t)
	var reached []string
	s := Service(backups{paths: &reached}, y.folders)
	ctx := WithClient(t.Context(), access.NewClient("c", access.ReadWrite))
	for _, path := range append(y.waysOut(), "file-link") {
		if err := s.Backup(ctx, path, nil); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("%q: %v", path, err)
		}
	}
	if err := s.Backup(ctx, "sub/backup.db", nil); err != nil || len(reached) != 1 || reached[0] != filepath.Join(y.inside, "sub", "backup.db") {
		t.Errorf("%v, %v", reached, err)
	}
	// Whoever may not read one agent does not get it in a copy of everything.
	except := WithClient(t.Context(), granted(t, `{"*": "read-write", "蓮": "none"}`))
	if err := s.Backup(except, "sub/backup.db", nil); !errors.Is(err, access.ErrDenied) {
		t.Errorf("got %v", err)
	}
}

type backups struct {
	coordinator.Service
	paths *[]string
}

func (b backups) Backup(_ context.Context, path string, _ coordinator.Progress) error {
	*b.paths = append(*b.paths, path)
	return nil
}
