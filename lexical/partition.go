package lexical

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"sort"

	"recalld/memory"
)

// ErrCorrupt marks bytes that are no valid postings. The file is to be
// quarantined and its cells rebuilt.
var ErrCorrupt = errors.New("lexical postings are damaged")

func corrupt(what string) error { return fmt.Errorf("%w: %s", ErrCorrupt, what) }

// checksum is the CRC32C that every part of a file is guarded by.
func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// The sections of a partition, in the order in which they stand.
const (
	sectionSessions = iota // u64 session | u32 first row, per session
	sectionRows            // one record and the packed ids and lengths per 128 rows
	sectionGroups          // u32 place in terms | u32 place in postings, per 16 terms
	sectionTerms           // front-coded terms with their counts
	sectionPostings        // coded lists
	sectionCount
)

// The header of a partition:
//
//	u32 rows | u32 terms | u8 kind | 3 zero | u64 words | i64 highest id |
//	per section u32 place, u32 length, u32 CRC32C | u32 CRC32C of what is before
const (
	partitionHeader = 28 + sectionCount*12 + 4
	sessionRecord   = 12
	rowRecord       = 14
	groupRecord     = 8
	groupLen        = 16
	escape          = 15 // in four bits: a number with the rest follows

	// maxID is the highest record id that can be coded.
	maxID = 1<<56 - 1
)

// Partition is the coded rows and postings of one cell and kind. It is read in
// place; its methods may be called concurrently.
type Partition struct {
	kind     memory.Kind
	rows     uint32
	termsN   uint32
	words    uint64 // sum of lengths
	maxID    int64
	sections [sectionCount][]byte
}

// openPartition reads the header and the sections' places. With verify it also
// checks every checksum and every record whose damage a later read could not
// notice.
func openPartition(b []byte, verify bool) (*Partition, error) {
	if len(b) < partitionHeader+packPad {
		return nil, corrupt("a partition is too short")
	}
	head := b[:partitionHeader]
	if verify && checksum(head[:partitionHeader-4]) != binary.LittleEndian.Uint32(head[partitionHeader-4:]) {
		return nil, corrupt("the checksum of a partition's header does not match")
	}
	p := &Partition{
		rows:   binary.LittleEndian.Uint32(head),
		termsN: binary.LittleEndian.Uint32(head[4:]),
		kind:   memory.Kind(head[8]),
		words:  binary.LittleEndian.Uint64(head[12:]),
		maxID:  int64(binary.LittleEndian.Uint64(head[20:])),
	}
	limit := uint64(len(b) - packPad)
	for i := range p.sections {
		record := head[28+i*12:]
		start := uint64(binary.LittleEndian.Uint32(record))
		end := start + uint64(binary.LittleEndian.Uint32(record[4:]))
		if start < partitionHeader || end > limit {
			return nil, corrupt("a section lies outside its partition")
		}
		// The capacity reaches over the padding that packed numbers are read with.
		p.sections[i] = b[start : end : end+packPad]
		if verify && checksum(p.sections[i]) != binary.LittleEndian.Uint32(record[8:]) {
			return nil, corrupt(fmt.Sprintf("the checksum of section %d does not match", i))
		}
	}
	if p.maxID > maxID {
		return nil, corrupt("a record id is too high")
	}
	if p.kind != memory.KindEpisode && p.kind != memory.KindMemory {
		return nil, corrupt("a partition is of an unknown kind")
	}
	if len(p.sections[sectionSessions])%sessionRecord != 0 ||
		uint64(len(p.sections[sectionRows])) < uint64(p.rowBlocks())*rowRecord ||
		uint64(len(p.sections[sectionGroups])) != uint64(p.groups())*groupRecord {
		return nil, corrupt("a section has another size than its records")
	}
	if verify {
		return p, p.verify()
	}
	return p, nil
}

// verify checks the records that are used without a check of their own.
func (p *Partition) verify() error {
	if p.rows > 0 && len(p.sections[sectionSessions]) == 0 {
		return corrupt("rows without a session record")
	}
	before := -1
	for i := range p.sessions() {
		first := int(p.sessionFirst(i))
		if first <= before || first >= int(p.rows) || i == 0 && first != 0 {
			return corrupt("the session records are not in order")
		}
		before = first
	}
	payload := uint64(len(p.sections[sectionRows]) - p.rowBlocks()*rowRecord)
	for i := range p.rowBlocks() {
		r := p.rowRecord(i)
		n := min(blockLen, int(p.rows)-i*blockLen)
		idWidth, lengthWidth := r[12], r[13]
		if idWidth > 56 || lengthWidth != 1 && lengthWidth != 2 && lengthWidth != 4 {
			return corrupt("a row record has an impossible width")
		}
		if uint64(binary.LittleEndian.Uint32(r[8:]))+uint64(packedLen(n, idWidth)+n*int(lengthWidth)) > payload {
			return corrupt("a row record points outside its section")
		}
		base, ids, _, _, _ := p.rowBlock(i)
		for j := range n {
			if id := base + int64(packed(ids, j, idWidth)); base < 1 || id > p.maxID {
				return corrupt("a row has an impossible record id")
			}
		}
	}
	for i := range p.groups() {
		terms, postings := p.group(i)
		if terms > len(p.sections[sectionTerms]) || postings > len(p.sections[sectionPostings]) {
			return corrupt("a term group points outside its section")
		}
	}
	return nil
}

