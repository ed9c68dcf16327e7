package lexical

import "encoding/binary"

// packPad is the number of bytes that must follow packed numbers, so that each
// can be read as a part of eight bytes.
const packPad = 8

// packedLen returns the bytes that n numbers of width bits take, 0 ≤ width ≤ 56.
func packedLen(n int, width uint8) int { return (n*int(width) + 7) / 8 }

// appendPacked appends numbers of width bits, lowest bits first.
func appendPacked(dst []byte, values []uint64, width uint8) []byte {
	var word uint64
	var filled uint8
	for _, v := range values {
		word |= v << filled
		filled += width
		for filled >= 8 {
			dst = append(dst, byte(word))
			word >>= 8
			filled -= 8
		}
	}
	if filled > 0 {
		dst = append(dst, byte(word))
	}
	return dst
}

// packed returns number i of width bits. b holds packPad bytes more than the
// numbers take.
func packed(b []byte, i int, width uint8) uint64 {
	bit := i * int(width)
	word := binary.LittleEndian.Uint64(b[bit>>3:]) >> (bit & 7)
	return word & (1<<width - 1)
}
