package ingest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"recalld/memory"
)

// MaxLine is the longest line of an input file in bytes, and the longest file of
// a folder that is read whole.
const MaxLine = 16 << 20

// Position is a place in an input.
type Position struct {
	Line   int    // of the item, from 1; in a folder, in its file
	Offset int64  // bytes read; where reading goes on after the items up to this one
	Where  string // what the place is called where a line alone does not say it
}

// LineError is one line that was refused, or several in a row for the same
// reason. Reading goes on after it.
type LineError struct {
	Line  int    `json:"line"`
	Where string `json:"where,omitempty"` // the file, the row or the conversation
	Err   string `json:"error"`
	Last  int    `json:"last_line,omitempty"` // of Count lines with the same error
	Count int    `json:"count,omitempty"`     // when more than one
}

// Error implements error.
func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Err) }

// Reader yields the items of one input in the input's order.
type Reader struct {
	source  source
	pending []entry // of the last unit
	start   int64   // of that unit
	end     int64
	at      Position
	agents  bool // items may name their agent
	left    func() []Left
}

// Left is something that the input has beside records, and that is not taken
// over.
type Left struct {
	What  string `json:"what"`
	Count int64  `json:"count"`
}

// source reads an input in units that are taken whole or again: a line, the file
// of a folder, a conversation.
type source interface {
	// next returns the entries of the next unit and the offset behind it; the
	// error io.EOF at the end.
	next() (entries []entry, end int64, err error)
	// skipTo moves behind the unit that ended at the offset.
	skipTo(offset int64) error
	size() int64
	Close() error
}

// entry is one item, or the reason why there is none.
type entry struct {
	item  Item
	line  int
	where string
	err   error
}

// NewReader reads jsonl from a stream of unknown size.
func NewReader(in io.Reader) *Reader { return newReader(in, decodeItem) }

// newReader reads a stream of lines that are one item each.
func newReader(in io.Reader, decode func([]byte) (Item, error)) *Reader {
	return &Reader{source: newLines(in, one(decode)), agents: true}
}

// Size is the input's length in bytes, 0 when not known.
func (r *Reader) Size() int64 { return r.source.size() }

// NamesAgents reports whether items of this input may name their agent; where
// they do not, the importer has to.
func (r *Reader) NamesAgents() bool { return r.agents }

// Left lists what the input has beside records, as far as it was read.
func (r *Reader) Left() []Left {
	if r.left == nil {
		return nil
	}
	return r.left()
}

// Close closes the input.
func (r *Reader) Close() error { return r.source.Close() }

// SkipTo moves to a position that an earlier reading of the same input reported.
func (r *Reader) SkipTo(p Position) error {
	if err := r.source.skipTo(p.Offset); err != nil {
		return fmt.Errorf("resume import at line %d: %w", p.Line, err)
	}
	r.pending, r.end, r.at = nil, p.Offset, p
	return nil
}

// Next returns the next item. The error is a *[LineError] for a line that was
// refused, after which reading goes on, and [io.EOF] at the end.
func (r *Reader) Next() (Item, Position, error) {
	for len(r.pending) == 0 {
		entries, end, err := r.source.next()
		if err != nil {
			r.at.Offset = max(r.at.Offset, end)
			return Item{}, r.at, err
		}
		r.start, r.end, r.pending = r.end, end, entries
	}
	e := r.pending[0]
	r.pending = r.pending[1:]
	r.at = Position{Line: e.line, Offset: r.start, Where: e.where}
	if len(r.pending) == 0 {
		r.at.Offset = r.end
	}
	if e.err != nil {
		return Item{}, r.at, &LineError{Line: e.line, Where: e.where, Err: e.err.Error()}
	}
	return e.item, r.at, nil
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

// decodeLoose decodes one JSON object of a format that others write and extend:
// fields that are not known pass, strings that decoding would change do not.
func decodeLoose(line []byte, into any) error {
	if err := memory.CheckJSON("line", line); err != nil {
		return err
	}
	if err := json.Unmarshal(line, into); err != nil {
		return fmt.Errorf("is not of this format: %w; see docs/import.md", err)
	}
	return nil
}

func decodeItem(line []byte) (Item, error) {
	var item Item
	err := decodeStrict(line, &item)
	return item, err
}
