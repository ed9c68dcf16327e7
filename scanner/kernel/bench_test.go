package kernel

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkScan reports, beside its time, the ratio to reading the same codes.
func BenchmarkScan(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 0))
	for _, rows := range []int{10_000, 300_000} {
		m := Matrix{Bits: 1024, Codes: random(r, rows*128)}
		for _, n := range []int{1, 8} {
			queries := make([]Query, n)
			for i := range queries {
				queries[i] = Query{Code: random(r, 128), Rows: 200}
			}
			for _, p := range Paths() {
				b.Run(fmt.Sprintf("rows=%d/queries=%d/path=%s", rows, n, p), func(b *testing.B) {
					var reading time.Duration
					for b.Loop() {
						start := time.Now()
						Read(Best(), m.Codes)
						reading += time.Since(start)
						s, err := New(Job{Matrix: m, To: rows, Queries: queries, Path: p})
						if err != nil {
							b.Fatal(err)
						}
						if err := s.Run(context.Background(), 1); err != nil {
							b.Fatal(err)
						}
						s.Answers()
					}
					b.ReportMetric(float64(b.Elapsed()-reading)/float64(reading), "scan/read")
				})
			}
		}
	}
}
