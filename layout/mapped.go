package layout

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/edsrzf/mmap-go"
)

// mapped is one file, mapped read-only.
type mapped struct {
	name  string
	bytes mmap.MMap
	file  *os.File
	// asSeen is the file as it was when it was opened.
	asSeen os.FileInfo
}

// openMapped maps a file of a folder. What is too short for a header is damaged.
func openMapped(dir, name string) (_ *mapped, err error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < HeaderBytes || !info.Mode().IsRegular() {
		return nil, &DamageError{File: name, Section: "header", Chunk: -1, Problem: fmt.Sprintf("the file has %d bytes, fewer than its header", info.Size())}
	}
	b, err := mmap.MapRegion(f, int(info.Size()), mmap.RDONLY, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", name, err)
	}
	return &mapped{name: name, bytes: b, file: f, asSeen: info}, nil
}

// intact reports damage when the file is not as long as when it was mapped, its
// last pages must not be touched then, or when somebody wrote to it.
func (m *mapped) intact() error {
	if m.file == nil {
		return nil
	}
	info, err := m.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != int64(len(m.bytes)) {
		return &DamageError{File: m.name, Section: "file", Chunk: -1, Problem: fmt.Sprintf("it has %d bytes, not the %d that it was opened with", info.Size(), len(m.bytes))}
	}
	if !info.ModTime().Equal(m.asSeen.ModTime()) {
		return &DamageError{File: m.name, Section: "file", Chunk: -1, Problem: "somebody wrote to it while it was in use"}
	}
	return nil
}

// current reports whether the file is intact and a folder has no other one under
// its name.
func (m *mapped) current(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, m.name))
	return (err != nil || os.SameFile(info, m.asSeen)) && m.intact() == nil
}

func (m *mapped) close() error {
	if m.file == nil {
		return nil
	}
	return errors.Join(m.bytes.Unmap(), m.file.Close())
}
