package layout

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"

	"recalld/memory"
)

const (
	// Version is the version of the files that this package writes.
	Version       = 2
	oldestVersion = 1 // that it reads

	// HeaderBytes is the length of the first page of every file.
	HeaderBytes = 4096
	// ChunkBytes is how much one checksum of a segment covers.
	ChunkBytes = 1 << 20
	// MaxCodes is the most bytes of codes in a segment, one record's larger codes
	// excepted.
	MaxCodes = 256 << 20
	// MaxDims is the most components of a row.
	MaxDims = 16_384

	align       = 64 // of the start of every section
	maxTruthID  = 63
	maxRows     = 1<<32 - 1
	segmentMark = "RECALLSG"
	valuesMark  = "RECALLI8"
	floatsMark  = "RECALLF4"
)

// Kind says what the codes of a segment are.
type Kind uint16

// The kinds of segment. Numbers are in files and are never given again.
const (
	Signs Kind = 1 // one bit a component, as memory.Signs, each row padded with zero bits to whole 64
	Int8  Kind = 2 // one byte a component, as memory.Int8, with a scale and an error a row
	// 3 and 4 are for codes of 2 and 4 bits a component (DECISIONS 21).
)

// rowBytes is how long a row of codes is, 0 for an unknown kind.
func (k Kind) rowBytes(dims int) int {
	switch k {
	case Signs:
		return (dims + 63) / 64 * 8
	case Int8:
		return dims
	}
	return 0
}

// Source says what the rows of a file were made from. Files are opened for one.
type Source struct {
	TruthID  string   // of the store, 1 to 63 bytes
	Model    int64    // its number in the store
	Identity [32]byte // SHA-256 of what identifies the model
	Dims     int      // components of its vectors, 1 to MaxDims
}

func (s Source) check() error {
	if len(s.TruthID) < 1 || len(s.TruthID) > maxTruthID {
		return &memory.FieldError{Field: "truth id", Problem: fmt.Sprintf("has %d bytes", len(s.TruthID)), Limit: fmt.Sprintf("1 to %d", maxTruthID), Next: "take the store's"}
	}
	if s.Dims < 1 || s.Dims > MaxDims {
		return &memory.FieldError{Field: "dims", Problem: fmt.Sprintf("is %d", s.Dims), Limit: fmt.Sprintf("1 to %d", MaxDims), Next: "take the model's"}
	}
	return nil
}

// Header is what a segment says of itself. Sequence and Lineage name the change
// of the store up to which its rows are complete.
type Header struct {
	Source
	version  int // of the file; up to 1 rows of int8 segments have no pointers
	Kind     Kind
	Lean     bool // rows point at no values (DECISIONS 30)
	Sequence int64
	Lineage  int64
	Rows     int
	Parents  int // records
	Cells    int
	Absent   int // rows without a code
}

// ValuesHeader is what a value file says of itself.
type ValuesHeader struct {
	Source
	Floats bool   // its rows are float32 vectors of records, not int8 rows of blocks
	Number uint32 // by which segments point at it; the catalog knows which file has it
	Slots  int
	Erased int // slots that hold nothing any more
}

// A page is a header under construction or inspection, little-endian.
type page []byte

func newPage(mark string, version int) page {
	p := make(page, HeaderBytes)
	copy(p, mark)
	p.put16(8, uint16(version))
	return p
}

func (p page) put16(at int, v uint16) { binary.LittleEndian.PutUint16(p[at:], v) }
func (p page) put32(at int, v uint32) { binary.LittleEndian.PutUint32(p[at:], v) }
func (p page) put64(at int, v uint64) { binary.LittleEndian.PutUint64(p[at:], v) }
func (p page) get16(at int) uint16    { return binary.LittleEndian.Uint16(p[at:]) }
func (p page) get32(at int) uint32    { return binary.LittleEndian.Uint32(p[at:]) }
func (p page) get64(at int) uint64    { return binary.LittleEndian.Uint64(p[at:]) }

// Both kinds of file have these at the same places.
const (
	atKind     = 10
	atDims     = 12
	atRowBytes = 16
	atFlags    = 20
	atModel    = 24
	atIdentity = 32
	atTruthID  = 64
	atSum      = 384 // SHA-256 of everything behind the header
	atCheck    = HeaderBytes - 4
)

func (p page) putSource(s Source) {
	p.put32(atDims, uint32(s.Dims))
	p.put64(atModel, uint64(s.Model))
	copy(p[atIdentity:], s.Identity[:])
	p[atTruthID] = byte(len(s.TruthID))
	copy(p[atTruthID+1:], s.TruthID)
}

func (p page) source() (s Source, ok bool) {
	s.Dims, s.Model = int(p.get32(atDims)), int64(p.get64(atModel))
	copy(s.Identity[:], p[atIdentity:])
	n := int(p[atTruthID])
	if n > maxTruthID {
		return s, false
	}
	s.TruthID = string(p[atTruthID+1:][:n])
	return s, s.check() == nil
}

// seal ends a header. Its SHA-256 is the name of the file.
func (p page) seal(sum []byte, suffix string) (name string) {
	copy(p[atSum:], sum)
	p.put32(atCheck, checksum(p[:atCheck]))
	return addressOf(p, suffix)
}

func addressOf(header []byte, suffix string) string {
	sum := sha256.Sum256(header)
	return hex.EncodeToString(sum[:]) + suffix
}

// openPage verifies what both kinds of header have in common. Newer versions are
// told from damage by their checksum, which stays where it is.
func openPage(b []byte, name, suffix, mark string) (page, error) {
	damage := func(problem string) error {
		return &DamageError{File: name, Section: "header", Chunk: -1, Problem: problem}
	}
	if len(b) < HeaderBytes {
		return nil, damage(fmt.Sprintf("the file has %d bytes, fewer than its header", len(b)))
	}
	p := page(b[:HeaderBytes:HeaderBytes])
	if !bytes.Equal(p[:8], []byte(mark)) {
		return nil, damage("the file does not begin as it should")
	}
	if p.get32(atCheck) != checksum(p[:atCheck]) {
		return nil, damage("its checksum does not match")
	}
	if name != addressOf(p, suffix) {
		return nil, fmt.Errorf("%w: %s is another file than its name says", ErrForeign, name)
	}
	return p, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

func checksumOn(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

func padded(n int64) int64 { return (n + align - 1) / align * align }
