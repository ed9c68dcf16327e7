package layout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// ValuesSuffix ends the names of value files of int8 rows, FloatsSuffix that of
// those with the float32 vectors of records.
const (
	ValuesSuffix = ".i8"
	FloatsSuffix = ".f32"
)

// Where a value file's header has what is its own.
const (
	atNumber      = 128
	atSlots       = 136
	atErased      = 144
	atValuesBytes = 152
	atErasedCheck = 160
)

// Values is an opened value file: rows of int8, each with its norm and checksum, or
// of float32, each with its checksum.
// Its methods may be called concurrently. What they return is the mapping itself:
// it must not be changed, nor used after [Values.Close].
type Values struct {
	header ValuesHeader
	sum    []byte
	file   *mapped
	erased []uint32
}

// stride is the distance from one row to the next. int8: the components, zeroes up
// to a multiple of 8, the norm (i32) and the checksum (u32). float32: the
// components and the checksum.
func (h ValuesHeader) stride() int {
	if h.Floats {
		return 4*h.Dims + 4
	}
	return (h.Dims+7)/8*8 + 8
}

// rowBytes is how many bytes the components of a row are.
func (h ValuesHeader) rowBytes() int {
	if h.Floats {
		return 4 * h.Dims
	}
	return h.Dims
}

// mark and suffix tell the two kinds of file apart.
func (h ValuesHeader) mark() string {
	if h.Floats {
		return floatsMark
	}
	return valuesMark
}

func (h ValuesHeader) suffix() string {
	if h.Floats {
		return FloatsSuffix
	}
	return ValuesSuffix
}

