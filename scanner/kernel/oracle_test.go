package kernel

import (
	"cmp"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// Widths that have code of their own, and others.
var widths = []int{64, 128, 192, 256, 320, 384, 512, 640, 768, 1024, 1088, 1536, 2048}

// question is everything that a scan's answer depends on.
type question struct {
	matrix   Matrix
	from, to int
	live     Live
	starts   Starts
	query    Query
	precedes func(a, b uint32) bool
}

// oracle answers a question the slow way: every distance, byte by byte, then one
// sort.
func oracle(q question) Answer {
	var hits []Hit
	stride := q.matrix.Bits / 8
	for row := q.from; row < q.to; row++ {
		d := 0
		for i, x := range q.matrix.Codes[row*stride:][:stride] {
			d += bits.OnesCount8(x ^ q.query.Code[i])
		}
		if q.live.Has(row) && (q.query.Limit == 0 || d < q.query.Limit) {
			hits = append(hits, Hit{uint32(row), uint32(d)})
		}
	}
	slices.SortFunc(hits, func(a, b Hit) int {
		if c := cmp.Compare(a.Distance, b.Distance); c != 0 {
			return c
		}
		if q.precedes != nil && a.Row != b.Row {
			if q.precedes(a.Row, b.Row) {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Row, b.Row)
	})
	a := Answer{Rows: hits[:min(q.query.Rows, len(hits))]}
	seen := map[int]bool{}
	for _, h := range hits {
		if len(a.Parents) == q.query.Parents {
			break
		}
		first, _ := q.starts.Run(int(h.Row))
		if !seen[first] {
			seen[first] = true
			a.Parents = append(a.Parents, h)
		}
	}
	return a
}

// Patterns of distances to the first query.
var patterns = map[string]func(i, n, bits int, r *rand.Rand) int{
	"equal":      func(_, _, bits int, _ *rand.Rand) int { return bits / 3 },
	"ascending":  func(i, n, bits int, _ *rand.Rand) int { return i * bits / n },
	"descending": func(i, n, bits int, _ *rand.Rand) int { return bits - i*bits/n },
	"sawtooth":   func(i, _, bits int, _ *rand.Rand) int { return bits - i/199%(bits+1) },
	"few levels": func(_, _, bits int, r *rand.Rand) int { return bits/2 + r.IntN(3) },
	"extremes":   func(_, _, bits int, r *rand.Rand) int { return bits * r.IntN(2) },
}

// patterned returns rows at given distances from a query: where the run of bits
// that differ begins is drawn, how long it is is not.
func patterned(r *rand.Rand, width, rows int, query []byte, distance func(i, n, bits int, r *rand.Rand) int) Matrix {
	m := Matrix{Bits: width, Codes: make([]byte, rows*width/8)}
	for i := range rows {
		row := m.Codes[i*width/8:][:width/8]
		copy(row, query)
		first := r.IntN(width)
		for bit, end := first, first+distance(i, rows, width, r); bit < end; bit++ {
			row[bit%width/8] ^= 1 << (bit % 8)
		}
	}
	return m
}

func random(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// runs cuts rows into parents of 1 to most rows.
func runs(r *rand.Rand, rows, most int) Starts {
	var s Starts
	for row := 0; row < rows; row += 1 + r.IntN(most) {
		s = append(s, uint32(row))
	}
	return append(s, uint32(rows))
}

// shuffled is a total order over rows that is not that of their ordinals, but
// keeps the order inside each parent.
func shuffled(r *rand.Rand, s Starts) func(a, b uint32) bool {
	place := r.Perm(len(s))
	return func(a, b uint32) bool {
		i, found := slices.BinarySearch(s, a)
		if !found {
			i--
		}
		j, found := slices.BinarySearch(s, b)
		if !found {
			j--
		}
		if i != j {
			return place[i] < place[j]
		}
		return a < b
	}
}
