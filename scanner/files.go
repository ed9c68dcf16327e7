package scanner

import (
	"sync/atomic"

	"recalld/layout"
	"recalld/scanner/kernel"
)

// fileKey is a file as it was opened.
type fileKey struct {
	source layout.Source
	name   string
}

// file is an opened file, shared by the leases that name it. One of segment and
// values is set.
type file struct {
	key      fileKey
	segment  *layout.Segment
	values   *layout.Values
	verified []atomic.Bool // of a segment, as there
	locked   atomic.Bool   // whether a segment's pages are
	leases   int
}

func (f *file) mapped() []byte {
	if f.segment != nil {
		return f.segment.Mapped()
	}
	return f.values.Mapped()
}

func (f *file) close() error {
	if f.segment != nil {
		return f.segment.Close()
	}
	return f.values.Close()
}

// current reports whether the file can be read on: see [layout.Segment.Current].
func (f *file) current(folder string) bool {
	if f.segment != nil {
		return f.segment.Current(folder)
	}
	return f.values.Current(folder)
}

// lease keeps the files of one generation open while anybody reads them. Its
// fields belong to the server's lock.
type lease struct {
	files   []*file
	readers int
}

// open returns a file, from those that are open or from the folder, and adds it
// to the lease. A file that was damaged and made anew has the name that it had;
// the damaged one must not be read on. Only one change of state runs at a time,
// so that the file is not opened twice.
func (s *Server) open(l *lease, key fileKey, values bool) (*file, error) {
	s.mu.Lock()
	f := s.files[key]
	s.mu.Unlock()
	if f == nil || !f.current(s.folder) {
		f = &file{key: key}
		var err error
		if values {
			if f.values, err = layout.OpenValues(s.folder, key.name, key.source); err == nil {
				adviseRandom(f.values.Mapped())
			}
		} else {
			if f.segment, err = layout.OpenSegment(s.folder, key.name, key.source); err == nil {
				f.verified = make([]atomic.Bool, f.segment.Header().Rows/kernel.TileRows+1)
			}
		}
		if err != nil {
			return nil, inFile(key.name, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[key] = f
	f.leases++
	l.files = append(l.files, f)
	return f, nil
}

// enter returns the state to read, which release gives back.
func (s *Server) enter() (*state, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == nil {
		return nil, errBehind
	}
	s.state.lease.readers++
	return s.state, nil
}

// hold keeps the files of a lease, which somebody has, for one reader more.
func (s *Server) hold(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.readers++
}

// release gives a lease back; files that nobody needs any more are unmapped.
func (s *Server) release(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.readers--; l.readers > 0 {
		return
	}
	for _, f := range l.files {
		if f.leases--; f.leases == 0 {
			if s.files[f.key] == f {
				delete(s.files, f.key)
			}
			_ = f.close() // of a mapping that was only read
		}
	}
}
