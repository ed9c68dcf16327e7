package bench

import (
	"fmt"
	"math"
	"slices"
	"time"

	"recalld/memory"
)

// atLeastOne refuses a number that nothing can be measured with.
func atLeastOne(field string, n int) error {
	if n < 1 {
		return &memory.FieldError{Field: field, Problem: fmt.Sprintf("is %d", n), Limit: "1 or more", Next: "leave it out for the default"}
	}
	return nil
}

// NDCG is the normalised discounted cumulative gain of a ranking at depth k with
// binary relevance: the gain at rank r, from 1, is 1/log2(r+1), and the ideal
// ranking has the relevant items first (Järvelin & Kekäläinen 2002). It is 0
// when nothing is relevant.
func NDCG(ranking []string, relevant map[string]bool, k int) float64 {
	var gain, ideal float64
	for r := range min(k, len(ranking)) {
		if relevant[ranking[r]] {
			gain += 1 / math.Log2(float64(r+2))
		}
	}
	for r := range min(k, len(relevant)) {
		ideal += 1 / math.Log2(float64(r+2))
	}
	if ideal == 0 {
		return 0
	}
	return gain / ideal
}

// FirstHit is the rank, from 1, of the first relevant item, or 0.
func FirstHit(ranking []string, relevant map[string]bool) int {
	for r, id := range ranking {
		if relevant[id] {
			return r + 1
		}
	}
	return 0
}

// Quantile is the nearest-rank quantile of durations in milliseconds. It sorts
// its argument.
func Quantile(d []time.Duration, q float64) float64 {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	i := int(math.Ceil(float64(q*float64(len(d))))) - 1
	return float64(d[max(0, min(i, len(d)-1))].Microseconds()) / 1000
}
