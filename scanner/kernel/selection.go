package kernel

import (
	"cmp"
	"slices"
)

// Hit is a row of an answer.
type Hit struct {
	Row      uint32 // ordinal in the matrix
	Distance uint32 // in bits
}

// A selection keeps the k best of the hits pushed into it.
//
// It counts how many hits it was given at each distance, so that it knows the
// distance of the k-th best after every push in constant time; hits beyond that
// are thrown out when the buffer is full.
type selection struct {
	k      int
	counts []uint32 // hits pushed, by distance
	worst  uint32   // distance of the k-th best; above every distance while there are fewer
	within int      // hits pushed with a distance up to worst
	hits   []Hit
	// precedes orders hits of equal distance. nil means by ordinal; then hits must
	// come in ascending order, and one that equals the k-th best is too late.
	precedes func(a, b uint32) bool
}

func newSelection(k, bits int, precedes func(a, b uint32) bool) *selection {
	return &selection{k: k, counts: make([]uint32, bits+2), worst: uint32(bits) + 1, precedes: precedes}
}

// limit is the distance from which on hits are of no use.
func (s *selection) limit() uint32 {
	if s.precedes == nil {
		return s.worst
	}
	return s.worst + 1
}

func (s *selection) push(h Hit) {
	if h.Distance >= s.limit() {
		return
	}
	s.hits = append(s.hits, h)
	s.counts[h.Distance]++
	s.within++
	for s.within-int(s.counts[s.worst]) >= s.k {
		s.within -= int(s.counts[s.worst])
		s.worst--
	}
	if len(s.hits) >= max(4*s.k, 1024) {
		s.compact()
	}
}

// compact throws out what is no longer among the k best. Of hits that came in
// order fewer than 2k are left; of others that tie with the k-th, only those that
// the order keeps.
func (s *selection) compact() {
	s.hits = slices.DeleteFunc(s.hits, func(h Hit) bool { return h.Distance > s.worst })
	if s.precedes == nil || len(s.hits) <= 2*s.k {
		return
	}
	slices.SortFunc(s.hits, s.compare)
	s.hits = s.hits[:s.k]
	s.counts[s.worst] -= uint32(s.within - s.k)
	s.within = s.k
}

// compare is the order of hits where precedes decides ties.
func (s *selection) compare(a, b Hit) int {
	switch {
	case a.Distance != b.Distance || a.Row == b.Row:
		return cmp.Compare(a.Distance, b.Distance)
	case s.precedes(a.Row, b.Row):
		return -1
	}
	return 1
}

// best merges selections of the same shape over different rows into the k best.
func best(all []*selection) []Hit {
	if len(all) == 0 {
		return nil
	}
	var hits []Hit
	for _, s := range all {
		s.compact()
		hits = append(hits, s.hits...)
	}
	if all[0].precedes != nil {
		slices.SortFunc(hits, all[0].compare)
	} else {
		sortByKey(hits)
	}
	return hits[:min(all[0].k, len(hits))]
}

// sortByKey sorts by distance, then ordinal: several times faster as numbers.
func sortByKey(hits []Hit) {
	keys := make([]uint64, len(hits))
	for i, h := range hits {
		keys[i] = uint64(h.Distance)<<32 | uint64(h.Row)
	}
	slices.Sort(keys)
	for i, key := range keys {
		hits[i] = Hit{Row: uint32(key), Distance: uint32(key >> 32)}
	}
}
