package kernel

import "encoding/binary"

// Read reads every byte once and returns the XOR of its words: what a scan of the
// same bytes is measured against. A path that cannot run here reads as Go does.
func Read(p Path, data []byte) uint64 {
	if p == Go || !compiled(p) {
		return readGo(data)
	}
	return readC(p, data)
}

func readGo(data []byte) uint64 {
	var a, b, c, d uint64
	for ; len(data) >= 32; data = data[32:] {
		a ^= binary.LittleEndian.Uint64(data)
		b ^= binary.LittleEndian.Uint64(data[8:])
		c ^= binary.LittleEndian.Uint64(data[16:])
		d ^= binary.LittleEndian.Uint64(data[24:])
	}
	sum := a ^ b ^ c ^ d
	for ; len(data) >= 8; data = data[8:] {
		sum ^= binary.LittleEndian.Uint64(data)
	}
	for _, x := range data {
		sum ^= uint64(x)
	}
	return sum
}
