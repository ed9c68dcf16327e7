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

// BenchmarkBoundScans reports, beside its time, the ratio to reading the same
// bytes, and what one query of the pass takes for a row.
func BenchmarkBoundScans(b *testing.B) {
	r := rand.New(rand.NewPCG(2, 0))
	const rows = 100_000
	for _, dims := range []int{256, 384, 1024} {
		job := BoundJob{Values: Values{Dims: dims, Stride: dims, Data: random(r, rows*dims)}, To: rows, Scale: make([]float32, rows), Error: make([]float32, rows)}
		for i := range job.Scale {
			job.Scale[i], job.Error[i] = .001+.0002*r.Float32(), .001*r.Float32()
		}
		for _, n := range []int{1, 4, 8} {
			job.Queries = nil
			for range n {
				job.Queries = append(job.Queries, BoundQuery{Code: random(r, dims), K: 100, Scale: .001, Error: .001})
			}
			for _, p := range Paths() {
				job.Path = p
				b.Run(fmt.Sprintf("dims=%d/queries=%d/path=%s", dims, n, p), func(b *testing.B) {
					var reading time.Duration
					for b.Loop() {
						start := time.Now()
						Read(Best(), job.Values.Data)
						reading += time.Since(start)
						if _, err := BoundScans(context.Background(), job, 1); err != nil {
							b.Fatal(err)
						}
					}
					scanning := b.Elapsed() - reading
					b.ReportMetric(float64(scanning)/float64(reading), "scan/read")
					b.ReportMetric(float64(scanning.Nanoseconds())/float64(b.N*rows*n), "ns/row/query")
				})
			}
		}
	}
}
