package ingest

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// folder is a source that reads the files of a folder one after the other, in the
// order of their paths. Links are not followed, and hidden folders not entered.
type folder struct {
	files  []file
	total  int64
	at     int   // the file that comes next
	offset int64 // of all bytes before it
	open   func(f file) (source, error)
	within source // the file under way
	ended  int64  // offset within that file
}

// file is one file of a folder.
type file struct {
	path  string // to open it
	name  string // from the folder's own name on, with slashes
	bytes int64
}

// newFolder lists the files that wanted takes; a path that is a file stands
// alone. open makes the source of one file, whose offsets are the file's own.
func newFolder(path string, wanted func(path string) bool, open func(f file) (source, error)) (*folder, error) {
	root := filepath.Clean(path)
	if absolute, err := filepath.Abs(root); err == nil {
		root = absolute
	}
	s := &folder{open: open}
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && at != root && hidden(d.Name()):
			return fs.SkipDir
		case !d.Type().IsRegular() || at != root && !wanted(at):
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(filepath.Dir(root), at)
		if err != nil {
			return err
		}
		s.files = append(s.files, file{path: at, name: filepath.ToSlash(name), bytes: info.Size()})
		s.total += info.Size()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("open import: %w", err)
	}
	slices.SortFunc(s.files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return s, nil
}

func (s *folder) size() int64 { return s.total }

func (s *folder) Close() error {
	if s.within == nil {
		return nil
	}
	return s.within.Close()
}

func (s *folder) skipTo(offset int64) error {
	for s.at < len(s.files) && s.offset+s.files[s.at].bytes <= offset {
		s.offset += s.files[s.at].bytes
		s.at++
	}
	if s.at == len(s.files) || offset == s.offset {
		return nil
	}
	if err := s.begin(); err != nil {
		return err
	}
	s.ended = offset - s.offset
	return s.within.skipTo(s.ended)
}

func (s *folder) begin() (err error) {
	s.within, err = s.open(s.files[s.at])
	s.ended = 0
	return err
}

func (s *folder) next() ([]entry, int64, error) {
	for {
		if s.within == nil {
			if s.at == len(s.files) {
				return nil, s.offset, io.EOF
			}
			if err := s.begin(); err != nil {
				return nil, s.offset, err
			}
		}
		entries, end, err := s.within.next()
		if err == nil {
			s.ended = min(end, s.files[s.at].bytes)
			return entries, s.offset + s.ended, nil
		}
		if err != io.EOF {
			return nil, s.offset + s.ended, fmt.Errorf("%s: %w", s.files[s.at].name, err)
		}
		closed := s.within.Close()
		s.offset += s.files[s.at].bytes
		s.within, s.at = nil, s.at+1
		if closed != nil {
			return nil, s.offset, closed
		}
	}
}

// whole is a source that reads a file at once and is one unit.
type whole struct {
	file file
	read func(text []byte) []entry
	done bool
}

func (w *whole) size() int64  { return w.file.bytes }
func (w *whole) Close() error { return nil }

func (w *whole) skipTo(offset int64) error {
	w.done = offset >= w.file.bytes
	return nil
}

func (w *whole) next() ([]entry, int64, error) {
	if w.done {
		return nil, w.file.bytes, io.EOF
	}
	w.done = true
	if w.file.bytes > MaxLine {
		return w.refuse(&longLine{w.file.bytes}), w.file.bytes, nil
	}
	text, err := os.ReadFile(w.file.path)
	if err != nil {
		return nil, 0, err
	}
	entries := w.read(text)
	if len(entries) == 0 {
		return nil, w.file.bytes, io.EOF
	}
	return entries, w.file.bytes, nil
}

func (w *whole) refuse(err error) []entry {
	return []entry{{line: 1, where: w.file.name, err: err}}
}
