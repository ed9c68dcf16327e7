package lexical

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"sync/atomic"

	"recalld/memory"
)

// FormatVersion is the version of the file that this package writes, and the
// only one it reads.
const FormatVersion = 1

const (
	fileMagic       = "RECALLEX"
	fileHeader      = 64
	directoryRecord = 32
	partitionAlign  = 8
)

// File is the postings of any number of cells in one immutable sequence of
// bytes. It keeps no object per cell: a cell is found by binary search in the
// directory and opened where it stands. Its methods may be called concurrently.
type File struct {
	bytes     []byte
	count     int
	rows      uint64
	directory []byte
	verified  []atomic.Uint32 // one bit per partition: its checksums were right
}

// Open reads a file's header and directory. The bytes are kept, must not change,
// and may be a mapping. A partition's checksums are verified when it is first
// used; [File.Verify] does so for all. Errors are [ErrCorrupt], or a
// *[VersionError] for a file that has to be built anew.
func Open(b []byte) (*File, error) {
	if len(b) < fileHeader || string(b[:8]) != fileMagic {
		return nil, corrupt("a file does not begin like one of postings")
	}
	if checksum(b[:fileHeader-4]) != binary.LittleEndian.Uint32(b[fileHeader-4:]) {
		return nil, corrupt("the checksum of the header does not match")
	}
	v := VersionError{Format: int(binary.LittleEndian.Uint16(b[8:])), Analyser: int(binary.LittleEndian.Uint16(b[10:]))}
	if v.Format != FormatVersion || v.Analyser != AnalyserVersion {
		return nil, &v
	}
	f := &File{
		bytes: b,
		count: int(binary.LittleEndian.Uint32(b[12:])),
		rows:  binary.LittleEndian.Uint64(b[16:]),
	}
	if binary.LittleEndian.Uint64(b[24:]) != uint64(len(b)) {
		return nil, corrupt("a file has another length than its header says")
	}
	if f.count > (len(b)-fileHeader)/directoryRecord {
		return nil, corrupt("the directory is longer than the file")
	}
	f.directory = b[fileHeader : fileHeader+f.count*directoryRecord]
	if checksum(f.directory) != binary.LittleEndian.Uint32(b[32:]) {
		return nil, corrupt("the checksum of the directory does not match")
	}
	for i := range f.count {
		start, end := f.extent(i)
		if start > end || end > uint64(len(b)) || start < uint64(fileHeader+len(f.directory)) {
			return nil, corrupt("a partition lies outside its file")
		}
		if i > 0 && comparePlaces(f.place(i-1), f.place(i)) >= 0 {
			return nil, corrupt("the directory is not in order")
		}
	}
	f.verified = make([]atomic.Uint32, (f.count+31)/32)
	return f, nil
}

// VersionError refuses a file of another format or analyser. It is not damaged;
// its cells have to be built anew.
type VersionError struct{ Format, Analyser int }

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("lexical postings are of format %d and analyser %d; this program reads format %d and analyser %d; rebuild them",
		e.Format, e.Analyser, FormatVersion, AnalyserVersion)
}

// Rows returns the number of rows in all partitions.
func (f *File) Rows() int64 { return int64(f.rows) }

// Len returns the file's length in bytes.
func (f *File) Len() int64 { return int64(len(f.bytes)) }

// Cells calls yield with every cell that has a partition, ascending, once each.
func (f *File) Cells(yield func(Cell) bool) {
	for i := range f.count {
		if i > 0 && f.place(i-1).cell == f.place(i).cell {
			continue
		}
		if !yield(f.place(i).cell) {
			return
		}
	}
}

// Postings returns how many postings the file's lists have and how many bytes. A
// term of one row has no list: its posting stands in the dictionary.
func (f *File) Postings() (n, bytes int64, err error) {
	for i := range f.count {
		p, err := f.partition(f.place(i))
		if err != nil {
			return 0, 0, err
		}
		bytes += int64(len(p.sections[sectionPostings]))
		for term, err := range p.dictionary() {
			if err != nil {
				return 0, 0, fmt.Errorf("cell %d: %w", f.place(i).cell, err)
			}
			if term.list.count > 1 {
				n += int64(term.list.count)
			}
		}
	}
	return n, bytes, nil
}

