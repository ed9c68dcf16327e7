package bench

import (
	"context"
	"math/rand/v2"
	"time"

	"recalld/scanner/kernel"
)

// FidelityScan compares one query's pass over the code, one thread, with reading
// the same bytes in the same run, each the best of all rounds. By is what passed: the
// kernel, or, for codes that it has no loop for, a table look-up in Go.
type FidelityScan struct {
	By    string  `json:"by"`
	Rows  int     `json:"rows"`
	Read  float64 `json:"read_ms"`
	Pass  float64 `json:"scan_ms"`
	Ratio float64 `json:"ratio"`
}

// timeCodes measures over random bytes: times do not depend on what they say.
func timeCodes(ctx context.Context, report *FidelityReport, o FidelityOptions) error {
	if o.Scan < 1 {
		return nil
	}
	timed := map[int]*FidelityScan{} // by width, for signs
	for i, c := range fidelityCodes(report.Dims) {
		entry := &report.Codes[i]
		switch code := c.code.(type) {
		case *signCode:
			width := (code.width + 63) / 64 * 64
			if timed[width] == nil {
				s, err := Scan(ctx, ScanOptions{Rows: o.Scan, Dims: width, K: 200, Queries: 1, Threads: 1, Path: kernel.Best(), Repeat: o.Repeat, Clock: o.Clock})
				if err != nil {
					return err
				}
				timed[width] = &FidelityScan{By: "kernel", Rows: o.Scan, Read: s.Best.Read, Pass: s.Best.Scan, Ratio: s.Best.Ratio}
			}
			entry.Scan = timed[width]
		case *levelCode:
			code.dims = report.Dims
			row := code.bytes() - 4
			code.packed = fill(rand.New(rand.NewPCG(fidelitySeed, 2)), make([]byte, (o.Scan*row+7)/8*8))
			table, out := code.table(make([]float32, report.Dims)), make([]float32, o.Scan)
			var err error
			entry.Scan, err = timePass(o, "go", code.packed, func() error { code.dots(table, out); return ctx.Err() })
			if err != nil {
				return err
			}
		case *byteCode:
			data := fill(rand.New(rand.NewPCG(fidelitySeed, 3)), make([]byte, (o.Scan*report.Dims+7)/8*8))
			values := kernel.Values{Dims: report.Dims, Stride: report.Dims, Data: data}
			rows, dots := make([]uint32, o.Scan), make([]int32, o.Scan)
			for r := range rows {
				rows[r] = uint32(r)
			}
			var err error
			entry.Scan, err = timePass(o, "kernel", data, func() error { return values.Dots(kernel.Best(), rows, data[:report.Dims], dots) })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func timePass(o FidelityOptions, by string, data []byte, pass func() error) (*FidelityScan, error) {
	var reads, passes []time.Duration
	for round := range o.Repeat + 1 {
		start := o.Clock()
		readAll(data, 1)
		read := o.Clock().Sub(start)
		start = o.Clock()
		if err := pass(); err != nil {
			return nil, err
		}
		took := o.Clock().Sub(start)
		if round > 0 { // the first one warms up
			reads, passes = append(reads, read), append(passes, took)
		}
	}
	s := &FidelityScan{By: by, Rows: o.Scan, Read: Quantile(reads, 0), Pass: Quantile(passes, 0)}
	s.Ratio = ratio(s.Pass, s.Read)
	return s, nil
}
