package layout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"recalld/memory"
)

// Spec says which segment to write.
type Spec struct {
	Source
	Kind     Kind
	Lean     bool  // rows point at no values
	Sequence int64 // the change of the store up to which the rows are complete
	Lineage  int64 // that change's own number
}

// Row is one row of a new segment.
type Row struct {
	Cell  Cell
	Ref   memory.Ref
	Block int // one more than the row before, inside a record
	// Code is as [memory.Signs] or [memory.Int8] gives it. nil in a segment of
	// signs is a block that has none; it still counts as a row.
	Code []byte
	// Value is where the row is whole: of signs as int8, of int8 as float32. It is not
	// looked at when the segment is lean.
	Value Pointer
	Scale float32 // int8: the vector is Scale × Code, within Bound
	Bound float32
}

// Writer writes a segment, row by row in the order of the file. One goroutine uses
// it at a time; Finish or Abandon ends it.
type Writer struct {
	spec   Spec
	body   *body
	parts  [checks]*spill // nil for codes, which go straight into the file
	checks checksums
	header Header
	last   Row    // without its code
	code   []byte // room for one row
	number []byte // room for a few numbers
	err    error  // the first; nothing is written after it
}

// Create begins a segment in a folder, under a temporary name.
func Create(dir string, spec Spec) (*Writer, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	b, err := newBody(dir)
	if err != nil {
		return nil, fmt.Errorf("begin a segment: %w", err)
	}
	w := &Writer{spec: spec, body: b, code: make([]byte, spec.Kind.rowBytes(spec.Dims)),
		header: Header{version: Version, Source: spec.Source, Kind: spec.Kind, Lean: spec.Lean, Sequence: spec.Sequence, Lineage: spec.Lineage}}
	for i := range w.parts {
		if i != codes {
			w.parts[i] = &spill{dir: dir}
		}
	}
	return w, nil
}

func (s Spec) check() error {
	if err := s.Source.check(); err != nil {
		return err
	}
	if s.Kind.rowBytes(s.Dims) == 0 {
		return &memory.FieldError{Field: "kind", Problem: fmt.Sprintf("is %d", s.Kind), Limit: "signs or int8", Next: "choose one of these"}
	}
	return nil
}

// Rows is how many rows were added.
func (w *Writer) Rows() int { return w.header.Rows }

// Fits reports whether so many more rows leave the segment within [MaxCodes]. Ask
// before each record: a record is never cut.
func (w *Writer) Fits(rows int) bool {
	return w.header.Rows == 0 || w.header.Rows+rows <= maxRows && (int64(w.header.Rows)+int64(rows))*int64(len(w.code)) <= MaxCodes
}

// Add appends a row. One that does not follow the row before, in the order of
// cells, records and blocks, or that does not fit the segment, is a
// *[memory.FieldError] and changes nothing; other errors end the writer.
func (w *Writer) Add(r Row) error {
	if w.err != nil {
		return w.failed()
	}
	newCell := w.header.Rows == 0 || r.Cell != w.last.Cell
	newParent := newCell || r.Ref != w.last.Ref
	if err := w.checkRow(r, newCell, newParent); err != nil {
		return err
	}
	w.addUnchecked(r, newCell, newParent)
	return w.failed()
}

func (w *Writer) addUnchecked(r Row, newCell, newParent bool) {
	row := uint32(w.header.Rows)
	if newCell {
		w.put64(cells, r.Cell.Agent, r.Cell.Project, r.Cell.Channel, uint64(row))
		w.header.Cells++
	}
	if newParent {
		w.put64(parents, packRef(r.Ref), uint64(row)|uint64(r.Block)<<32)
		w.header.Parents++
	}
	if r.Code == nil {
		w.put32(absent, row)
		w.header.Absent++
	}
	if !w.spec.Lean {
		w.put32(pointers, r.Value.File, r.Value.Slot)
	}
	if w.spec.Kind == Int8 {
		w.put32(scales, math.Float32bits(r.Scale))
		w.put32(bounds, math.Float32bits(r.Bound))
	}
	clear(w.code[copy(w.code, r.Code):])
	w.append(w.code)
	w.header.Rows++
	w.last = Row{Cell: r.Cell, Ref: r.Ref, Block: r.Block}
}

// put64 appends numbers to a section whose place is not known yet.
func (w *Writer) put64(section int, numbers ...uint64) {
	w.number = w.number[:0]
	for _, n := range numbers {
		w.number = binary.LittleEndian.AppendUint64(w.number, n)
	}
	w.put(section)
}

func (w *Writer) put32(section int, numbers ...uint32) {
	w.number = w.number[:0]
	for _, n := range numbers {
		w.number = binary.LittleEndian.AppendUint32(w.number, n)
	}
	w.put(section)
}

