package shards

import (
	"math"

	"recalld/memory"
)

// vectorCode is a record vector v as the scanner compares it: v = scale × code,
// with an error, and v itself, which is the caller's.
type vectorCode struct {
	vector []float32
	code   []byte
	scale  float32
	bound  float32
}

// encodeRecord makes the int8 code of a record's vector. For a query w of length 1
// with a code y and an error e of at most 1 (see [encodeQuery]), the inner product
// that decides in the end, of v and the query in float32, over the query's length,
// is within
//
//	bound + e + bound · e
//
// of scale × y's scale × (code · y) (DECISIONS 20): with v = scale·x + d, and w =
// s·y + f, it differs by v·f + d·w − d·f, at most |v|e + |d| + |d|e, and by the
// rounding of float32, at most γ|v|. So the bound is |d| + (|v| − 1, if more than
// 0) + γ|v|. A vector that is not finite is a candidate always.
func encodeRecord(v []float32) vectorCode {
	code, ok := memory.Int8(v)
	if !ok {
		code = make([]byte, len(v))
	}
	scale := float32(fit(v, code))
	length, rest := apart(v, code, float64(scale))
	bound := rest + max(0, length-1) + float64(rounding(len(v))*max(1, length))
	// The sums above are rounded too.
	bound = float64(bound*(1+1e-9)) + 1e-12
	if !(bound < math.MaxFloat32) {
		return vectorCode{v, make([]byte, len(v)), 0, math.MaxFloat32}
	}
	return vectorCode{v, code, scale, math.Nextafter32(float32(bound), math.MaxFloat32)}
}

// encodeQuery makes the code of a query's direction, and what it leaves out; ok is
// false for a vector without one.
func encodeQuery(w []float32) (code []byte, scale, bound float64, ok bool) {
	code, ok = memory.Int8(w)
	if !ok {
		return nil, 0, 0, false
	}
	s := fit(w, code)
	length, rest := apart(w, code, s)
	if !(length > 0) || math.IsInf(length, 0) {
		return nil, 0, 0, false
	}
	return code, s / length, float64(rest/length*(1+1e-9)) + 1e-12, true
}

// fit is the scale with which a code is nearest to its vector, 0 for one without
// length.
func fit(v []float32, code []byte) float64 {
	var vx, xx float64
	for i, c := range code {
		x := float64(int8(c))
		vx += float64(float64(v[i]) * x)
		xx += float64(x * x)
	}
	if xx == 0 || !(vx > 0) {
		return 0
	}
	return vx / xx
}

// apart returns the length of a vector, and that of what scale × code leaves out.
func apart(v []float32, code []byte, scale float64) (length, rest float64) {
	for i, c := range code {
		x := float64(v[i])
		d := x - float64(scale*float64(int8(c)))
		length += float64(x * x)
		rest += float64(d * d)
	}
	return math.Sqrt(length), math.Sqrt(rest)
}

// rounding is γ for the inner product in float32 that decides: each of its four
// sums has a quarter of the products, each rounded, and two more additions join
// them.
func rounding(dims int) float64 {
	const unit = 1.0 / (1 << 24)
	n := float64(dims/4 + 8)
	return float64(n*unit) / (1 - float64(n*unit))
}
