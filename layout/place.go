package layout

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"os"
	"path/filepath"
)

// TempSuffix ends the names of files that are being written. Whoever owns a folder
// removes them at its start.
const TempSuffix = ".tmp"

// body writes what stands behind the header of a new file, and counts it and its
// checksums.
type body struct {
	dir  string
	file *os.File
	out  *bufio.Writer
	sum  hash.Hash
	n    int64 // bytes behind the header
	err  error
}

func newBody(dir string) (*body, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, "new-*"+TempSuffix)
	if err != nil {
		return nil, err
	}
	b := &body{dir: dir, file: f, out: bufio.NewWriterSize(f, 1<<18), sum: sha256.New()}
	if _, err := f.Seek(HeaderBytes, io.SeekStart); err != nil {
		return nil, b.abandon(err)
	}
	return b, nil
}

// Write implements [io.Writer]. After an error, everything is refused with it.
func (b *body) Write(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	var n int
	n, b.err = b.out.Write(p)
	b.sum.Write(p[:n])
	b.n += int64(n)
	return n, b.err
}

// publish writes the header, makes the file durable and read-only, and gives it
// its name. The file is there whole or not at all.
func (b *body) publish(header page, suffix string) (name string, err error) {
	name = header.seal(b.sum.Sum(nil), suffix)
	if b.err == nil {
		b.err = b.out.Flush()
	}
	if b.err == nil {
		_, b.err = b.file.WriteAt(header, 0)
	}
	if b.err == nil {
		b.err = errors.Join(b.file.Chmod(0o400), b.file.Sync())
	}
	if b.err != nil {
		return "", b.abandon(b.err)
	}
	temp := b.file.Name()
	err = b.file.Close()
	b.file = nil
	if err == nil {
		err = os.Rename(temp, filepath.Join(b.dir, name))
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(temp))
	}
	return name, syncFolder(b.dir)
}

// abandon removes the file, and returns what else went wrong besides err.
func (b *body) abandon(err error) error {
	if b.file == nil {
		return err
	}
	f := b.file
	b.file = nil
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// spillBytes is how much of a section is kept in memory before it goes to a file.
const spillBytes = 1 << 20

// spill is a section that is written before its place in the file is known.
type spill struct {
	dir    string
	memory bytes.Buffer
	file   *os.File
	n      int64
}

// Write implements [io.Writer].
func (s *spill) Write(p []byte) (int, error) {
	n, _ := s.memory.Write(p)
	s.n += int64(n)
	if s.memory.Len() < spillBytes {
		return n, nil
	}
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "part-*"+TempSuffix)
		if err != nil {
			return 0, err
		}
		s.file = f
	}
	_, err := s.memory.WriteTo(s.file)
	return n, err
}

// copyTo writes everything that was written to another writer.
func (s *spill) copyTo(w io.Writer) error {
	if s.file != nil {
		if _, err := s.file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.Copy(w, s.file); err != nil {
			return err
		}
	}
	_, err := w.Write(s.memory.Bytes())
	return err
}

func (s *spill) close() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
