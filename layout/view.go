package layout

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// view reads little-endian numbers of 32 bits where they stand, and copies them
// only where the processor has another order or the bytes are not aligned.
func view[T uint32 | float32](b []byte) []T {
	if len(b) < 4 {
		return nil
	}
	first := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(first)%4 == 0 && binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return unsafe.Slice((*T)(first), len(b)/4)
	}
	numbers := make([]T, len(b)/4)
	for i := range numbers {
		word := binary.LittleEndian.Uint32(b[4*i:])
		switch n := any(&numbers[i]).(type) {
		case *uint32:
			*n = word
		case *float32:
			*n = math.Float32frombits(word)
		}
	}
	return numbers
}
