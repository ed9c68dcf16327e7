package memory

import "math"

// Signs is the sign code of a vector: bit i of the vector is bit i%8, least
// significant first, of byte i/8, and is 1 exactly when component i is above
// zero. Bits beyond the last component are zero, so that a code has
// ⌈dims/8⌉ bytes (BR-024 to BR-026).
func Signs(v []float32) []byte {
	code := make([]byte, (len(v)+7)/8)
	for i, x := range v {
		if x > 0 {
			code[i/8] |= 1 << (i % 8)
		}
	}
	return code
}

// Int8 is the vector at one byte per component, two's complement: the component
// with the largest absolute value becomes ±127, the others keep their ratio to
// it, rounded half away from zero (BR-045, BR-046). The scale is not kept: only
// cosines are computed from the bytes (BR-047). ok is false for a vector that
// has no direction, being all zero or not finite; there is no code then.
func Int8(v []float32) (code []byte, ok bool) {
	var most float64
	for _, x := range v {
		a := math.Abs(float64(x))
		if math.IsNaN(a) || math.IsInf(a, 0) {
			return nil, false
		}
		most = max(most, a)
	}
	if most == 0 {
		return nil, false
	}
	code = make([]byte, len(v))
	for i, x := range v {
		// The product is exact, so that the division alone rounds before Round does.
		code[i] = byte(int8(math.Round(float64(float64(x)*127) / most)))
	}
	return code, true
}