func (w *Writer) put(section int) {
	if _, err := w.parts[section].Write(w.number); w.err == nil {
		w.err = err
	}
}

// append adds bytes to the section in hand of the file.
func (w *Writer) append(b []byte) {
	w.checks.write(b)
	if _, err := w.body.Write(b); w.err == nil {
		w.err = err
	}
}

func (w *Writer) failed() error {
	if w.err != nil {
		return fmt.Errorf("write a segment: %w", w.err)
	}
	return nil
}

func (w *Writer) checkRow(r Row, newCell, newParent bool) error {
	refuse := func(field, problem, limit, next string) error {
		return &memory.FieldError{Field: field, Problem: problem, Limit: limit, Next: next}
	}
	if (r.Ref.Kind != memory.KindEpisode && r.Ref.Kind != memory.KindMemory) || r.Ref.ID < 1 || r.Block < 0 || r.Block > math.MaxInt32 {
		return refuse("row", fmt.Sprintf("is block %d of %v", r.Block, r.Ref), "a record's, 0 or more", "take references from the store")
	}
	if w.header.Rows > 0 {
		order := r.Cell.Compare(w.last.Cell)
		if order == 0 {
			order = memory.CompareRefs(r.Ref, w.last.Ref)
		}
		if order < 0 {
			return refuse("row", "comes after one that it precedes", "ascending agent, project, channel, kind, record, block", "sort the rows")
		}
		if !newParent && r.Block != w.last.Block+1 {
			return refuse("block", fmt.Sprintf("is %d after %d", r.Block, w.last.Block), "one more than the block before", "give every block of a record, those without a code too")
		}
		if newParent && !w.Fits(1) {
			return refuse("rows", fmt.Sprintf("are %d already", w.header.Rows), fmt.Sprintf("%d bytes of codes", int64(MaxCodes)), "begin another segment")
		}
	}
	want := w.spec.Dims
	if w.spec.Kind == Signs {
		want = (w.spec.Dims + 7) / 8
	}
	if len(r.Code) != want && (r.Code != nil || w.spec.Kind != Signs) {
		return refuse("code", fmt.Sprintf("has %d bytes", len(r.Code)), fmt.Sprint(want), "make it with the segment's model")
	}
	if !(r.Scale >= 0 && r.Bound >= 0) || math.IsInf(float64(r.Scale), 0) || math.IsInf(float64(r.Bound), 0) {
		return refuse("scale, bound", "are not numbers that can be used", "0 or more, finite", "quantise the vector again")
	}
	return nil
}

// Finish writes the segment out and returns its name. The same rows and spec give
// the same name. After an error there is no file.
func (w *Writer) Finish() (name string, err error) {
	defer func() {
		if closing := w.Abandon(); closing != nil {
			err = errors.Join(err, closing)
		}
	}()
	for i := range checks {
		if i != codes {
			if err := w.parts[i].copyTo(sectionWriter{w}); err != nil {
				return "", fmt.Errorf("write a segment: %w", err)
			}
		}
		w.append(make([]byte, padded(w.body.n)-w.body.n))
		w.checks.end()
	}
	list := w.checks.list
	w.append(list)
	if err := w.failed(); err != nil {
		return "", err
	}
	name, err = w.body.publish(w.header.encode(checksum(list)), SegmentSuffix)
	if err != nil {
		return "", fmt.Errorf("finish a segment: %w", err)
	}
	return name, nil
}

// Abandon removes what was written, unless the segment is finished.
func (w *Writer) Abandon() error {
	var errs []error
	for _, part := range w.parts {
		if part != nil {
			errs = append(errs, part.close())
		}
	}
	return errors.Join(append(errs, w.body.abandon(nil))...)
}

// sectionWriter is [Writer.append] as an [io.Writer].
type sectionWriter struct{ w *Writer }

// Write implements [io.Writer].
func (s sectionWriter) Write(p []byte) (int, error) {
	s.w.append(p)
	if s.w.err != nil {
		return 0, s.w.err
	}
	return len(p), nil
}

// checksums counts the checksum of each chunk of a section.
type checksums struct {
	list []byte
	crc  uint32
	n    int // bytes of the chunk in hand
}

func (c *checksums) write(p []byte) {
	for len(p) > 0 {
		take := min(len(p), ChunkBytes-c.n)
		c.crc = checksumOn(c.crc, p[:take])
		c.n += take
		p = p[take:]
		if c.n == ChunkBytes {
			c.end()
		}
	}
}

func (c *checksums) end() {
	if c.n > 0 {
		c.list = binary.LittleEndian.AppendUint32(c.list, c.crc)
	}
	c.crc, c.n = 0, 0
}
