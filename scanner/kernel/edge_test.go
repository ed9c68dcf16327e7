//go:build unix

package kernel

import (
	"math/rand/v2"
	"syscall"
	"testing"
)

// atTheEdge copies data to the very end of readable memory: a read of one byte
// more ends the test.
func atTheEdge(t *testing.T, data []byte) []byte {
	t.Helper()
	page := syscall.Getpagesize()
	size := (len(data)+page-1)/page*page + page
	all, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(all) })
	edge := all[size-page-len(data) : size-page]
	copy(edge, data)
	if err := syscall.Mprotect(all[size-page:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return edge
}

// A mapped file ends where memory does: no path reads on.
func TestNothingIsReadBehindTheEnd(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for _, width := range widths {
		for _, rows := range []int{1, 3, 7, 9, 70, 259} {
			m := Matrix{Bits: width, Codes: atTheEdge(t, random(r, rows*width/8))}
			query := Query{Code: random(r, width/8), Rows: 5}
			want := oracle(question{matrix: m, to: rows, query: query, starts: Starts{0, uint32(rows)}})
			for _, p := range Paths() {
				Read(p, m.Codes)
				if got := answer(t, Job{Matrix: m, To: rows, Queries: []Query{query}, Path: p}, 1, 0); !same(got[0], want) {
					t.Errorf("%s: got %v, want %v", p, got[0], want)
				}
			}
		}
	}
	for _, dims := range []int{1, 5, 16, 63, 64, 65, 250} {
		for _, rows := range []int{1, 2, 12} {
			v := Values{Dims: dims, Stride: dims + 4, Data: atTheEdge(t, random(r, (rows-1)*(dims+4)+dims))}
			query := atTheEdge(t, random(r, dims))
			got := make([]int32, 1)
			queries := atTheEdge(t, random(r, MaxQueries*dims))
			together := make([]int32, MaxQueries*rows)
			for _, p := range Paths() {
				v.dotsTogether(p, 0, queries, together)
				if last := together[len(together)-1]; int64(last) != naiveDot(v.Data[(rows-1)*v.Stride:], queries[(MaxQueries-1)*dims:]) {
					t.Errorf("%s: together %d", p, last)
				}
				if err := v.Dots(p, []uint32{uint32(rows - 1)}, query, got); err != nil || int64(got[0]) != naiveDot(v.Data[(rows-1)*v.Stride:], query) {
					t.Errorf("%s: got %d, %v", p, got[0], err)
				}
				if err := v.Norms(p, []uint32{uint32(rows - 1)}, got); err != nil {
					t.Error(err)
				}
			}
		}
	}
}
