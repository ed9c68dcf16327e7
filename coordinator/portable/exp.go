package portable

import "math"

// ln2High has few enough bits that its product with an exponent is exact;
// ln2High + ln2Low is ln 2.
const (
	ln2High = 2977044471.0 / (1 << 32)
	ln2Low  = math.Ln2 - ln2High
)

// beyond is a magnitude past which e^x is 0 or infinite.
const beyond = 800

// Exp returns e^x: 0 and +Inf at the infinities, NaN for NaN.
//
// With k the integer nearest to x / ln 2 and r = x - k ln 2, it is 2^k times the
// power series of e^r, whose 14th term vanishes for |r| up to ln 2 / 2.
func Exp(x float64) float64 {
	if math.IsNaN(x) {
		return x
	}
	x = max(-beyond, min(beyond, x))
	k := math.RoundToEven(x * math.Log2E)
	r := x - float64(k*ln2High) - float64(k*ln2Low)
	p := 1.0
	for n := 13.0; n > 0; n-- {
		p = 1 + float64(p*r)/n
	}
	return math.Ldexp(p, int(k))
}
