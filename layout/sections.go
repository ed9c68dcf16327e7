package layout

import (
	"fmt"
	"math"

	"recalld/memory"
)

// The sections of a segment, in the order of the file.
const (
	codes    = iota // rows × row bytes
	cells           // the directory: cells × 32 bytes
	parents         // records × 16 bytes
	absent          // rows without a code: u32 each, ascending
	pointers        // rows × (u32 file, u32 slot)
	scales          // rows × f32
	bounds          // rows × f32
	checks          // u32 for each chunk of the others
	sectionCount
)

const (
	cellBytes    = 32
	parentBytes  = 16
	pointerBytes = 8
)

func sectionName(i int) string {
	return [...]string{"codes", "cells", "parents", "absent", "pointers", "scales", "bounds", "checks"}[i]
}

// Where a segment's header has what is its own.
const (
	atSequence    = 128
	atLineage     = 136
	atRows        = 144
	atParents     = 152
	atCells       = 160
	atAbsent      = 168
	atFileBytes   = 176
	atSections    = 184 // how many
	atChecksCheck = 188 // CRC of the section checks
	atTable       = 192 // per section: u64 place, u64 length, u64 first check

	flagLean = 1
)

// An extent is where a section stands. Its checksums cover the padding behind it
// too.
type extent struct{ at, n int64 }

func (e extent) end() int64 { return e.at + padded(e.n) }

func (e extent) chunks() int { return int((padded(e.n) + ChunkBytes - 1) / ChunkBytes) }

// plan says how long the sections of a segment are and where they stand.
type plan struct {
	sections [sectionCount]extent
	first    [sectionCount]int // of a section's checks
	fileSize int64
}

// lay places the sections that follow from a header.
func lay(h Header) (p plan) {
	rows := int64(h.Rows)
	p.sections[codes].n = rows * int64(h.Kind.rowBytes(h.Dims))
	p.sections[cells].n = int64(h.Cells) * cellBytes
	p.sections[parents].n = int64(h.Parents) * parentBytes
	p.sections[absent].n = int64(h.Absent) * 4
	if !h.Lean && (h.Kind == Signs || h.version > 1) {
		p.sections[pointers].n = rows * pointerBytes
	}
	if h.Kind == Int8 {
		p.sections[scales].n, p.sections[bounds].n = rows*4, rows*4
	}
	at, chunks := int64(HeaderBytes), 0
	for i := range checks {
		p.sections[i].at, p.first[i] = at, chunks
		at, chunks = p.sections[i].end(), chunks+p.sections[i].chunks()
	}
	p.sections[checks] = extent{at, int64(chunks) * 4}
	p.first[checks] = chunks
	p.fileSize = at + int64(chunks)*4
	return p
}

// encode makes the header page, but for what [page.seal] adds.
func (h Header) encode(checksCheck uint32) page {
	p := newPage(segmentMark, h.version)
	p.put16(atKind, uint16(h.Kind))
	p.putSource(h.Source)
	p.put32(atRowBytes, uint32(h.Kind.rowBytes(h.Dims)))
	if h.Lean {
		p.put32(atFlags, flagLean)
	}
	p.put64(atSequence, uint64(h.Sequence))
	p.put64(atLineage, uint64(h.Lineage))
	p.put64(atRows, uint64(h.Rows))
	p.put64(atParents, uint64(h.Parents))
	p.put64(atCells, uint64(h.Cells))
	p.put64(atAbsent, uint64(h.Absent))
	laid := lay(h)
	p.put64(atFileBytes, uint64(laid.fileSize))
	p.put32(atSections, sectionCount)
	p.put32(atChecksCheck, checksCheck)
	for i, e := range laid.sections {
		at := atTable + 24*i
		p.put64(at, uint64(e.at))
		p.put64(at+8, uint64(e.n))
		p.put64(at+16, uint64(laid.first[i]))
	}
	return p
}

// decodeHeader reads the header of a segment of size bytes.
func decodeHeader(b []byte, name string) (h Header, checksCheck uint32, sum []byte, err error) {
	p, err := openPage(b, name, SegmentSuffix, segmentMark)
	if err != nil {
		return h, 0, nil, err
	}
	h.Kind = Kind(p.get16(atKind))
	h.version = int(p.get16(8))
	if v := h.version; v < oldestVersion || v > Version || h.Kind.rowBytes(1) == 0 {
		return h, 0, nil, &VersionError{File: name, Version: v, Kind: h.Kind}
	}
	damage := func(problem string) error {
		return &DamageError{File: name, Section: "header", Chunk: -1, Problem: problem}
	}
	var ok bool
	if h.Source, ok = p.source(); !ok {
		return h, 0, nil, damage("it names no source")
	}
	h.Lean = p.get32(atFlags)&flagLean != 0
	h.Sequence, h.Lineage = int64(p.get64(atSequence)), int64(p.get64(atLineage))
	for _, count := range []struct {
		at   int
		into *int
	}{{atRows, &h.Rows}, {atParents, &h.Parents}, {atCells, &h.Cells}, {atAbsent, &h.Absent}} {
		n := p.get64(count.at)
		if n > maxRows {
			return h, 0, nil, damage("a count is out of range")
		}
		*count.into = int(n)
	}
	if h.Cells > h.Parents || h.Parents > h.Rows || h.Absent > h.Rows || h.Rows > 0 && h.Cells == 0 {
		return h, 0, nil, damage("its counts contradict one another")
	}
	again := h.encode(p.get32(atChecksCheck))
	copy(again[atSum:], p[atSum:atSum+32])
	again.put32(atCheck, p.get32(atCheck))
	if string(again) != string(p) {
		return h, 0, nil, damage("its section table does not follow from its counts")
	}
	if size := lay(h).fileSize; size != int64(len(b)) {
		return h, 0, nil, damage(fmt.Sprintf("the file has %d bytes, not %d", len(b), size))
	}
	return h, p.get32(atChecksCheck), p[atSum : atSum+32], nil
}

// Pointer is where a row's values are: the number of a value file, and a slot of
// it.
type Pointer struct{ File, Slot uint32 }

// NoPointer is the pointer of a row that has no values.
func NoPointer() Pointer { return Pointer{math.MaxUint32, math.MaxUint32} }

// packRef puts a reference into one number whose order is that of references:
// "ep" before "mem", then id.
func packRef(ref memory.Ref) uint64 {
	packed := uint64(ref.ID)
	if ref.Kind == memory.KindMemory {
		packed |= 1 << 63
	}
	return packed
}

func unpackRef(packed uint64) memory.Ref {
	if packed>>63 == 1 {
		return memory.Ref{Kind: memory.KindMemory, ID: int64(packed &^ (1 << 63))}
	}
	return memory.Ref{Kind: memory.KindEpisode, ID: int64(packed)}
}
