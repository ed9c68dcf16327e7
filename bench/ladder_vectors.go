package bench

import (
	"context"
	"fmt"
	"math/rand/v2"

	"recalld/scanner/kernel"
)

// The shape vectors scans codes of so many bits for the rows that the block arm
// wants, with queries that are a row's code with one bit in ten turned.
const (
	vectorDims    = 1_024
	vectorRows    = 200
	vectorQueries = 64
	vectorTurned  = 10
)

// vectorRung scans random codes for planted neighbours: in this process, through a
// scanner process when there is a command for one, and beside a loop that only
// reads the same bytes, in turns.
func vectorRung(ctx context.Context, o LadderOptions, n int) (rung LadderRung, err error) {
	progress, done := o.Phase("vectors")
	defer done()
	rung = LadderRung{Shape: o.Shape, Records: n, Blocks: int64(n), Dims: vectorDims, Path: kernel.Best().String(), ArmMS: map[string]Latencies{},
		RSS: map[string]float64{}, Load: [2]float64{loadAverage()}}
	resetPeak()
	start := o.Clock()
	memory, free, err := hugePages(n * vectorDims / 8)
	if err != nil {
		return rung, err
	}
	defer free()
	r := rand.New(rand.NewPCG(ladderSeed, uint64(n)))
	m := kernel.Matrix{Bits: vectorDims, Codes: fill(r, memory)}
	planted := make([]int, vectorQueries)
	queries := make([]kernel.Query, vectorQueries)
	for i := range queries {
		planted[i] = r.IntN(n)
		code := append([]byte(nil), m.Codes[planted[i]*vectorDims/8:][:vectorDims/8]...)
		for bit := range vectorDims {
			if r.IntN(vectorTurned) == 0 {
				code[bit/8] ^= 1 << (bit % 8)
			}
		}
		queries[i] = kernel.Query{Code: code, Rows: vectorRows}
	}
	var through *scanThrough
	if len(o.Scanner.Command) > 0 {
		scan := ScanOptions{Rows: n, Dims: vectorDims, Command: o.Scanner.Command}
		if through, err = newScanThrough(ctx, scan, m.Codes, queries[:1]); err != nil {
			return rung, err
		}
		defer through.close()
	}
	rung.Build = round(o.Clock().Sub(start).Seconds())

	times := ladderTimes{}
	hits, hits1 := "", 0
	for i, q := range queries {
		begin := o.Clock()
		readAll(m.Codes, 1)
		times["read"] = append(times["read"], o.Clock().Sub(begin))
		begin = o.Clock()
		s, err := kernel.New(kernel.Job{Matrix: m, To: n, Queries: []kernel.Query{q}, Path: kernel.Best()})
		if err != nil {
			return rung, err
		}
		if err := s.Run(ctx, 1); err != nil {
			return rung, err
		}
		found := s.Answers()[0].Rows
		times["kernel"] = append(times["kernel"], o.Clock().Sub(begin))
		at := -1
		for rank, hit := range found[:min(ladderRows, len(found))] {
			if int(hit.Row) == planted[i] {
				at = rank
			}
		}
		hits += map[bool]string{true: "1", false: "0"}[at >= 0]
		if at == 0 {
			hits1++
		}
		if through != nil {
			request := through.large[0]
			request.Queries[0].Code = q.Code
			begin = o.Clock()
			reply, err := through.client.Scan(ctx, request)
			if err != nil {
				return rung, err
			}
			times["plugin"] = append(times["plugin"], o.Clock().Sub(begin))
			if got := reply.GetAnswers()[0].GetRows(); len(got.GetIds()) != len(found) || int(got.GetDistances()[0]) != int(found[0].Distance) {
				return rung, fmt.Errorf("the scanner process and the kernel differ in question %d", i+1)
			}
		}
		progress(int64(i+1), vectorQueries)
	}
	rung.RSS["coordinator"] = round(peakMemory())
	for name, mb := range childPeaks() {
		rung.RSS[name] = mb
	}
	whole := "kernel"
	if through != nil {
		whole = "plugin"
	}
	for _, d := range times[whole] {
		rung.Samples.RecallMS = append(rung.Samples.RecallMS, milliseconds(d))
	}
	for name, d := range times {
		rung.ArmMS[name] = latencies(d)
	}
	rung.RecallMS = rung.ArmMS[whole]
	ones := 0
	for _, c := range hits {
		ones += int(c - '0')
	}
	rung.Questions = map[string]int{askExact: vectorQueries}
	rung.HitAt1 = map[string]float64{askExact: round(float64(hits1) / vectorQueries)}
	rung.HitAt10 = map[string]float64{askExact: round(float64(ones) / vectorQueries)}
	rung.Samples.HitAt10 = map[string]string{askExact: hits}
	rung.RowsScanned = map[string]float64{recallBlock: float64(n)}
	rung.Files = map[string]float64{"truth": 0, "derived": round(float64(n) * vectorDims / 8 / 1e6)}
	rung.Load[1] = loadAverage()
	return rung, nil
}
