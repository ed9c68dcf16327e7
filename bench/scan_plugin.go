package bench

import (
	"context"
	"slices"
	"sync"
	"time"

	"recalld/layout"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner/kernel"
)

// Plugin is what the same scan takes through a scanner process, in the same
// rounds.
type Plugin struct {
	Mapped       float64 `json:"mapped_ms"` // the same scan in this process, over the mapped files: their pages are small ones
	Scan         float64 `json:"scan_ms"`
	More         float64 `json:"more_ms"`             // than in this process, over memory
	MoreMapped   float64 `json:"more_than_mapped_ms"` // than in this process, over the files
	BestMore     float64 `json:"best_more_ms"`        // as more_ms, of the shortest times
	BestMapped   float64 `json:"best_more_than_mapped_ms"`
	Empty        float64 `json:"empty_call_ms"` // a scan of an agent without rows: what a call takes that scans nothing
	BestEmpty    float64 `json:"best_empty_call_ms"`
	Small        float64 `json:"small_scope_ms"`
	SmallRows    int     `json:"small_scope_rows"`
	SmallScanned uint64  `json:"small_scope_rows_scanned"`
	Together     int     `json:"coalesce,omitempty"` // scans of one query each that are released together
	TogetherMS   float64 `json:"coalesce_ms,omitempty"`
	OneMS        float64 `json:"one_ms,omitempty"` // one of them alone
	TogetherOne  float64 `json:"coalesce_to_one,omitempty"`
	AnonymousMB  float64 `json:"anon_mb,omitempty"` // of the process, at the end; Linux
}

// smallRows is the size of the small scope that stands beside the large one.
const smallRows = 1000

const (
	largeAgent = 1
	smallAgent = 2
	emptyAgent = 3
)

// scanThrough is a scanner process over segments of the same codes.
type scanThrough struct {
	*scanProcess
	threads           int
	files             []*layout.Segment
	passes            [][]kernel.Query
	large             []*scannerv1.ScanRequest // passes
	small, empty      *scannerv1.ScanRequest
	together          []*scannerv1.ScanRequest // of one query each
	mapped            []time.Duration
	larges, smalls    []time.Duration
	empties           []time.Duration
	togethers, alones []time.Duration
	scanned           uint64 // rows, of the last small scope
}

// newScanThrough writes the codes into segments, those of one agent and a second
// agent's small scope behind them, and starts a process.
func newScanThrough(ctx context.Context, o ScanOptions, codes []byte, queries []kernel.Query) (s *scanThrough, err error) {
	width := o.Dims / 8
	p, err := newScanProcess(o.Folder, o.Command, o.Dims)
	if err != nil {
		return nil, err
	}
	s = &scanThrough{scanProcess: p, threads: o.Threads}
	begun := s // a return of an error leaves s nil
	defer func() {
		if err != nil {
			begun.close()
		}
	}()
	err = p.write(ctx, o.Rows+smallRows, func(row int, code []byte) layout.Cell {
		copy(code, codes[row%o.Rows*width:][:width])
		if row < o.Rows {
			return layout.Cell{Agent: largeAgent}
		}
		return layout.Cell{Agent: smallAgent}
	}, nil)
	if err != nil {
		return nil, err
	}
	if err := p.start(ctx); err != nil {
		return nil, err
	}
	for _, name := range p.segments {
		file, err := layout.OpenSegment(p.folder, name, p.source)
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, file)
	}
	for pass := range slices.Chunk(queries, kernel.MaxQueries) {
		s.passes = append(s.passes, pass)
		s.large = append(s.large, scanOf(largeAgent, pass...))
	}
	for i := range o.Together {
		s.together = append(s.together, scanOf(largeAgent, queries[i%len(queries)]))
	}
	s.small, s.empty = scanOf(smallAgent, queries[0]), scanOf(emptyAgent, queries[0])
	return s, nil
}

