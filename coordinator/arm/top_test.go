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
