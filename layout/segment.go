package layout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// SegmentSuffix ends the names of segments.
const SegmentSuffix = ".bits"

// Segment is an opened segment. It keeps the mapping and a bit for each MiB, and
// nothing for each cell or row. Its methods may be called concurrently.
//
// What its methods return is the mapping itself: it must not be changed, nor used
// after [Segment.Close]. Reading it faults where somebody has cut the file: ask
// [Segment.Intact] first, and read inside [Guard].
type Segment struct {
	header   Header
	sum      []byte // SHA-256 of everything behind the header
	file     *mapped
	chunks   chunks
	parented atomic.Bool // the table of records was checked
}

// OpenSegment maps a segment of a folder and reads its header. A file of another
// source is [ErrForeign], as is one whose name is another's; see also
// [ErrDamaged] and [ErrVersion]. Everything else is verified when it is first
// used.
func OpenSegment(dir, name string, of Source) (*Segment, error) {
	m, err := openMapped(dir, name)
	if err != nil {
		return nil, err
	}
	var s *Segment
	err = Guard(func() (err error) {
		s, err = newSegment(m, of)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	return s, nil
}

func newSegment(m *mapped, of Source) (*Segment, error) {
	h, checksCheck, sum, err := decodeHeader(m.bytes, m.name)
	if err != nil {
		return nil, err
	}
	if h.Source != of {
		return nil, foreign(m.name, h.Source)
	}
	laid := lay(h)
	s := &Segment{header: h, sum: sum, file: m, chunks: chunks{name: m.name, bytes: m.bytes, plan: laid, verified: make([]atomic.Uint32, (laid.first[checks]+31)/32)}}
	if checksum(s.chunks.section(checks)) != checksCheck {
		return nil, s.chunks.damage(checks, -1, "its checksum does not match")
	}
	s.chunks.want = slices.Clone(view[uint32](s.chunks.section(checks)))
	return s, nil
}

func foreign(name string, s Source) error {
	return fmt.Errorf("%w: %s is of model %d with %d components, of store %s", ErrForeign, name, s.Model, s.Dims, s.TruthID)
}

// Name is the file's name: its content address and [SegmentSuffix].
func (s *Segment) Name() string { return s.file.name }

// Header is what the file says of itself.
func (s *Segment) Header() Header { return s.header }

// RowBytes is the length of a row of codes, and the distance to the next one.
func (s *Segment) RowBytes() int { return s.header.Kind.rowBytes(s.header.Dims) }

// Mapped is the whole file, for advice to the system about its pages.
func (s *Segment) Mapped() []byte { return s.file.bytes }

// Intact reports [ErrDamaged] when the file was cut, lengthened or written to
// since it was opened. It costs one call to the system; ask before a scan.
func (s *Segment) Intact() error { return s.file.intact() }

// Current reports whether the file is [Segment.Intact], and the folder dir has no
// other one under its name: a file that was made anew has the name that it had. A
// file that was removed stays current.
func (s *Segment) Current(dir string) bool { return s.file.current(dir) }

// Close unmaps the file. Nobody may read it any more.
func (s *Segment) Close() error { return s.file.close() }

// Touch verifies, as far as that was not done before, everything that a scan of
// the rows reads: codes, scales and bounds, and the table of records.
func (s *Segment) Touch(rows ...Range) error {
	if _, err := s.Rows(); err != nil {
		return err
	}
	for _, r := range rows {
		if err := s.checkRange(r); err != nil {
			return err
		}
		for _, section := range []int{codes, scales, bounds} {
			width := s.chunks.plan.sections[section].n / int64(max(1, s.header.Rows))
			if err := s.chunks.touch(section, int64(r.From)*width, int64(r.To)*width); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Segment) checkRange(r Range) error {
	if r.From < 0 || r.From > r.To || r.To > s.header.Rows {
		return fmt.Errorf("rows %d to %d of %s, which has %d", r.From, r.To, s.Name(), s.header.Rows)
	}
	return nil
}

// Codes is the matrix of all codes, rows × [Segment.RowBytes], from a place that
// is a multiple of 64 bytes on. Only rows that [Segment.Touch] was given are
// verified. A row without a code is zero.
func (s *Segment) Codes() []byte { return s.chunks.section(codes) }

// Scales is the scale of each row's int8 code, and Bounds how far it may be from
// its vector: as [Segment.Codes]; nil for segments of signs.
func (s *Segment) Scales() []float32 { return view[float32](s.chunks.section(scales)) }

// Bounds goes with [Segment.Scales].
func (s *Segment) Bounds() []float32 { return view[float32](s.chunks.section(bounds)) }

// Absent is the rows that have no code and are in no answer, ascending. They
// count as rows of their records (BR-039).
func (s *Segment) Absent() ([]uint32, error) {
	b := s.chunks.section(absent)
	if err := s.chunks.touch(absent, 0, int64(len(b))); err != nil {
		return nil, err
	}
	rows := view[uint32](b)
	for i, row := range rows {
		if int(row) >= s.header.Rows || i > 0 && row <= rows[i-1] {
			return nil, s.chunks.damage(absent, i*4/ChunkBytes, "it names no row, or not in order")
		}
	}
	return rows, nil
}

// Pointer is where a row's values are; [NoPointer] when there are none, as in int8
// segments of version 1.
func (s *Segment) Pointer(row int) (Pointer, error) {
	if err := s.checkRange(Range{row, row + 1}); err != nil {
		return Pointer{}, err
	}
	b := s.chunks.section(pointers)
	if len(b) == 0 {
		return NoPointer(), nil
	}
	at := int64(row) * pointerBytes
	if err := s.chunks.touch(pointers, at, at+pointerBytes); err != nil {
		return Pointer{}, err
	}
	return Pointer{binary.LittleEndian.Uint32(b[at:]), binary.LittleEndian.Uint32(b[at+4:])}, nil
}
