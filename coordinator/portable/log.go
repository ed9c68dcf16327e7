package portable

import "math"

// Log returns the natural logarithm of x: -Inf for 0, +Inf for +Inf, NaN below 0
// and for NaN.
//
// With x = 2^k m, m from sqrt(1/2) to sqrt(2), and s = (m-1) / (m+1), it is
// k ln 2 plus twice the power series of artanh s, whose 12th term vanishes.
func Log(x float64) float64 {
	switch {
	case math.IsNaN(x) || x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	case math.IsInf(x, 1):
		return x
	}
	m, exponent := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m *= 2
		exponent--
	}
	k := float64(exponent)
	s := (m - 1) / (m + 1)
	square := float64(s * s)
	tail := 0.0
	for n := 23.0; n > 1; n -= 2 {
		tail = float64((tail + 1/n) * square)
	}
	return float64(k*ln2High) + (2*s + (float64(2*s*tail) + float64(k*ln2Low)))
}