func (p *Partition) rowBlocks() int { return (int(p.rows) + blockLen - 1) / blockLen }
func (p *Partition) groups() int    { return (int(p.termsN) + groupLen - 1) / groupLen }
func (p *Partition) sessions() int  { return len(p.sections[sectionSessions]) / sessionRecord }

func (p *Partition) session(i int) uint64 {
	return binary.LittleEndian.Uint64(p.sections[sectionSessions][i*sessionRecord:])
}

func (p *Partition) sessionFirst(i int) uint32 {
	return binary.LittleEndian.Uint32(p.sections[sectionSessions][i*sessionRecord+8:])
}

// sessionAt returns the index of the session record that a row is under.
func (p *Partition) sessionAt(row int) int {
	return sort.Search(p.sessions(), func(i int) bool { return int(p.sessionFirst(i)) > row }) - 1
}

func (p *Partition) rowRecord(i int) []byte {
	return p.sections[sectionRows][i*rowRecord : (i+1)*rowRecord]
}

// rowBlock returns the ids, packed to idWidth bits, and the lengths, of
// lengthWidth bytes each, of a block of rows.
func (p *Partition) rowBlock(i int) (base int64, ids, lengths []byte, idWidth, lengthWidth uint8) {
	r := p.rowRecord(i)
	n := min(blockLen, int(p.rows)-i*blockLen)
	idWidth, lengthWidth = r[12], r[13]
	s := p.sections[sectionRows]
	start := p.rowBlocks()*rowRecord + int(binary.LittleEndian.Uint32(r[8:]))
	middle := start + packedLen(n, idWidth)
	end := middle + n*int(lengthWidth)
	return int64(binary.LittleEndian.Uint64(r)), s[start : middle+packPad : middle+packPad], s[middle:end], idWidth, lengthWidth
}

// Rows returns the number of rows, deleted ones included.
func (p *Partition) Rows() int { return int(p.rows) }

func (p *Partition) key(row int) rowKey {
	base, ids, _, width, _ := p.rowBlock(row / blockLen)
	return rowKey{p.session(p.sessionAt(row)), base + int64(packed(ids, row%blockLen, width))}
}

func (p *Partition) length(row int) uint32 {
	var one [1]uint32
	_, _, lengths, _, width := p.rowBlock(row / blockLen)
	unpackLengths(one[:], lengths[row%blockLen*int(width):], width)
	return one[0]
}

// unpackLengths reads lengths of 1, 2 or 4 bytes.
func unpackLengths(dst []uint32, b []byte, width uint8) {
	switch width {
	case 1:
		for i, n := range b[:len(dst)] {
			dst[i] = uint32(n)
		}
	case 2:
		for i := range dst {
			dst[i] = uint32(binary.LittleEndian.Uint16(b[2*i:]))
		}
	default:
		for i := range dst {
			dst[i] = binary.LittleEndian.Uint32(b[4*i:])
		}
	}
}

func (p *Partition) lengths(row int, dst []uint32, joined []bool) {
	for i := 0; i < len(dst); {
		_, _, lengths, _, width := p.rowBlock((row + i) / blockLen)
		from := (row + i) % blockLen
		n := min(blockLen-from, len(dst)-i)
		unpackLengths(dst[i:i+n], lengths[from*int(width):], width)
		i += n
	}
	if len(dst) == 0 {
		return
	}
	s := p.sessionAt(row)
	first := int(p.sessionFirst(s))
	for i := 0; i < len(dst); s++ {
		end := int(p.rows)
		if s+1 < p.sessions() {
			end = int(p.sessionFirst(s + 1))
		}
		together := p.session(s) != 0
		for ; i < len(dst) && row+i < end; i++ {
			joined[i] = together && row+i > first
		}
		first = end
	}
}

func (p *Partition) total() uint64 { return p.words }

func (p *Partition) find(id int64) (row int, ok bool) {
	if id > p.maxID {
		return 0, false
	}
	for i := range p.rowBlocks() {
		base, ids, _, width, _ := p.rowBlock(i)
		if id < base || uint64(id-base) >= 1<<width {
			continue
		}
		n := min(blockLen, int(p.rows)-i*blockLen)
		for j := range n {
			if packed(ids, j, width) == uint64(id-base) {
				return i*blockLen + j, true
			}
		}
	}
	return 0, false
}

