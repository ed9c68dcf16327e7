package layout

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"recalld/memory"
)

// ValuesSpec says which value file to write.
type ValuesSpec struct {
	Source
	Number uint32
	Floats bool // for float32 vectors of records, else for int8 rows of blocks
}

// ValuesWriter writes a value file, slot by slot. One goroutine uses it at a time;
// Finish or Abandon ends it.
type ValuesWriter struct {
	header ValuesHeader
	body   *body
	erased []byte
	row    []byte
}

// CreateValues begins a value file in a folder, under a temporary name.
func CreateValues(dir string, spec ValuesSpec) (*ValuesWriter, error) {
	if err := spec.Source.check(); err != nil {
		return nil, err
	}
	b, err := newBody(dir)
	if err != nil {
		return nil, fmt.Errorf("begin a value file: %w", err)
	}
	h := ValuesHeader{Source: spec.Source, Number: spec.Number, Floats: spec.Floats}
	return &ValuesWriter{header: h, body: b, row: make([]byte, h.stride())}, nil
}

// Slots is how many slots were written.
func (w *ValuesWriter) Slots() int { return w.header.Slots }

// SlotBytes is how many bytes all slots have so far.
func (w *ValuesWriter) SlotBytes() int64 { return w.header.slotBytes() }

// Add appends a row, as memory.Int8 or [FloatBytes] gives it, and returns where it
// is. What is not one is a *[memory.FieldError] and changes nothing; other errors
// end the writer.
func (w *ValuesWriter) Add(values []byte) (Pointer, error) {
	if len(values) != w.header.rowBytes() {
		return Pointer{}, &memory.FieldError{Field: "values", Problem: fmt.Sprintf("have %d bytes", len(values)), Limit: fmt.Sprint(w.header.rowBytes()), Next: "make them with the file's model"}
	}
	clear(w.row[copy(w.row, values):])
	if !w.header.Floats {
		norm := int32(0)
		for _, x := range values {
			norm += int32(int8(x)) * int32(int8(x))
		}
		if norm == 0 {
			return Pointer{}, &memory.FieldError{Field: "values", Problem: "are all zero", Limit: "a direction", Next: "leave the row without values"}
		}
		binary.LittleEndian.PutUint32(w.row[len(w.row)-8:], uint32(norm))
	}
	at, err := w.next()
	if err != nil {
		return Pointer{}, err
	}
	sum := w.row[len(w.row)-4:]
	binary.LittleEndian.PutUint32(sum, rowChecksum(at.File, at.Slot, w.row[:len(w.row)-4]))
	if _, err := w.body.Write(w.row); err != nil {
		return Pointer{}, fmt.Errorf("write a value file: %w", err)
	}
	return at, nil
}

// Skip leaves a slot that holds nothing.
func (w *ValuesWriter) Skip() error {
	at, err := w.next()
	if err != nil {
		return err
	}
	w.erased = binary.LittleEndian.AppendUint32(w.erased, at.Slot)
	w.header.Erased++
	clear(w.row)
	if _, err := w.body.Write(w.row); err != nil {
		return fmt.Errorf("write a value file: %w", err)
	}
	return nil
}

func (w *ValuesWriter) next() (Pointer, error) {
	if w.header.Slots >= maxRows-1 {
		return Pointer{}, &memory.FieldError{Field: "slots", Problem: fmt.Sprintf("are %d", w.header.Slots), Limit: fmt.Sprint(maxRows - 1), Next: "begin another value file"}
	}
	w.header.Slots++
	return Pointer{w.header.Number, uint32(w.header.Slots - 1)}, nil
}

// Finish writes the file out and returns its name. After an error there is no
// file.
func (w *ValuesWriter) Finish() (name string, err error) {
	if _, err = w.body.Write(w.erased); err == nil {
		name, err = w.body.publish(w.header.encode(Version, checksum(w.erased)), w.header.suffix())
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("finish a value file: %w", err), w.Abandon())
	}
	return name, nil
}

// Abandon removes what was written, unless the file is finished.
func (w *ValuesWriter) Abandon() error { return w.body.abandon(nil) }

// Erase writes a value file anew without the listed slots (DECISIONS 14). It has
// the same number, and every other row keeps its slot, so that nothing that
// points at it changes; the slots' bytes are zero. The old file is the caller's to
// remove. A row that is damaged ends it.
func (v *Values) Erase(ctx context.Context, dir string, slots []uint32) (name string, err error) {
	gone := slices.Concat(v.erased, slots)
	slices.Sort(gone)
	w, err := CreateValues(dir, ValuesSpec{Source: v.header.Source, Number: v.header.Number, Floats: v.header.Floats})
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Abandon())
		}
	}()
	for slot := range uint32(v.header.Slots) {
		if slot%4096 == 0 && ctx.Err() != nil {
			return "", ctx.Err()
		}
		if _, skip := slices.BinarySearch(gone, slot); skip {
			if err := w.Skip(); err != nil {
				return "", err
			}
			continue
		}
		values, _, err := v.Row(slot)
		if err != nil {
			return "", err
		}
		if _, err := w.Add(values); err != nil {
			return "", err
		}
	}
	return w.Finish()
}
