package shards

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"recalld/layout"
	"recalld/memory"
	"recalld/sqlite"
)

const (
	// segmentBytes and valueBytes are how many bytes of codes a segment has, and of
	// rows a value file, one record excepted. An erasure writes each file that had
	// the record anew, so that they are smaller than they could be.
	segmentBytes = 64 << 20
	valueBytes   = 64 << 20
)

// draft writes the rows of one kind and model as segments, in the order of files,
// and what they point at as value files: int8 rows of blocks, float32 vectors of
// records. One goroutine uses it; finish or abandon
// ends it.
type draft struct {
	dir     string
	spec    layout.Spec
	run     uint64
	number  func() uint32 // of the next value file
	segment *layout.Writer
	entry   segmentEntry
	values  *layout.ValuesWriter
	floats  []byte // room for one vector
	inHand  uint32 // number of values
	begun   bool
	cell    layout.Cell // of the record before
	ref     memory.Ref

	segments []segmentEntry
	files    []valuesEntry

	maxSegment, maxValues int64
}

// rowBytes is how many bytes of codes a row has.
func rowBytes(kind layout.Kind, dims int) int64 {
	if kind == layout.Int8 {
		return int64(dims)
	}
	return int64((dims + 63) / 64 * 8)
}

// begin makes room for the rows of one record, which follows the one before, also
// where a segment ends.
func (d *draft) begin(cell layout.Cell, ref memory.Ref, rows int) (err error) {
	if order := cell.Compare(d.cell); d.begun && (order < 0 || order == 0 && memory.CompareRefs(ref, d.ref) <= 0) {
		return fmt.Errorf("%v comes after %v, which it precedes or is", ref, d.ref)
	}
	d.begun, d.cell, d.ref = true, cell, ref
	if d.segment != nil && (!d.segment.Fits(rows) || int64(d.segment.Rows()+rows)*rowBytes(d.spec.Kind, d.spec.Dims) > d.maxSegment) {
		if err := d.finishSegment(); err != nil {
			return err
		}
	}
	if d.segment == nil {
		if d.segment, err = layout.Create(d.dir, d.spec); err != nil {
			return err
		}
		d.entry = segmentEntry{Model: d.spec.Model, Kind: d.spec.Kind, Run: d.run, First: cell.Agent}
	}
	d.entry.Last = cell.Agent
	return nil
}

// add appends one row of the record that was begun.
func (d *draft) add(r layout.Row) error {
	if n := r.Value.File; !d.spec.Lean && r.Value != layout.NoPointer() && !slices.Contains(d.entry.Files, n) {
		d.entry.Files = append(d.entry.Files, n)
	}
	return d.segment.Add(r)
}

// set appends the blocks of one record.
func (d *draft) set(cell layout.Cell, s sqlite.CodedSet) error {
	if err := d.begin(cell, s.Ref, s.N); err != nil {
		return err
	}
	width := (d.spec.Dims + 7) / 8
	for i := range s.N {
		row := layout.Row{Cell: cell, Ref: s.Ref, Block: i, Value: layout.NoPointer()}
		if !slices.Contains(s.Unembeddable, i) {
			row.Code = s.Bits[i*width : (i+1)*width]
			if values := valuesOf(s, i, d.spec.Dims); values != nil && !d.spec.Lean {
				var err error
				if row.Value, err = d.point(values); err != nil {
					return err
				}
			}
		}
		if err := d.add(row); err != nil {
			return err
		}
	}
	return nil
}

// valuesOf is the int8 row of a block; nil when it has none that a file can keep:
// without a direction, or with a component that no code has.
func valuesOf(s sqlite.CodedSet, block, dims int) []byte {
	if len(s.Values) < (block+1)*dims {
		return nil
	}
	values := s.Values[block*dims : (block+1)*dims]
	if bytes.IndexByte(values, 0x80) >= 0 || !slices.ContainsFunc(values, func(b byte) bool { return b != 0 }) {
		return nil
	}
	return values
}

// vector appends the vector of one record.
func (d *draft) vector(cell layout.Cell, ref memory.Ref, v vectorCode) error {
	if err := d.begin(cell, ref, 1); err != nil {
		return err
	}
	row := layout.Row{Cell: cell, Ref: ref, Code: v.code, Scale: v.scale, Bound: v.bound}
	if !d.spec.Lean {
		d.floats = layout.FloatBytes(d.floats[:0], v.vector)
		var err error
		if row.Value, err = d.point(d.floats); err != nil {
			return err
		}
	}
	return d.add(row)
}

// point appends a row to the value file in hand and returns where it is.
func (d *draft) point(values []byte) (layout.Pointer, error) {
	if d.values != nil && d.values.SlotBytes()+int64(len(values))+15 > d.maxValues {
		if err := d.finishValues(); err != nil {
			return layout.Pointer{}, err
		}
	}
	if d.values == nil {
		d.inHand = d.number()
		w, err := layout.CreateValues(d.dir, layout.ValuesSpec{Source: d.spec.Source, Number: d.inHand, Floats: d.spec.Kind == layout.Int8})
		if err != nil {
			return layout.Pointer{}, err
		}
		d.values = w
	}
	return d.values.Add(values)
}

func (d *draft) finishSegment() error {
	if d.segment == nil {
		return nil
	}
	e := d.entry
	e.Rows = int64(d.segment.Rows())
	name, err := d.segment.Finish()
	d.segment = nil
	if err != nil {
		return err
	}
	e.Name = name
	e.Bytes, err = fileBytes(d.dir, name)
	d.segments = append(d.segments, e)
	return err
}

func (d *draft) finishValues() error {
	if d.values == nil {
		return nil
	}
	w := d.values
	d.values = nil
	slots := int64(w.Slots())
	if slots == 0 {
		return w.Abandon()
	}
	name, err := w.Finish()
	if err != nil {
		return err
	}
	e := valuesEntry{Name: name, Model: d.spec.Model, Number: d.inHand, Slots: slots}
	e.Bytes, err = fileBytes(d.dir, name)
	d.files = append(d.files, e)
	return err
}

// finish writes out what is open.
func (d *draft) finish() error {
	return errors.Join(d.finishSegment(), d.finishValues())
}

// abandon removes what is open. Files that are finished are the caller's.
func (d *draft) abandon() error {
	var all error
	if d.segment != nil {
		all = d.segment.Abandon()
	}
	if d.values != nil {
		all = errors.Join(all, d.values.Abandon())
	}
	d.segment, d.values = nil, nil
	return all
}

// names are the files that are finished.
func (d *draft) names() (names []string) {
	for _, s := range d.segments {
		names = append(names, s.Name)
	}
	for _, v := range d.files {
		names = append(names, v.Name)
	}
	return names
}

func fileBytes(dir, name string) (int64, error) {
	info, err := os.Stat(filepath.Join(dir, name))
	if err != nil {
		return 0, fmt.Errorf("look at a file that was just written: %w", err)
	}
	return info.Size(), nil
}
