package guard

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"recalld/memory"
)

// maxPath is the longest path that is looked at, in bytes.
const maxPath = 4_096

// Folders are where calls from outside may name files. A name is taken below
// the first folder, or, when absolute, must be below one of them; the kernel
// walks every name from the open folder, so that no "..", no link and no
// exchange of a folder for a link on the way leads out of it. The nil value has
// no folder and refuses every name.
type Folders struct {
	roots []*os.Root
}

// OpenFolders opens folders for [Folders]. A folder must exist, must not be
// writable by others, and must lie neither inside the data folder nor around it.
func OpenFolders(dataDir string, paths []string) (*Folders, error) {
	f := &Folders{}
	for _, path := range paths {
		root, err := openFolder(dataDir, path)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.roots = append(f.roots, root)
	}
	return f, nil
}

func openFolder(dataDir, path string) (*os.Root, error) {
	refuse := func(problem, limit, next string) error {
		return &memory.FieldError{Field: "folder " + memory.Shape(path), Problem: problem, Limit: limit, Next: next}
	}
	real, err := realPath(path)
	if err != nil {
		return nil, refuse("cannot be opened: "+reason(err), "an existing folder", "make it, or name another one")
	}
	dataDir = filepath.Clean(dataDir)
	data, err := realPath(dataDir)
	for rest := filepath.Base(dataDir); errors.Is(err, fs.ErrNotExist); rest = filepath.Join(filepath.Base(dataDir), rest) {
		// It will be made where its nearest parent is.
		dataDir = filepath.Dir(dataDir)
		if data, err = realPath(dataDir); err == nil {
			data = filepath.Join(data, rest)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("folders for files: %w", err)
	}
	if inside(data, real) || inside(real, data) {
		return nil, refuse("has the data folder in it or lies in it", "a folder apart from the data", "name another one")
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, refuse("cannot be opened: "+reason(err), "an existing folder", "make it, or name another one")
	}
	info, err := root.Stat(".")
	if err == nil && info.Mode().Perm()&0o022 != 0 {
		err = refuse(fmt.Sprintf("can be changed by others (%s)", info.Mode().Perm()), "written by its owner alone", "run `chmod go-w` on it")
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

func realPath(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(absolute)
}

// inside reports whether a clean absolute path is the folder or below it.
func inside(folder, path string) bool {
	rest, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rest)
}

// reason is what went wrong without the path that it went wrong with.
func reason(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err.Error()
	}
	return err.Error()
}

// Close lets go of the folders.
func (f *Folders) Close() error {
	if f == nil {
		return nil
	}
	var all error
	for _, root := range f.roots {
		all = errors.Join(all, root.Close())
	}
	return all
}

// Open opens a regular file for reading. A file with further names (hard links)
// is refused: one of them may lie elsewhere. Whoever opens it closes it.
func (f *Folders) Open(path string) (*os.File, error) {
	root, name, err := f.locate(path)
	if err != nil {
		return nil, err
	}
	// Without O_NONBLOCK opening a pipe would wait for its writer.
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, refused(path, err)
	}
	info, err := file.Stat()
	if err == nil {
		err = plain(path, info)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func plain(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return badPath(path, "is not a regular file", "a regular file", "name a file")
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 {
		return badPath(path, "has further names (hard links)", "a file with one name", "copy it")
	}
	return nil
}

// Create makes a new file for writing, readable by the server's user alone. A
// file that exists is never overwritten. Whoever creates it closes it, and
// removes it with [Folders.Remove] when it did not become whole.
func (f *Folders) Create(path string) (*os.File, error) {
	root, name, err := f.locate(path)
	if err != nil {
		return nil, err
	}
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, refused(path, err)
	}
	return file, nil
}

// Remove removes a file that [Folders.Create] made.
func (f *Folders) Remove(path string) error {
	root, name, err := f.locate(path)
	if err != nil {
		return err
	}
	return root.Remove(name)
}

// Target returns the absolute path of a file that does not exist yet, for an
// operation that opens it by itself: its folder is inside and reached through no
// link, and nothing of that name is there. The folders' owner alone can change
// that afterwards.
func (f *Folders) Target(path string) (string, error) {
	root, name, err := f.locate(path)
	if err != nil {
		return "", err
	}
	for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
		info, err := root.Lstat(dir)
		if err != nil {
			return "", refused(path, err)
		}
		if !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
			return "", badPath(path, "leads through a link, a file, or a folder that others can change", "folders of the server's own", "name a file directly in a folder")
		}
	}
	switch _, err := root.Lstat(name); {
	case err == nil:
		return "", refused(path, fs.ErrExist)
	case !errors.Is(err, fs.ErrNotExist):
		return "", refused(path, err)
	}
	return filepath.Join(root.Name(), name), nil
}

// locate splits a path into a folder and a name below it.
func (f *Folders) locate(path string) (*os.Root, string, error) {
	if f == nil || len(f.roots) == 0 {
		return nil, "", badPath(path, "names a file, and this server has no folder for files", "", "start it with --files FOLDER")
	}
	if len(path) > maxPath {
		return nil, "", badPath(path, "is too long", fmt.Sprintf("%d bytes", maxPath), "give a shorter path")
	}
	parent := false
	for step := range strings.SplitSeq(path, string(filepath.Separator)) {
		if err := memory.CheckName("path", step); err != nil {
			return nil, "", err
		}
		// After a link, ".." is not what it looks like.
		parent = parent || step == ".."
	}
	root, name := f.roots[0], path
	if filepath.IsAbs(path) {
		root = nil
		for _, r := range f.roots {
			if rest, err := filepath.Rel(r.Name(), filepath.Clean(path)); err == nil && filepath.IsLocal(rest) {
				root, name = r, rest
				break
			}
		}
	}
	if root == nil || !filepath.IsLocal(name) || parent {
		return nil, "", badPath(path, "leads out of the server's folders for files", "a name inside them", "name a file without .. and links")
	}
	name = filepath.Clean(name)
	if name == "." || strings.HasSuffix(path, string(filepath.Separator)) {
		return nil, "", badPath(path, "names a folder", "a file", "add the file's name")
	}
	return root, name, nil
}

// refused gives what the kernel said, without telling what lies outside.
func refused(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrExist):
		return badPath(path, "already exists", "", "give a new name; nothing is overwritten")
	case errors.Is(err, fs.ErrNotExist):
		return badPath(path, "is not there", "", "name a file inside the server's folders for files")
	}
	return badPath(path, "cannot be used: "+reason(err), "a plain file inside the server's folders for files", "name another one")
}

func badPath(path, problem, limit, next string) error {
	return &memory.FieldError{Field: "path", Problem: memory.Shape(path) + " " + problem, Limit: limit, Next: next}
}