func (p *Partition) group(i int) (terms, postings int) {
	r := p.sections[sectionGroups][i*groupRecord:]
	return int(binary.LittleEndian.Uint32(r)), int(binary.LittleEndian.Uint32(r[4:]))
}

// termReader walks the dictionary from the start of a group.
type termReader struct {
	p        *Partition
	left     int // terms left in the dictionary
	terms    []byte
	postings int // where the next list begins
	term     []byte
}

// reader returns a reader at the start of a group.
func (p *Partition) reader(group int) termReader {
	terms, postings := p.group(group)
	return termReader{p: p, left: int(p.termsN) - group*groupLen, terms: p.sections[sectionTerms][terms:], postings: postings}
}

func (r *termReader) number() (uint64, error) {
	n, size := binary.Uvarint(r.terms)
	if size <= 0 {
		return 0, corrupt("a number in the dictionary is cut")
	}
	r.terms = r.terms[size:]
	return n, nil
}

// long returns a length of which the head has four bits.
func (r *termReader) long(bits uint64) (uint64, error) {
	if bits < escape {
		return bits, nil
	}
	more, err := r.number()
	return bits + min(more, MaxTerm), err
}

// single reads the posting of a term that one row contains: its row, doubled,
// plus 1 when its frequency follows.
func (r *termReader) single(value uint64) (list, error) {
	one := posting{row: uint32(value >> 1), freq: 1}
	if value>>1 >= uint64(r.p.rows) {
		return list{}, corrupt("a posting names a row that does not exist")
	}
	if value&1 == 1 {
		freq, err := r.number()
		if err != nil {
			return list{}, err
		}
		one.freq = uint32(min(max(freq, 1), maxFrequency))
	}
	return memoryList([]posting{one}), nil
}

// next reads one term. Its bytes are valid until the next call.
func (r *termReader) next() (list, error) {
	if len(r.terms) == 0 {
		return list{}, corrupt("the dictionary is cut")
	}
	head := r.terms[0]
	r.terms = r.terms[1:]
	shared, err := r.long(uint64(head >> 4))
	if err != nil {
		return list{}, err
	}
	size, err := r.long(uint64(head & escape))
	if err != nil {
		return list{}, err
	}
	if shared > uint64(len(r.term)) || size > uint64(len(r.terms)) || shared+size > MaxTerm {
		return list{}, corrupt("a term is longer than its dictionary")
	}
	r.term = append(r.term[:shared], r.terms[:size]...)
	r.terms = r.terms[size:]
	r.left--
	value, err := r.number()
	if err != nil {
		return list{}, err
	}
	if value&1 == 1 {
		return r.single(value >> 1)
	}
	count := value >> 1
	length, err := r.number()
	if err != nil {
		return list{}, err
	}
	s := r.p.sections[sectionPostings]
	if count == 0 || count > uint64(r.p.rows) || length > uint64(len(s)-r.postings) {
		return list{}, corrupt("a list lies outside its section")
	}
	end := r.postings + int(length)
	coded := codedList{bytes: s[r.postings : end : end+packPad], rows: r.p.rows}
	r.postings = end
	if err := coded.check(int(count)); err != nil {
		return list{}, err
	}
	return list{count: int(count), blocks: (int(count) + blockLen - 1) / blockLen, coded: coded}, nil
}

// first returns the first term of a group.
func (p *Partition) first(group int) (string, error) {
	r := p.reader(group)
	if _, err := r.next(); err != nil {
		return "", err
	}
	return string(r.term), nil
}

func (p *Partition) postings(term QueryTerm) (list, error) {
	var failed error
	group := sort.Search(p.groups(), func(i int) bool {
		first, err := p.first(i)
		if err != nil {
			failed = err
		}
		return first > term.Term
	}) - 1
	if failed != nil {
		return list{}, failed
	}
	if p.termsN == 0 || group < 0 && !term.Prefix {
		return list{}, nil
	}
	var found []list
	r := p.reader(max(group, 0))
	for r.left > 0 {
		l, err := r.next()
		if err != nil {
			return list{}, err
		}
		if term.matches(string(r.term)) {
			found = append(found, l)
		} else if string(r.term) > term.Term {
			break
		}
	}
	return mergeLists(found)
}

func (p *Partition) dictionary() iter.Seq2[termList, error] {
	return func(yield func(termList, error) bool) {
		if p.termsN == 0 {
			return
		}
		r := p.reader(0)
		for r.left > 0 {
			l, err := r.next()
			if err != nil {
				yield(termList{}, err)
				return
			}
			if !yield(termList{string(r.term), l}, nil) {
				return
			}
		}
	}
}
