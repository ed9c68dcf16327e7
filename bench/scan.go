package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"recalld/coordinator"
	"recalld/memory"
	"recalld/scanner/kernel"
)

// ScanOptions of [Scan].
type ScanOptions struct {
	Rows     int
	Dims     int // bits of a row
	K        int // rows wanted
	Queries  int // of one pass
	Threads  int
	Path     kernel.Path
	Repeat   int      // rounds, of which the medians are taken
	Command  []string // of a scanner process to scan through; nil: none
	Together int      // scans of one query each to release together through that process; 0: none
	Folder   string   // to make that process's files below; "": the system's temporary one
	Progress coordinator.Progress
	Clock    func() time.Time
}

// ScanReport compares a scan with reading the same bytes. Times are medians over
// rounds that take turns.
type ScanReport struct {
	Read    float64 `json:"read_ms"` // the machine's best read loop, as many threads
	Scan    float64 `json:"scan_ms"`
	Ratio   float64 `json:"ratio"`                  // of the scan to reading
	One     float64 `json:"one_query_ms,omitempty"` // where a pass has several queries: a pass with one of them
	Batch   float64 `json:"ratio_to_one,omitempty"`
	Plugin  *Plugin `json:"plugin,omitempty"`
	Best    Bests   `json:"best"` // instead of medians: what a busy machine disturbs least
	Path    string  `json:"path"`
	Rows    int     `json:"rows"`
	Dims    int     `json:"dims"`
	K       int     `json:"k"`
	Queries int     `json:"queries"`
	Threads int     `json:"threads"`
	Repeat  int     `json:"repeat"`
	Machine Machine `json:"machine"`
}

// Bests are the shortest times of all rounds, and their ratios.
type Bests struct {
	Read  float64 `json:"read_ms"`
	Scan  float64 `json:"scan_ms"`
	Ratio float64 `json:"ratio"`
	Batch float64 `json:"ratio_to_one,omitempty"`
}

const scanSeed = 1

// Scan measures passes over random codes in memory. Numbers that nothing can be
// measured with are a *[memory.FieldError].
func Scan(ctx context.Context, o ScanOptions) (*ScanReport, error) {
	err := errors.Join(atLeastOne("rows", o.Rows), atLeastOne("k", o.K), atLeastOne("queries", o.Queries), atLeastOne("threads", o.Threads),
		atLeastOne("repeat", o.Repeat), checkDims(o.Dims))
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(scanSeed, 0))
	memory, free, err := hugePages(o.Rows * o.Dims / 8)
	if err != nil {
		return nil, err
	}
	defer free()
	m := kernel.Matrix{Bits: o.Dims, Codes: fill(r, memory)}
	queries := make([]kernel.Query, o.Queries)
	for i := range queries {
		queries[i] = kernel.Query{Code: fill(r, make([]byte, o.Dims/8)), Rows: o.K}
	}
	var through *scanThrough
	if o.Command != nil {
		if through, err = newScanThrough(ctx, o, m.Codes, queries); err != nil {
			return nil, err
		}
		defer through.close()
	}
	var reads, scans, ones []time.Duration
	for round := range o.Repeat + 1 {
		start := o.Clock()
		readAll(m.Codes, o.Threads)
		read := o.Clock().Sub(start)
		scan, err := timeScan(ctx, o, kernel.Job{Matrix: m, To: o.Rows, Queries: queries, Path: o.Path})
		if err != nil {
			return nil, err
		}
		one := scan
		if o.Queries > 1 {
			if one, err = timeScan(ctx, o, kernel.Job{Matrix: m, To: o.Rows, Queries: queries[:1], Path: o.Path}); err != nil {
				return nil, err
			}
		}
		if through != nil {
			if err := through.round(ctx, o.Clock, round > 0); err != nil {
				return nil, err
			}
		}
		if round > 0 { // the first one warms up
			reads, scans, ones = append(reads, read), append(scans, scan), append(ones, one)
		}
		if o.Progress != nil {
			o.Progress(int64(round+1), int64(o.Repeat+1))
		}
	}
	report := &ScanReport{Read: Quantile(reads, .5), Scan: Quantile(scans, .5), Path: o.Path.String(), Rows: o.Rows, Dims: o.Dims, K: o.K,
		Queries: o.Queries, Threads: o.Threads, Repeat: o.Repeat}
	report.Best = Bests{Read: Quantile(reads, 0), Scan: Quantile(scans, 0)}
	if through != nil {
		if report.Plugin, err = through.report(ctx, scans); err != nil {
			return nil, err
		}
	}
	report.Ratio, report.Best.Ratio = ratio(report.Scan, report.Read), ratio(report.Best.Scan, report.Best.Read)
	if o.Queries > 1 {
		report.One = Quantile(ones, .5)
		report.Batch, report.Best.Batch = ratio(report.Scan, report.One), ratio(report.Best.Scan, Quantile(ones, 0))
	}
	return report, nil
}

func checkDims(dims int) error {
	if dims < 64 || dims%64 != 0 || dims > kernel.MaxBits {
		return &memory.FieldError{Field: "dims", Problem: "is no width of a row", Limit: "a multiple of 64 up to 16384", Next: "take one of 256, 384, 512, 768, 1024, 1536"}
	}
	return nil
}

// ratio is 0 where there was nothing to measure with.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return round(a / b)
}

func timeScan(ctx context.Context, o ScanOptions, job kernel.Job) (time.Duration, error) {
	start := o.Clock()
	for queries := range slices.Chunk(job.Queries, kernel.MaxQueries) {
		pass := job
		pass.Queries = queries
		s, err := kernel.New(pass)
		if err != nil {
			return 0, err
		}
		if err := s.Run(ctx, o.Threads); err != nil {
			return 0, err
		}
		s.Answers()
	}
	return o.Clock().Sub(start), nil
}

// readAll reads with so many goroutines, a share each.
func readAll(data []byte, threads int) {
	share := (len(data) + threads - 1) / threads
	var wait sync.WaitGroup
	for part := range slices.Chunk(data, share) {
		wait.Go(func() { kernel.Read(kernel.Best(), part) })
	}
	wait.Wait()
}

// fill draws random bytes, a multiple of eight.
func fill(r *rand.Rand, b []byte) []byte {
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
	return b
}
