package memory

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// BR-024, BR-025, BR-026: known vectors give known bits; the layout is part of
// every file.
func TestSignsGolden(t *testing.T) {
	for _, c := range []struct {
		v    []float32
		want []byte
	}{
		{nil, []byte{}},
		{[]float32{1}, []byte{0b1}},
		{[]float32{-1, 1, 0, 2, float32(math.Copysign(0, -1)), -3, 4, 5}, []byte{0b1100_1010}},
		{[]float32{1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 1}, []byte{0b1, 0b110}},
		{[]float32{math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32}, []byte{0b1}},
	} {
		if got := Signs(c.v); !slices.Equal(got, c.want) {
			t.Errorf("%v became %08b, want %08b", c.v, got, c.want)
		}
	}
	if n := len(Signs(make([]float32, 1024))); n != 128 {
		t.Errorf("1,024 dimensions are %d bytes", n)
	}
}

// BR-045, BR-046: the largest component becomes ±127, the rest is rounded half
// away from zero, and what has no direction is refused.
func TestInt8Golden(t *testing.T) {
	for _, c := range []struct {
		v    []float32
		want []int8
	}{
		{[]float32{1}, []int8{127}},
		{[]float32{-2, 1, 0}, []int8{-127, 64, 0}},                        // 63.5
		{[]float32{2, -1}, []int8{127, -64}},                              // -63.5
		{[]float32{254, 1, -1, 3, -3, .99}, []int8{127, 1, -1, 2, -2, 0}}, // .5 and 1.5
		{[]float32{math.SmallestNonzeroFloat32}, []int8{127}},
		{[]float32{math.MaxFloat32, -math.MaxFloat32}, []int8{127, -127}},
	} {
		got, ok := Int8(c.v)
		var signed []int8
		for _, b := range got {
			signed = append(signed, int8(b))
		}
		if !ok || !slices.Equal(signed, c.want) {
			t.Errorf("%v became %v, %v; want %v", c.v, signed, ok, c.want)
		}
	}
	for _, v := range [][]float32{nil, {0, 0}, {1, float32(math.NaN())}, {1, float32(math.Inf(-1))}} {
		if code, ok := Int8(v); ok || code != nil {
			t.Errorf("%v became %v", v, code)
		}
	}
}

// BR-047: a scale that float32 can take exactly changes no byte.
func TestInt8KnowsNoScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float32Range(-1, 1), 1, 40).Draw(t, "vector")
		scale := float32(math.Ldexp(1, rapid.IntRange(-20, 20).Draw(t, "exponent")))
		scaled := make([]float32, len(v))
		for i, x := range v {
			if scaled[i] = float32(x * scale); float32(scaled[i]/scale) != x {
				scaled[i], v[i] = 0, 0
			}
		}
		a, okA := Int8(v)
		b, okB := Int8(scaled)
		if okA != okB || !slices.Equal(a, b) || !slices.Equal(Signs(v), Signs(scaled)) {
			t.Fatalf("%v is %v, %v is %v", v, a, scaled, b)
		}
	})
}
