package arm

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"recalld/memory"
)

// RR-224, DECISIONS 2: the best k are the same in whatever order rows arrive,
// also when many keys are equal.
func TestTopIsTheHeadOfTheFullSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 60).Draw(t, "n")
		rows := make([]memory.Candidate, n)
		for i := range rows {
			rows[i] = memory.Candidate{
				Ref: memory.Ref{Kind: memory.Kind(1 + i%2), ID: int64(1 + i/2)},
				Key: float64(rapid.IntRange(0, 4).Draw(t, "key")),
			}
		}
		k := rapid.IntRange(0, 70).Draw(t, "k")
		got := newTop(k)
		for _, i := range rapid.Permutation(indices(n)).Draw(t, "order") {
			if got.enters(rows[i].Key) {
				got.add(rows[i])
			}
		}
		slices.SortFunc(rows, memory.Compare)
		if want := rows[:min(k, n)]; !slices.Equal(got.sorted(), want) {
			t.Fatalf("got %v, want %v", got.heap, want)
		}
	})
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

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
