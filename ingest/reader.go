package ingest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"recalld/memory"
)

// MaxLine is the longest line of an input file in bytes.
const MaxLine = 16 << 20

// Position is a place in an input.
type Position struct {
	Line   int   // of the item, from 1
	Offset int64 // bytes read, this line included
}

// LineError is one line that was refused. Reading goes on after it.
type LineError struct {
	Line int    `json:"line"`
	Err  string `json:"error"`
}

// Error implements error.
func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Err) }

// Reader yields the items of one input in file order.
type Reader struct {
	file   io.Closer
	lines  *bufio.Reader
	decode func(line []byte) (Item, error)
	at     Position
	size   int64
}

// Formats are the names that [OpenFile] knows.
func Formats() []string { return []string{"jsonl", "locomo"} }

// OpenFile opens an input of the named format. For locomo the path is the
// folder that holds turns.jsonl.
func OpenFile(format, path string) (*Reader, error) {
	decode := decodeItem
	switch format {
	case "jsonl":
	case "locomo":
		decode = decodeTurn
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			path = filepath.Join(path, "turns.jsonl")
		}
	default:
		return nil, &memory.FieldError{Field: "format", Problem: memory.Shape(format) + " is not known", Limit: strings.Join(Formats(), ", "), Next: "choose one of them"}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open import: %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = &memory.FieldError{Field: "path", Problem: "is a folder", Next: "name the file"}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	r := newReader(f, decode)
	r.file, r.size = f, info.Size()
	return r, nil
}

// NewReader reads jsonl from a stream of unknown size.
func NewReader(in io.Reader) *Reader { return newReader(in, decodeItem) }

func newReader(in io.Reader, decode func([]byte) (Item, error)) *Reader {
	return &Reader{lines: bufio.NewReaderSize(in, 64<<10), decode: decode}
}

// Size is the input's length in bytes, 0 when not known.
func (r *Reader) Size() int64 { return r.size }

// Close closes the file.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// SkipTo moves to a position that an earlier reading of the same input
// reported. Lines before it are not decoded.
func (r *Reader) SkipTo(p Position) error {
	for r.at.Offset < p.Offset {
		var refused *LineError
		if _, err := r.line(); err != nil && !errors.As(err, &refused) {
			return fmt.Errorf("resume import at line %d: %w", p.Line, err)
		}
	}
	return nil
}

// Next returns the next item. The error is a *[LineError] for a line that was
// refused, after which reading goes on, and [io.EOF] at the end.
func (r *Reader) Next() (Item, Position, error) {
	for {
		line, err := r.line()
		if err != nil {
			return Item{}, r.at, err
		}
		if r.at.Line == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		item, err := r.decode(line)
		if err != nil {
			return Item{}, r.at, &LineError{Line: r.at.Line, Err: err.Error()}
		}
		return item, r.at, nil
	}
}

// line returns the next line without its break, at most MaxLine bytes of it.
func (r *Reader) line() ([]byte, error) {
	var line []byte
	read := int64(0)
	for {
		part, err := r.lines.ReadSlice('\n')
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
		r.at.Line++
		r.at.Offset += read
		if err != nil && err != io.EOF {
			return nil, err
		}
		if read > int64(len(line)) {
			return nil, &LineError{Line: r.at.Line, Err: fmt.Sprintf("has %d bytes (limit: %d bytes); split the record", read, MaxLine)}
		}
		return line, nil
	}
}

// decodeStrict decodes one JSON object: no unknown field, no key twice, nothing
// after it, and no string that would be changed by decoding.
func decodeStrict(line []byte, into any) error {
	if err := memory.CheckJSON("line", line); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("is not an item: %w (limit: one JSON object of known fields); see docs/formats.md", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("has more than one JSON value (limit: one); put each on a line of its own")
	}
	return checkKeys(line)
}

func decodeItem(line []byte) (Item, error) {
	var item Item
	err := decodeStrict(line, &item)
	return item, err
}
