package shards

import (
	"math"
	"slices"
)

// keySpan is a range of keys of agents, both ends included.
type keySpan struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

// keySpans are ranges of keys, ascending, without overlap.
type keySpans []keySpan

func everyKey() keySpans { return keySpans{{0, math.MaxUint64}} }

func (s keySpans) contains(key uint64) bool {
	return slices.ContainsFunc(s, func(r keySpan) bool { return r.First <= key && key <= r.Last })
}

// with returns s and one more range.
func (s keySpans) with(add keySpan) keySpans {
	var out keySpans
	for _, r := range s {
		apart := r.Last < add.First && r.Last+1 < add.First || add.Last < r.First && add.Last+1 < r.First
		if apart {
			out = append(out, r)
			continue
		}
		add.First, add.Last = min(add.First, r.First), max(add.Last, r.Last)
	}
	at, _ := slices.BinarySearchFunc(out, add.First, func(r keySpan, first uint64) int {
		if r.First < first {
			return -1
		}
		return 1
	})
	return slices.Insert(out, at, add)
}

// inside returns what of s is inside one range.
func (s keySpans) inside(of keySpan) keySpans {
	var out keySpans
	for _, r := range s {
		if r.First <= of.Last && of.First <= r.Last {
			out = append(out, keySpan{max(r.First, of.First), min(r.Last, of.Last)})
		}
	}
	return out
}

// without returns what of s is outside one range.
func (s keySpans) without(cut keySpan) keySpans {
	var out keySpans
	for _, r := range s {
		if r.Last < cut.First || r.First > cut.Last {
			out = append(out, r)
			continue
		}
		if r.First < cut.First {
			out = append(out, keySpan{r.First, cut.First - 1})
		}
		if r.Last > cut.Last {
			out = append(out, keySpan{cut.Last + 1, r.Last})
		}
	}
	return out
}
