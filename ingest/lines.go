package ingest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// lines is a source of one unit a line.
type lines struct {
	file   io.Closer // nil: not ours to close
	in     *bufio.Reader
	decode func(line []byte) ([]Item, error)
	finish func() error // asked once at the end; may be nil
	where  string
	line   int
	offset int64
	total  int64
}

func newLines(in io.Reader, decode func([]byte) ([]Item, error)) *lines {
	return &lines{in: bufio.NewReaderSize(in, 64<<10), decode: decode}
}

// openLines opens a file of lines.
func openLines(path string, decode func([]byte) ([]Item, error)) (*lines, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open import: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open import: %w", err)
	}
	l := newLines(f, decode)
	l.file, l.total = f, info.Size()
	return l, nil
}

// one makes a decoder of lines that hold one item each.
func one(decode func([]byte) (Item, error)) func([]byte) ([]Item, error) {
	return func(line []byte) ([]Item, error) {
		item, err := decode(line)
		if err != nil {
			return nil, err
		}
		return []Item{item}, nil
	}
}

func (l *lines) size() int64 { return l.total }

func (l *lines) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

func (l *lines) skipTo(offset int64) error {
	for l.offset < offset {
		var long *longLine
		if _, err := l.read(); err != nil && !errors.As(err, &long) {
			return err
		}
	}
	return nil
}

func (l *lines) next() ([]entry, int64, error) {
	for {
		line, err := l.read()
		var long *longLine
		switch {
		case errors.As(err, &long):
			return l.refuse(err), l.offset, nil
		case err == io.EOF && l.finish != nil:
			finish := l.finish
			l.finish = nil
			if err := finish(); err != nil {
				l.line++
				return l.refuse(err), l.offset, nil
			}
			return nil, l.offset, io.EOF
		case err != nil:
			return nil, l.offset, err
		}
		if l.line == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		items, err := l.decode(line)
		if err != nil {
			return l.refuse(err), l.offset, nil
		}
		if len(items) == 0 {
			continue
		}
		entries := make([]entry, len(items))
		for i, item := range items {
			entries[i] = entry{item: item, line: l.line, where: l.where}
		}
		return entries, l.offset, nil
	}
}

func (l *lines) refuse(err error) []entry {
	return []entry{{line: l.line, where: l.where, err: err}}
}

// longLine refuses a line above [MaxLine].
type longLine struct{ bytes int64 }

// Error implements error.
func (e *longLine) Error() string {
	return fmt.Sprintf("has %d bytes (limit: %d bytes); split the record", e.bytes, MaxLine)
}

// read returns the next line without its break, at most MaxLine bytes of it.
func (l *lines) read() ([]byte, error) {
	var line []byte
	read := int64(0)
	for {
		part, err := l.in.ReadSlice('\n')
		read += int64(len(part))
		if len(line)+len(part) <= MaxLine {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if read == 0 {
			return nil, err
		}
		l.line++
		l.offset += read
		if err != nil && err != io.EOF {
			return nil, err
		}
		if read > int64(len(line)) {
			return nil, &longLine{read}
		}
		return line, nil
	}
}
