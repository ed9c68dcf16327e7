package embed

import "math"

// unit scales v to length one in place, and reports false when v has no
// direction. The sum of squares is a float64 sum in index order with every
// product rounded, so that all platforms get the same bits (DECISIONS 6).
func unit(v []float32) bool {
	var sum float64
	for _, x := range v {
		sum += float64(float64(x) * float64(x))
	}
	// A sum that is not positive and finite has no usable direction. Squares of
	// float32 values neither overflow nor vanish in float64.
	if !(sum > 0) || math.IsInf(sum, 1) {
		return false
	}
	length := math.Sqrt(sum)
	for i, x := range v {
		v[i] = float32(float64(x) / length)
	}
	return true
}

// unitSum returns the vector of length one in the direction of an integer sum, or
// nil when the sum is all zero. Sums are exact and so is every step's rounding: the
// bits are the same on every platform.
func unitSum(sum []int64) []float32 {
	var square float64
	for _, x := range sum {
		square += float64(float64(x) * float64(x))
	}
	if square == 0 {
		return nil
	}
	length := math.Sqrt(square)
	v := make([]float32, len(sum))
	for i, x := range sum {
		v[i] = float32(float64(x) / length)
	}
	return v
}

// cosine returns the dot product of two unit vectors of equal dimension.
func cosine(a, b []float32) float64 {
	var sum float64
	for i := range a {
		sum += float64(float64(a[i]) * float64(b[i]))
	}
	return sum
}