// round takes the time of one scan of each kind.
func (s *scanThrough) round(ctx context.Context, clock func() time.Time, counts bool) error {
	mapped, err := timed(clock, func() error { return s.scanMapped(ctx) })
	if err != nil {
		return err
	}
	large, err := timed(clock, func() error {
		for _, r := range s.large {
			if _, err := s.client.Scan(ctx, r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	small, err := timed(clock, func() error {
		reply, err := s.client.Scan(ctx, s.small)
		s.scanned = reply.GetRowsScanned()
		return err
	})
	if err != nil {
		return err
	}
	empty, err := timed(clock, func() error {
		_, err := s.client.Scan(ctx, s.empty)
		return err
	})
	if err != nil {
		return err
	}
	if counts {
		s.mapped, s.larges, s.smalls = append(s.mapped, mapped), append(s.larges, large), append(s.smalls, small)
		s.empties = append(s.empties, empty)
	}
	if len(s.together) == 0 {
		return nil
	}
	alone, err := timed(clock, func() error {
		_, err := s.client.Scan(ctx, s.together[0])
		return err
	})
	if err != nil {
		return err
	}
	together, err := s.release(ctx, clock)
	if counts {
		s.alones, s.togethers = append(s.alones, alone), append(s.togethers, together)
	}
	return err
}

// scanMapped scans the files in this process, as the scanner does.
func (s *scanThrough) scanMapped(ctx context.Context) error {
	for _, pass := range s.passes {
		for _, file := range s.files {
			rows, err := file.Ranges(layout.Scope{Agent: largeAgent})
			if err != nil {
				return err
			}
			for _, r := range rows {
				if err := file.Touch(r); err != nil {
					return err
				}
				scan, err := kernel.New(kernel.Job{Matrix: kernel.Matrix{Bits: 8 * file.RowBytes(), Codes: file.Codes()}, From: r.From, To: r.To, Queries: pass, Path: kernel.Best()})
				if err != nil {
					return err
				}
				if err := scan.Run(ctx, s.threads); err != nil {
					return err
				}
				scan.Answers()
			}
		}
	}
	return nil
}

// release lets all scans that go together loose at once and waits for them.
func (s *scanThrough) release(ctx context.Context, clock func() time.Time) (time.Duration, error) {
	var wait sync.WaitGroup
	errs := make([]error, len(s.together))
	loose := make(chan struct{})
	for i, r := range s.together {
		wait.Go(func() {
			<-loose
			_, errs[i] = s.client.Scan(ctx, r)
		})
	}
	took, _ := timed(clock, func() error {
		close(loose)
		wait.Wait()
		return nil
	})
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return took, nil
}

// report compares with the times of the same scans in this process.
func (s *scanThrough) report(ctx context.Context, here []time.Duration) (*Plugin, error) {
	anonymous, err := s.anonymousMB(ctx)
	if err != nil {
		return nil, err
	}
	p := &Plugin{Mapped: Quantile(s.mapped, .5), Scan: Quantile(s.larges, .5), Small: Quantile(s.smalls, .5), SmallRows: smallRows, SmallScanned: s.scanned, AnonymousMB: anonymous}
	p.More = round(p.Scan - Quantile(here, .5))
	p.MoreMapped = round(p.Scan - p.Mapped)
	p.BestMapped = round(Quantile(s.larges, 0) - Quantile(s.mapped, 0))
	p.Empty, p.BestEmpty = Quantile(s.empties, .5), Quantile(s.empties, 0)
	p.BestMore = round(Quantile(s.larges, 0) - Quantile(here, 0))
	if len(s.together) > 0 {
		p.Together, p.TogetherMS, p.OneMS = len(s.together), Quantile(s.togethers, .5), Quantile(s.alones, .5)
		p.TogetherOne = ratio(p.TogetherMS, p.OneMS)
	}
	return p, nil
}

// close ends the process and removes the files.
func (s *scanThrough) close() {
	for _, file := range s.files {
		_ = file.Close() // of a mapping that was only read
	}
	s.scanProcess.close()
}
