package layout

import (
	"encoding/binary"
	"errors"
	"testing"

	"recalld/memory"
)

// A file that the fuzzer gets at is one of a few, cut or longer, with some bytes
// replaced: small inputs that reach every byte.
type fuzzed struct {
	wholes [][]byte
	suffix string
}

// apply makes the file of an input. Three bytes of a patch are a place, of which
// every second one is among the first 512, and what to put there.
func (f fuzzed) apply(which uint8, grow int16, patch []byte) []byte {
	whole := f.wholes[int(which)%len(f.wholes)]
	b := make([]byte, max(0, len(whole)+int(grow)))
	copy(b, whole)
	for ; len(patch) >= 3 && len(b) > 0; patch = patch[3:] {
		at := int(binary.LittleEndian.Uint16(patch))
		if at%2 == 0 {
			at = at / 2 % 512
		}
		b[at%len(b)] = patch[2]
	}
	return b
}

func (f fuzzed) seed(add func(...any)) {
	for i := range f.wholes {
		for _, mended := range []bool{true, false} {
			add(uint8(i), int16(0), []byte{0, 0, 'R'}, mended)
			add(uint8(i), int16(-8), []byte{0x20, 1, 3, 0x21, 17, 255}, mended)
			add(uint8(i), int16(64), []byte{0x20, 1, 9, 0x41, 16, 1}, mended)
		}
	}
}

// No bytes make the reader panic or leave the file, and rows are always inside it.
// mended bytes have right checksums, so that what is behind them is reached.
//
// DECISIONS 30
func FuzzOpenSegment(f *testing.F) {
	dir := f.TempDir()
	lean := spec(Signs, 65)
	lean.Lean = true
	files := fuzzed{suffix: SegmentSuffix}
	for _, s := range []Spec{spec(Signs, 64), lean, spec(Int8, 5)} {
		files.wholes = append(files.wholes, read(f, dir, write(f, dir, s, sampleRows(1, s.Kind, s.Dims, 12))))
	}
	files.seed(f.Add)
	f.Fuzz(func(t *testing.T, which uint8, grow int16, patch []byte, mended bool) {
		b := files.apply(which, grow, patch)
		name, of := files.identify(b, mended, mendSegment)
		s, err := newSegment(&mapped{name: name, bytes: b}, of)
		if err != nil {
			known(t, err)
			return
		}
		useSegment(t, s)
	})
}

// identify returns the name and the source that let a file be opened.
func (f fuzzed) identify(b []byte, mended bool, mend func([]byte)) (name string, of Source) {
	if len(b) < HeaderBytes {
		return "short", of
	}
	if mended {
		mend(b)
	}
	of, _ = page(b).source()
	return addressOf(b[:HeaderBytes], f.suffix), of
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
	h := Header{version: int(p.get16(8)), Source: of, Kind: Kind(p.get16(atKind)), Lean: p.get32(atFlags)&flagLean != 0, Sequence: int64(p.get64(atSequence)), Lineage: int64(p.get64(atLineage)),
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
	fuzzValues(f, fuzzed{[][]byte{read(f, dir, writeValues(f, dir, 5, 1, sampleValues(1, 5, 12))), read(f, dir, writeValues(f, dir, 64, 1, sampleValues(1, 64, 5)))}, ValuesSuffix})
}

// As FuzzOpenSegment.
//
// DECISIONS 30
func FuzzOpenFloats(f *testing.F) {
	dir := f.TempDir()
	fuzzValues(f, fuzzed{[][]byte{read(f, dir, writeFloats(f, dir, 5, 1, sampleFloats(1, 5, 12))), read(f, dir, writeFloats(f, dir, 32, 1, sampleFloats(1, 32, 5)))}, FloatsSuffix})
}

func fuzzValues(f *testing.F, files fuzzed) {
	files.seed(f.Add)
	f.Fuzz(func(t *testing.T, which uint8, grow int16, patch []byte, mended bool) {
		b := files.apply(which, grow, patch)
		name, of := files.identify(b, mended, mendValues)
		v, err := newValues(&mapped{name: name, bytes: b}, of)
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
			case len(row) != h.rowBytes() || (norm < 1) != h.Floats:
				t.Fatalf("slot %d has %d bytes and norm %d", slot, len(row), norm)
			}
			if vector, err := v.Vector(slot); err == nil && (len(vector) != h.Dims || !h.Floats) {
				t.Fatalf("slot %d has %d components", slot, len(vector))
			}
		}
	})
}

// mendValues is mendSegment for value files.
func mendValues(b []byte) {
	p := page(b)
	of, ok := p.source()
	h := ValuesHeader{Source: of, Floats: string(p[:8]) == floatsMark, Number: p.get32(atNumber), Slots: int(p.get16(atSlots)), Erased: int(p.get16(atErased))}
	if !ok || h.fileBytes() != int64(len(b)) {
		return
	}
	copy(b, h.encode(Version, checksum(b[HeaderBytes+h.slotBytes():])))
	p.put32(atCheck, checksum(p[:atCheck]))
}