// OpenValues maps a value file of a folder, as [OpenSegment] does a segment. Its
// name says which of the two kinds it must be.
func OpenValues(dir, name string, of Source) (*Values, error) {
	m, err := openMapped(dir, name)
	if err != nil {
		return nil, err
	}
	var v *Values
	err = Guard(func() (err error) {
		v, err = newValues(m, of)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	return v, nil
}

func newValues(m *mapped, of Source) (*Values, error) {
	h := ValuesHeader{Floats: strings.HasSuffix(m.name, FloatsSuffix)}
	p, err := openPage(m.bytes, m.name, h.suffix(), h.mark())
	if err != nil {
		return nil, err
	}
	version := int(p.get16(8))
	if version < oldestVersion || version > Version {
		return nil, &VersionError{File: m.name, Version: version}
	}
	v := &Values{header: h, file: m, sum: p[atSum : atSum+32]}
	var ok bool
	if v.header.Source, ok = p.source(); !ok {
		return nil, v.damage("header", -1, "it names no source")
	}
	if v.header.Source != of {
		return nil, foreign(m.name, v.header.Source)
	}
	slots, erased := p.get64(atSlots), p.get64(atErased)
	if slots > maxRows || erased > slots {
		return nil, v.damage("header", -1, "a count is out of range")
	}
	v.header.Number, v.header.Slots, v.header.Erased = p.get32(atNumber), int(slots), int(erased)
	again := v.header.encode(version, p.get32(atErasedCheck))
	copy(again[atSum:], v.sum)
	again.put32(atCheck, p.get32(atCheck))
	if string(again) != string(p) {
		return nil, v.damage("header", -1, "it does not follow from its counts")
	}
	if size := v.header.fileBytes(); size != int64(len(m.bytes)) {
		return nil, v.damage("header", -1, fmt.Sprintf("the file has %d bytes, not %d", len(m.bytes), size))
	}
	list := m.bytes[HeaderBytes+v.header.slotBytes():]
	if checksum(list) != p.get32(atErasedCheck) {
		return nil, v.damage("erased", -1, "its checksum does not match")
	}
	v.erased = slices.Clone(view[uint32](list))
	for i, slot := range v.erased {
		if int(slot) >= v.header.Slots || i > 0 && slot <= v.erased[i-1] {
			return nil, v.damage("erased", -1, "it names no slot, or not in order")
		}
	}
	return v, nil
}

func (h ValuesHeader) slotBytes() int64 { return int64(h.Slots) * int64(h.stride()) }

func (h ValuesHeader) fileBytes() int64 { return HeaderBytes + h.slotBytes() + int64(h.Erased)*4 }

// encode makes the header page, but for what [page.seal] adds.
func (h ValuesHeader) encode(version int, erasedCheck uint32) page {
	p := newPage(h.mark(), version)
	p.putSource(h.Source)
	p.put32(atRowBytes, uint32(h.stride()))
	p.put32(atNumber, h.Number)
	p.put64(atSlots, uint64(h.Slots))
	p.put64(atErased, uint64(h.Erased))
	p.put64(atValuesBytes, uint64(h.fileBytes()))
	p.put32(atErasedCheck, erasedCheck)
	return p
}

func (v *Values) damage(section string, at int, problem string) error {
	return &DamageError{File: v.file.name, Section: section, Chunk: at, Problem: problem}
}

// Name is the file's name: its content address and [ValuesSuffix] or
// [FloatsSuffix].
func (v *Values) Name() string { return v.file.name }

// Header is what the file says of itself.
func (v *Values) Header() ValuesHeader { return v.header }

// Mapped is the whole file, for advice to the system about its pages.
func (v *Values) Mapped() []byte { return v.file.bytes }

// Intact is [Segment.Intact] for a value file.
func (v *Values) Intact() error { return v.file.intact() }

// Current is [Segment.Current] for a value file.
func (v *Values) Current(dir string) bool { return v.file.current(dir) }

// Close unmaps the file. Nobody may read it any more.
func (v *Values) Close() error { return v.file.close() }

// Slots is all rows, Stride bytes apart, unverified: for a kernel that works on a
// list of slots that [Values.Norm] or [Values.Row] was asked about before.
func (v *Values) Slots() []byte {
	return v.file.bytes[HeaderBytes : HeaderBytes+v.header.slotBytes()]
}

// Stride is the distance in bytes from one row of [Values.Slots] to the next.
func (v *Values) Stride() int { return v.header.stride() }

// Extent is where a slot stands in [Values.Mapped], to prefetch it.
func (v *Values) Extent(slot uint32) (from, to int64) {
	from = HeaderBytes + int64(slot)*int64(v.Stride())
	return from, from + int64(v.Stride())
}

// Norm verifies a row of int8 and returns the sum of the squares of its components, 1 or
// more. An erased slot is [ErrErased].
func (v *Values) Norm(slot uint32) (int32, error) {
	if v.header.Floats {
		return 0, v.damage("slots", int(slot), "they are of float32, which have no norm")
	}
	_, norm, err := v.Row(slot)
	return norm, err
}

// Row verifies a row, each time, and returns its components: as memory.Int8 gives
// them, with their norm, or as [FloatBytes] does, without. An erased slot is
// [ErrErased].
func (v *Values) Row(slot uint32) (values []byte, norm int32, err error) {
	if int64(slot) >= int64(v.header.Slots) {
		return nil, 0, v.damage("slots", int(slot), fmt.Sprintf("the file has %d", v.header.Slots))
	}
	if _, gone := slices.BinarySearch(v.erased, slot); gone {
		return nil, 0, fmt.Errorf("%w: slot %d of %s", ErrErased, slot, v.Name())
	}
	from, to := v.Extent(slot)
	b := v.file.bytes[from:to:to]
	err = Guard(func() error {
		if !v.header.Floats {
			norm = int32(binary.LittleEndian.Uint32(b[len(b)-8:]))
		}
		sum := binary.LittleEndian.Uint32(b[len(b)-4:])
		if !v.header.Floats && norm < 1 || rowChecksum(v.header.Number, slot, b[:len(b)-4]) != sum {
			return v.damage("slots", int(slot), "its checksum does not match")
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	n := v.header.rowBytes()
	return b[:n:n], norm, nil
}

// Vector verifies a row of float32, each time, and returns it. An erased slot is
// [ErrErased], a file of int8 [ErrDamaged]: nothing that wants floats points there.
func (v *Values) Vector(slot uint32) ([]float32, error) {
	if !v.header.Floats {
		return nil, v.damage("slots", int(slot), "they are of int8, not of float32")
	}
	b, _, err := v.Row(slot)
	return view[float32](b), err
}

// FloatBytes appends a vector's components as rows of float32 have them.
func FloatBytes(into []byte, vector []float32) []byte {
	for _, x := range vector {
		into = binary.LittleEndian.AppendUint32(into, math.Float32bits(x))
	}
	return into
}

// rowChecksum covers a row's bytes and where they belong, so that a row in
// another's place is damage.
func rowChecksum(number, slot uint32, b []byte) uint32 {
	var place [8]byte
	binary.LittleEndian.PutUint32(place[:], number)
	binary.LittleEndian.PutUint32(place[4:], slot)
	crc := ^uint32(0)
	for _, x := range place { // by hand: crc32 would have place on the heap, for each row
		crc = castagnoli[byte(crc)^x] ^ crc>>8
	}
	return checksumOn(^crc, b)
}
