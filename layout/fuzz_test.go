package layout

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"recalld/memory"
)

// No bytes make the reader panic or leave the file, and rows are always inside it.
// mended bytes have right checksums, so that what is behind them is reached.
//
// DECISIONS 30
func FuzzOpenSegment(f *testing.F) {
	dir := f.TempDir()
	lean := spec(Signs, 65)
	lean.Lean = true
	for _, s := range []Spec{spec(Signs, 64), lean, spec(Int8, 5)} {
		b := read(f, dir, write(f, dir, s, sampleRows(1, s.Kind, s.Dims, 12)))
		f.Add(b, true)
		f.Add(b, false)
	}
	f.Fuzz(func(t *testing.T, b []byte, mended bool) {
		if len(b) < HeaderBytes {
			if _, err := newSegment(&mapped{name: "short", bytes: b}, source(64)); err == nil {
				t.Error("a file without a header opens")
			}
			return
		}
		b = bytes.Clone(b)
		if mended {
			mendSegment(b)
		}
		of, _ := page(b).source()
		s, err := newSegment(&mapped{name: addressOf(b[:HeaderBytes], SegmentSuffix), bytes: b}, of)
		if err != nil {
			known(t, err)
			return
		}
		useSegment(t, s)
	})
}

// known fails for an error that is none of the package's kinds.
func known(t *testing.T, err error) {
	if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrVersion) && !errors.Is(err, ErrForeign) {
		t.Errorf("a strange error: %v", err)
	}
}

// mendSegment gives bytes that could be a segment the checksums that they need.
func mendSegment(b []byte) {
	p := page(b)
	of, ok := p.source()
	h := Header{Source: of, Kind: Kind(p.get16(atKind)), Lean: p.get32(atFlags)&flagLean != 0, Sequence: int64(p.get64(atSequence)), Lineage: int64(p.get64(atLineage)),
		Rows: int(p.get16(atRows)), Parents: int(p.get16(atParents)), Cells: int(p.get16(atCells)), Absent: int(p.get16(atAbsent))}
	laid := lay(h)
	if !ok || laid.fileSize != int64(len(b)) {
		return
	}
	sums := b[laid.sections[checks].at:]
	for i := range checks {
		for chunk := range laid.sections[i].chunks() {
			from := laid.sections[i].at + int64(chunk)*ChunkBytes
			binary.LittleEndian.PutUint32(sums[4*(laid.first[i]+chunk):], checksum(b[from:min(from+ChunkBytes, laid.sections[i].end())]))
		}
	}
	copy(b, h.encode(checksum(sums)))
	p.put32(atCheck, checksum(p[:atCheck]))
}

// useSegment asks everything of an opened segment.
func useSegment(t *testing.T, s *Segment) {
	h := s.Header()
	inside := func(r Range, err error) bool {
		if err != nil {
			known(t, err)
			return false
		}
		if r.From < 0 || r.From > r.To || r.To > h.Rows {
			t.Fatalf("rows %v of %d", r, h.Rows)
		}
		return true
	}
	if err := s.Verify(t.Context(), nil); err != nil {
		known(t, err)
	}
	if len(s.Codes()) != h.Rows*s.RowBytes() || h.Kind == Int8 && (len(s.Scales()) != h.Rows || len(s.Bounds()) != h.Rows) {
		t.Fatal("matrices have another size")
	}
	if err := s.Touch(Range{0, h.Rows}); err != nil {
		known(t, err)
	}
	if none, err := s.Absent(); err != nil {
		known(t, err)
	} else if len(none) > h.Rows {
		t.Fatal("more rows are absent than there are")
	}
	table, tableErr := s.Rows()
	for i := range min(h.Cells, 50) {
		cell, r, err := s.Cell(i)
		if !inside(r, err) {
			continue
		}
		inside(s.CellRows(cell))
		for _, scope := range []Scope{{Agent: cell.Agent}, {cell.Agent, &cell.Project, nil}, {cell.Agent, nil, &cell.Channel}, {cell.Agent, &cell.Project, &cell.Channel}} {
			ranges, err := s.Ranges(scope)
			if err != nil {
				known(t, err)
			}
			for _, r := range ranges {
				inside(r, nil)
			}
		}
		if tableErr == nil {
			if found, ok := table.Find(r, memory.Ref{Kind: memory.KindMemory, ID: 3}); ok {
				inside(found, nil)
			}
		}
	}
	for row := range min(h.Rows, 50) {
		if _, err := s.Pointer(row); err != nil {
			known(t, err)
		}
		if tableErr != nil {
			known(t, tableErr)
			break
		}
		first, end := table.Run(row)
		inside(Range{first, end}, nil)
		if first > row || end <= row {
			t.Fatalf("row %d is not in its record, rows %d to %d", row, first, end)
		}
		table.At(row)
		table.Precedes(uint32(row), 0)
	}
}

// As FuzzOpenSegment.
//
// DECISIONS 30
func FuzzOpenValues(f *testing.F) {
	dir := f.TempDir()
	b := read(f, dir, writeValues(f, dir, 5, 1, sampleValues(1, 5, 12)))
	f.Add(b, true)
	f.Add(b, false)
	f.Fuzz(func(t *testing.T, b []byte, mended bool) {
		if len(b) < HeaderBytes {
			if _, err := newValues(&mapped{name: "short", bytes: b}, source(64)); err == nil {
				t.Error("a file without a header opens")
			}
			return
		}
		b = bytes.Clone(b)
		if mended {
			mendValues(b)
		}
		of, _ := page(b).source()
		v, err := newValues(&mapped{name: addressOf(b[:HeaderBytes], ValuesSuffix), bytes: b}, of)
		if err != nil {
			known(t, err)
			return
		}
		if err := v.Verify(t.Context(), nil); err != nil {
			known(t, err)
		}
		h := v.Header()
		for slot := range uint32(min(h.Slots+1, 50)) {
			row, norm, err := v.Row(slot)
			switch {
			case errors.Is(err, ErrErased):
			case err != nil:
				known(t, err)
			case len(row) != h.Dims || norm < 1:
				t.Fatalf("slot %d has %d components and norm %d", slot, len(row), norm)
			}
		}
	})
}

func mendValues(b []byte) {
	p := page(b)
	of, ok := p.source()
	h := ValuesHeader{Source: of, Number: p.get32(atNumber), Slots: int(p.get16(atSlots)), Erased: int(p.get16(atErased))}
	if !ok || h.fileBytes() != int64(len(b)) {
		return
	}
	copy(b, h.encode(checksum(b[HeaderBytes+h.slotBytes():])))
	p.put32(atCheck, checksum(p[:atCheck]))
}
