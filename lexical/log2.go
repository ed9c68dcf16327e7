package lexical

import "math/bits"

// logBits is the number of binary places of [log2].
const logBits = 32

// log2 returns the binary logarithm of n ≥ 1 in units of 2⁻³², rounded down. It
// uses integers alone, so that every machine weighs a term the same.
func log2(n uint64) uint64 {
	exponent := uint64(bits.Len64(n) - 1)
	x := n << (63 - exponent) // n as 1.63 fixed point
	log := exponent
	for range logBits {
		log <<= 1
		hi, lo := bits.Mul64(x, x) // 2.126
		if hi>>63 == 1 {
			log |= 1
			x = hi
		} else {
			x = hi<<1 | lo>>63
		}
	}
	return log
}