// Verify checks every checksum in the file.
func (f *File) Verify() error {
	for i := range f.count {
		if _, err := openPartition(f.partitionBytes(i), true); err != nil {
			return fmt.Errorf("cell %d: %w", f.place(i).cell, err)
		}
	}
	return nil
}

func (f *File) record(i int) []byte {
	return f.directory[i*directoryRecord : (i+1)*directoryRecord]
}

func (f *File) place(i int) place {
	r := f.record(i)
	return place{Cell(binary.LittleEndian.Uint64(r)), memory.Kind(r[24])}
}

func (f *File) extent(i int) (start, end uint64) {
	r := f.record(i)
	start = binary.LittleEndian.Uint64(r[8:])
	return start, start + uint64(binary.LittleEndian.Uint32(r[16:]))
}

func (f *File) partitionBytes(i int) []byte {
	start, end := f.extent(i)
	return f.bytes[start:end:end]
}

// find returns the index of a place in the directory.
func (f *File) find(at place) (i int, ok bool) {
	i = sort.Search(f.count, func(i int) bool { return comparePlaces(f.place(i), at) >= 0 })
	return i, i < f.count && f.place(i) == at
}

// partition opens the partition of a place; nil when there is none.
func (f *File) partition(at place) (*Partition, error) {
	i, ok := f.find(at)
	if !ok {
		return nil, nil
	}
	bit := uint32(1) << (i % 32)
	known := f.verified[i/32].Load()&bit != 0
	p, err := openPartition(f.partitionBytes(i), !known)
	if err != nil {
		return nil, fmt.Errorf("cell %d: %w", at.cell, err)
	}
	if p.kind != at.kind {
		return nil, fmt.Errorf("cell %d: %w", at.cell, corrupt("a partition is of another kind than its directory says"))
	}
	if !known {
		f.verified[i/32].Or(bit)
	}
	return p, nil
}

// part is one partition to be written.
type part struct {
	at    place
	bytes []byte
	rows  uint32
}

// join writes partitions as one file. The same partitions give the same bytes.
func join(parts []part) []byte {
	slices.SortFunc(parts, func(a, b part) int { return comparePlaces(a.at, b.at) })
	size := fileHeader + len(parts)*directoryRecord
	rows := uint64(0)
	for _, p := range parts {
		size += len(p.bytes) + partitionAlign
		rows += uint64(p.rows)
	}
	b := make([]byte, fileHeader+len(parts)*directoryRecord, size)
	for i, p := range parts {
		record := b[fileHeader+i*directoryRecord:]
		binary.LittleEndian.PutUint64(record, uint64(p.at.cell))
		binary.LittleEndian.PutUint64(record[8:], uint64(len(b)))
		binary.LittleEndian.PutUint32(record[16:], uint32(len(p.bytes)))
		binary.LittleEndian.PutUint32(record[20:], p.rows)
		record[24] = byte(p.at.kind)
		b = append(b, p.bytes...)
		b = append(b, bytes.Repeat([]byte{0}, -len(b)&(partitionAlign-1))...)
	}
	copy(b, fileMagic)
	binary.LittleEndian.PutUint16(b[8:], FormatVersion)
	binary.LittleEndian.PutUint16(b[10:], AnalyserVersion)
	binary.LittleEndian.PutUint32(b[12:], uint32(len(parts)))
	binary.LittleEndian.PutUint64(b[16:], rows)
	binary.LittleEndian.PutUint64(b[24:], uint64(len(b)))
	binary.LittleEndian.PutUint32(b[32:], checksum(b[fileHeader:fileHeader+len(parts)*directoryRecord]))
	binary.LittleEndian.PutUint32(b[fileHeader-4:], checksum(b[:fileHeader-4]))
	return b
}
