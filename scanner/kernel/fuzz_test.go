package kernel

import (
	"math/rand/v2"
	"testing"
)

// FuzzScan cuts whatever bytes it is given into a query and rows, and compares
// every path with the oracle.
func FuzzScan(f *testing.F) {
	r := rand.New(rand.NewPCG(15, 16))
	f.Add(random(r, 300), uint8(1), uint16(10), uint16(0), uint64(0), uint8(3))
	f.Add(make([]byte, 160), uint8(0), uint16(1), uint16(7), uint64(3), uint8(0))
	f.Fuzz(func(t *testing.T, data []byte, width uint8, k, from uint16, seed uint64, blocks uint8) {
		bits := widths[int(width)%len(widths)]
		if len(data) < bits/8 {
			return
		}
		code, data := data[:bits/8], data[bits/8:]
		m := Matrix{Bits: bits, Codes: data[:len(data)/(bits/8)*(bits/8)]}
		r := rand.New(rand.NewPCG(seed, 0))
		starts := runs(r, m.Rows(), int(blocks)+1)
		q := question{matrix: m, to: m.Rows(), starts: starts, query: Query{Code: code, Rows: int(k), Parents: int(k) / 2}}
		if len(starts) > 1 {
			q.from = int(starts[int(from)%len(starts)])
		}
		if seed%3 == 0 {
			q.live = NewLive(m.Rows())
			for row := range m.Rows() {
				if r.IntN(3) == 0 {
					q.live.Clear(row)
				}
			}
		}
		want := oracle(q)
		for _, p := range Paths() {
			job := Job{Matrix: m, From: q.from, To: q.to, Queries: []Query{q.query}, Live: q.live, Parents: starts, Path: p}
			if got := answer(t, job, 1, 10)[0]; !same(got, want) {
				t.Errorf("%s: got %v, want %v", p, got, want)
			}
		}
	})
}
