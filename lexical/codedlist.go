package lexical

import (
	"encoding/binary"
	"math/bits"
)

// codedList is the bytes of one term's postings. A list of at most blockLen
// postings is one block. A longer list begins with one record per block:
//
//	u32 highest row | u32 end of the block's bytes | u8 highest frequency
//
// A block is
//
//	u8 width of gaps | u8 highest frequency | gaps − 1, packed | frequencies − 1, packed
//
// where the first gap counts from the row behind the highest of the block before.
type codedList struct {
	bytes []byte // with packPad bytes more behind it
	rows  uint32 // of the partition; every row is below it
}

const blockRecord = 9

func (c codedList) record(i int) []byte { return c.bytes[i*blockRecord : (i+1)*blockRecord] }

func (c codedList) last(i, blocks int) uint32 {
	if blocks == 1 {
		return c.rows - 1
	}
	return binary.LittleEndian.Uint32(c.record(i))
}

func (c codedList) maxFreq(i, blocks int) uint32 {
	if blocks == 1 {
		return uint32(c.bytes[1])
	}
	return uint32(c.record(i)[8])
}

// check refuses a list whose records cannot be read.
func (c codedList) check(count int) error {
	blocks := (count + blockLen - 1) / blockLen
	if uint32(count) > c.rows {
		return corrupt("a list has more postings than rows")
	}
	if blocks == 1 {
		if len(c.bytes) < 2 {
			return corrupt("a list is too short")
		}
		return nil
	}
	if len(c.bytes) < blocks*(blockRecord+2) {
		return corrupt("a list is too short")
	}
	return nil
}

// decode fills b with block i of a list of count postings.
func (c codedList) decode(i, count int, b *block) error {
	blocks := (count + blockLen - 1) / blockLen
	n := min(blockLen, count-i*blockLen)
	start, end := 0, len(c.bytes)
	base := uint64(0)
	if blocks > 1 {
		start = blocks * blockRecord
		if i > 0 {
			start += int(binary.LittleEndian.Uint32(c.record(i - 1)[4:]))
			base = uint64(c.last(i-1, blocks)) + 1
		}
		end = blocks*blockRecord + int(binary.LittleEndian.Uint32(c.record(i)[4:]))
	}
	if start < 0 || start+2 > end || end > len(c.bytes) {
		return corrupt("a block lies outside its list")
	}
	gapWidth, highest := c.bytes[start], c.bytes[start+1]
	freqWidth := widthOf(uint64(highest) - 1)
	gaps := start + 2
	freqs := gaps + packedLen(n, gapWidth)
	if highest == 0 || gapWidth > 32 || freqs+packedLen(n, freqWidth) != end {
		return corrupt("a block has another size than its widths")
	}
	data := c.bytes[:end+packPad]
	row := base
	if gapWidth == 0 {
		for j := range n {
			b.row[j] = uint32(row)
			row++
		}
	} else {
		mask := uint64(1)<<gapWidth - 1
		bit := gaps * 8
		for j := range n {
			row += binary.LittleEndian.Uint64(data[bit>>3:]) >> (bit & 7) & mask
			b.row[j] = uint32(row)
			row++
			bit += int(gapWidth)
		}
	}
	if row > uint64(c.rows) {
		return corrupt("a posting names a row that does not exist")
	}
	if blocks > 1 && b.row[n-1] != c.last(i, blocks) {
		return corrupt("a block ends at another row than its record")
	}
	if freqWidth == 0 {
		for j := range n {
			b.freq[j] = 1
		}
	} else {
		for j := range n {
			b.freq[j] = uint32(packed(data[freqs:], j, freqWidth)) + 1
		}
	}
	b.n = n
	return nil
}

// widthOf returns the bits that a number takes.
func widthOf(n uint64) uint8 { return uint8(bits.Len64(n)) }

// appendList appends the coded form of ascending postings.
func appendList(dst []byte, p []posting, scratch []uint64) []byte {
	blocks := (len(p) + blockLen - 1) / blockLen
	if blocks == 1 {
		return appendBlock(dst, p, 0, scratch)
	}
	records := len(dst)
	dst = append(dst, make([]byte, blocks*blockRecord)...)
	body := len(dst)
	base := uint32(0)
	for i := range blocks {
		part := p[i*blockLen : min((i+1)*blockLen, len(p))]
		dst = appendBlock(dst, part, base, scratch)
		last := part[len(part)-1].row
		record := dst[records+i*blockRecord:]
		binary.LittleEndian.PutUint32(record, last)
		binary.LittleEndian.PutUint32(record[4:], uint32(len(dst)-body))
		record[8] = byte(highestFreq(part))
		base = last + 1
	}
	return dst
}

// appendBlock appends up to blockLen postings; base is the lowest row the first
// may have. scratch holds blockLen numbers.
func appendBlock(dst []byte, p []posting, base uint32, scratch []uint64) []byte {
	var widest uint64
	for j, q := range p {
		scratch[j] = uint64(q.row - base)
		widest |= scratch[j]
		base = q.row + 1
	}
	gapWidth, highest := widthOf(widest), highestFreq(p)
	dst = append(dst, gapWidth, byte(highest))
	dst = appendPacked(dst, scratch[:len(p)], gapWidth)
	for j, q := range p {
		scratch[j] = uint64(q.freq - 1)
	}
	return appendPacked(dst, scratch[:len(p)], widthOf(uint64(highest)-1))
}

func highestFreq(p []posting) uint32 {
	highest := uint32(0)
	for _, q := range p {
		highest = max(highest, q.freq)
	}
	return highest
}
