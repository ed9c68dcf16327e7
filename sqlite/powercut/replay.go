package powercut

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// Image describes one crashed folder.
type Image struct {
	Cut          int     // the number of operations that happened
	Acknowledged []int64 // what [Disk.Mark] was given before the cut, in order: all of it must be found
	Unsynced     int     // writes and truncations whose fate was open
	Damaged      int     // how many of them did not survive whole
}

// Replay walks a [Log] and makes crash images. It is for one goroutine; several replays of one log are independent.
type Replay struct {
	log   *Log
	next  int // operations replayed so far
	names map[string]*name
	open  map[int64]*inode
	marks []int64
}

// name is one folder entry.
type name struct {
	durable *inode // nil: no such file
	changes []*inode
}

// inode is one file's contents, whatever its name.
type inode struct {
	durable []byte
	pending []op
}

func (r *Replay) rewind() {
	r.next, r.marks = 0, nil
	r.names, r.open = map[string]*name{}, map[int64]*inode{}
	for path, contents := range r.log.files {
		r.names[path] = &name{durable: &inode{durable: slices.Clone(contents)}}
	}
}

// Crash writes into folder, which must be empty or absent, what a power cut after the first cut operations may leave,
// with every open choice drawn from rng. Ascending cuts cost the distance between them; a lower cut than the one before
// starts over. It refuses a cut outside 0 to [Log.Len].
func (r *Replay) Crash(rng *rand.Rand, cut int, folder string) (Image, error) {
	if cut < 0 || cut > r.log.Len() {
		return Image{}, fmt.Errorf("crash at operation %d: the log holds cuts 0 to %d", cut, r.log.Len())
	}
	r.seek(cut)
	image := Image{Cut: cut, Acknowledged: slices.Clone(r.marks)}
	if err := write(folder, r.log.folders, r.survivors(rng, &image)); err != nil {
		return Image{}, fmt.Errorf("crash at operation %d: %w", cut, err)
	}
	return image, nil
}

func (r *Replay) seek(cut int) {
	if cut < r.next {
		r.rewind()
	}
	for ; r.next < cut; r.next++ {
		r.apply(r.log.ops[r.next])
	}
}

func (r *Replay) apply(o op) {
	switch o.kind {
	case opened:
		n := r.names[o.path]
		if n == nil {
			n = &name{}
			r.names[o.path] = n
		}
		if n.current() == nil {
			n.changes = append(n.changes, &inode{})
		}
		r.open[o.file] = n.current()
	case wrote, truncated:
		f := r.open[o.file]
		f.pending = append(f.pending, o)
	case synced:
		r.open[o.file].sync()
		if o.folder {
			r.syncFolder(path.Dir(o.path))
		}
	case deleted:
		if n := r.names[o.path]; n != nil && n.current() != nil {
			n.changes = append(n.changes, nil)
		}
		if o.folder {
			r.syncFolder(path.Dir(o.path))
		}
	case acknowledged:
		r.marks = append(r.marks, o.mark)
	}
}

func (r *Replay) syncFolder(folder string) {
	for p, n := range r.names {
		if path.Dir(p) == folder {
			n.durable, n.changes = n.current(), nil
		}
	}
}

func (n *name) current() *inode {
	if len(n.changes) == 0 {
		return n.durable
	}
	return n.changes[len(n.changes)-1]
}

func (f *inode) sync() {
	for _, o := range f.pending {
		f.durable = o.perform(f.durable)
	}
	f.pending = nil
}

// perform applies a write or a truncation; a gap before the write is zeros.
func (o op) perform(contents []byte) []byte {
	if o.kind == truncated {
		return resize(contents, o.offset)
	}
	if end := o.offset + int64(len(o.bytes)); end > int64(len(contents)) {
		contents = resize(contents, end)
	}
	copy(contents[o.offset:], o.bytes)
	return contents
}

func resize(contents []byte, size int64) []byte {
	if grow := size - int64(len(contents)); grow > 0 {
		return append(contents, make([]byte, grow)...)
	}
	return contents[:size]
}

// survivors draws the names and contents that a cut at this moment leaves, and counts the damage in image.
func (r *Replay) survivors(rng *rand.Rand, image *Image) map[string][]byte {
	files := map[string][]byte{}
	for _, p := range slices.Sorted(maps.Keys(r.names)) {
		n := r.names[p]
		file := n.durable
		if kept := rng.IntN(len(n.changes) + 1); kept > 0 {
			file = n.changes[kept-1]
		}
		if file != nil {
			files[p] = file.survive(rng, image)
		}
	}
	return files
}

func write(folder string, subfolders []string, files map[string][]byte) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if entries, err := os.ReadDir(folder); err != nil {
		return err
	} else if len(entries) > 0 {
		return fmt.Errorf("folder %s is not empty", folder)
	}
	for _, sub := range subfolders {
		if err := os.MkdirAll(filepath.Join(folder, filepath.FromSlash(sub)), 0o700); err != nil {
			return err
		}
	}
	for p, contents := range files {
		target := filepath.Join(folder, filepath.FromSlash(p))
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(target, contents, 0o600); err != nil {
			return err
		}
	}
	return nil
}
