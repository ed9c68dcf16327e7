package coordinator

import (
	"math"
	"testing"
)

// DECISIONS 6: six digits at every scale, also beside powers of ten.
func TestSignificant(t *testing.T) {
	for x, want := range map[float64]float64{
		0:               0,
		.123456789:      .123457,
		-12.3456789:     -12.3457,
		999.9994:        999.999,
		999.9996:        1000,
		1000:            1000,
		1e-7:            1e-7,
		1.23456789e-12:  1.23457e-12,
		1.23456789e12:   1.23457e12,
		math.MaxFloat64: 1.79769e308,
	} {
		if got := significant(x); got != want {
			t.Errorf("%v: got %v, want %v", x, got, want)
		}
	}
	if got := significant(math.Copysign(0, -1)); math.Signbit(got) {
		t.Error("zero has a sign")
	}
}
