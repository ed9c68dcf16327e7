package memory

import "testing"

// DECISIONS 6: the sum is made in a fixed order of four accumulators.
func TestDotByHand(t *testing.T) {
	a := []float32{1, 2, 3, 4, 5, 6, 7}
	b := []float32{1, 1, 2, 1, .5, 1, 2}
	if got := Dot(a, b); got != 1+2+6+4+2.5+6+14 {
		t.Errorf("got %v", got)
	}
	// 2²⁴ + 1 is not a float32: lanes decide what is lost.
	big := []float32{1 << 24, 0, 0, 0, 1, 1}
	ones := []float32{1, 1, 1, 1, 1, 1}
	if got := Dot(big, ones); got != 1<<24 {
		t.Errorf("got %v, want both ones lost in the first lane", got)
	}
	if got := Dot([]float32{1 << 24, 0, 1, 1}, ones[:4]); got != 1<<24+2 {
		t.Errorf("got %v, want the last two lanes added to each other first", got)
	}
}
