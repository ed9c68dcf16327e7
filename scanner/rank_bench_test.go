package scanner

import (
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
)

// BenchmarkRanksTogether reports what ranks that are released together take, all of
// them, beside one alone in the same run: medians of the clock and of the processor,
// their ratios, and that of the bytes of codes read. Vectors are held where there are 100,000 records; of a million
// the answer is every record that could be among the 100 nearest.
func BenchmarkRanksTogether(b *testing.B) {
	for _, rows := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			w := newWorld(b, 1, 256)
			vw := &vectorWorld{world: w, truth: make(map[memory.Ref]vectorRecord)}
			if rows == 100_000 {
				vw.held = func() bool { return true }
			}
			random := func() vector {
				v := make([]float32, w.dims)
				for i := range v {
					v[i] = float32(w.r.NormFloat64())
				}
				return codedVector(b, v)
			}
			records := make([]vectorRecord, rows)
			for i := range records {
				records[i] = vectorRecord{layout.Cell{Agent: 1}, memory.Ref{Kind: memory.KindMemory, ID: int64(i) + 1}, random()}
				records[i].exact = nil
			}
			vw.addFile(records, nil)
			records, vw.truth = nil, nil
			w.doPublish()
			var requests []*scannerv1.RankRequest
			for range 8 {
				v := random()
				requests = append(requests, &scannerv1.RankRequest{Model: modelNumber, Scope: &scannerv1.Scope{Agent: 1}, Code: v.code, Scale: float64(v.scale), Error: float64(v.bound), Vector: v.floats, K: 100})
			}
			clock, processor, read := make(map[int][]time.Duration), make(map[int][]time.Duration), make(map[int]uint64)
			for i := 0; b.Loop(); i++ {
				for _, n := range []int{1, 4, 8} {
					bytes := w.server.passes.bytes.Load()
					used, start := processorTime(b), time.Now()
					var wait sync.WaitGroup
					for j := range n {
						wait.Go(func() {
							if _, err := w.server.Rank(b.Context(), requests[(i+j)%len(requests)]); err != nil {
								b.Error(err)
							}
						})
					}
					wait.Wait()
					clock[n], processor[n] = append(clock[n], time.Since(start)), append(processor[n], processorTime(b)-used)
					read[n] += w.server.passes.bytes.Load() - bytes
				}
			}
			median := func(all []time.Duration) float64 {
				slices.Sort(all)
				return all[len(all)/2].Seconds() * 1000
			}
			for _, n := range []int{1, 4, 8} {
				b.ReportMetric(median(clock[n]), fmt.Sprintf("ms-of-%d", n))
				b.ReportMetric(median(processor[n]), fmt.Sprintf("cpu-ms-of-%d", n))
			}
			for _, n := range []int{4, 8} {
				b.ReportMetric(median(clock[n])/median(clock[1]), fmt.Sprintf("×alone-of-%d", n))
				b.ReportMetric(median(processor[n])/median(processor[1]), fmt.Sprintf("×alone-cpu-of-%d", n))
				b.ReportMetric(float64(read[n])/float64(read[1]), fmt.Sprintf("×alone-bytes-of-%d", n))
			}
		})
	}
}

func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
