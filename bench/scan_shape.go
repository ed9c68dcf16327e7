package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"recalld/coordinator"
	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner/kernel"
)

// ScanShapeOptions of [ScanShape]. One of Cells, Projects and Rerank is set.
type ScanShapeOptions struct {
	Rows, Dims, K int
	Repeat        int
	Cells         int      // of one agent each
	Projects      int      // of one agent
	Rerank        bool     // cold
	Command       []string // of a scanner process
	Folder        string   // to make files below; "": the system's temporary one
	Progress      coordinator.Progress
	Clock         func() time.Time
}

// ScanShapeReport is what a scanner process does with files of one shape. Times are
// medians.
type ScanShapeReport struct {
	Cells    *CellsReport    `json:"cells,omitempty"`
	Projects *ProjectsReport `json:"projects,omitempty"`
	Rerank   *RerankReport   `json:"rerank,omitempty"`
	Write    float64         `json:"write_s"` // the files
	Segments int             `json:"segments"`
	Rows     int             `json:"rows"`
	Dims     int             `json:"dims"`
	K        int             `json:"k"`
	Repeat   int             `json:"repeat"`
	// AnonymousMB is the memory of the process, at the end, that no file stands
	// behind; Linux.
	AnonymousMB float64 `json:"anon_mb,omitempty"`
	Machine     Machine `json:"machine"`
}

// CellsReport is about rows in many cells.
type CellsReport struct {
	Cells     int     `json:"cells"`
	Start     float64 `json:"start_ms"` // from no process to the first answer, pages in memory
	Directory int     `json:"dir_bytes"`
	ScopeRows int     `json:"scope_rows"` // of one cell
	Scanned   uint64  `json:"scope_rows_scanned"`
	Scope     float64 `json:"scope_ms"` // one cell, another one each time
}

// ProjectsReport compares an agent's projects, none of them named, with as many
// rows of one cell.
type ProjectsReport struct {
	Projects int     `json:"projects"`
	Scan     float64 `json:"projects_ms"`
	OneCell  float64 `json:"one_cell_ms"`
	Ratio    float64 `json:"ratio"`
	Scanned  uint64  `json:"rows_scanned"`
}

// RerankReport is about the dot products of K rows whose pages are not in memory.
type RerankReport struct {
	Scan         float64 `json:"scan_ms"`           // without dot products
	Cold         float64 `json:"cold_ms"`           // with them, from a file that is not in memory
	Warm         float64 `json:"warm_ms"`           // once more
	ColdMore     float64 `json:"cold_more_ms"`      // than without
	BestColdMore float64 `json:"best_cold_more_ms"` // of the shortest times
	Disk         float64 `json:"disk_ms"`           // to read as many random pages of the file, all at once
	WarmMore     float64 `json:"warm_more_ms"`
	ValuesMB     float64 `json:"values_mb"`
	ValuesBefore float64 `json:"values_resident_before"` // part of the file in memory
	BitsAfter    float64 `json:"bits_resident_after"`    // -1: the file system does not tell
}

// ScanShape measures one shape. Numbers that nothing can be measured with are a
// *[memory.FieldError].
func ScanShape(ctx context.Context, o ScanShapeOptions) (*ScanShapeReport, error) {
	err := errors.Join(atLeastOne("rows", o.Rows), atLeastOne("k", o.K), atLeastOne("repeat", o.Repeat), checkDims(o.Dims))
	if parts := max(o.Cells, o.Projects); err == nil && parts > o.Rows {
		err = &memory.FieldError{Field: "rows", Problem: "are fewer than cells", Limit: "a row in each", Next: "ask for more rows or fewer cells"}
	}
	if err != nil {
		return nil, err
	}
	p, err := newScanProcess(o.Folder, o.Command, o.Dims)
	if err != nil {
		return nil, err
	}
	defer p.close()
	report := &ScanShapeReport{Rows: o.Rows, Dims: o.Dims, K: o.K, Repeat: o.Repeat}
	r := rand.New(rand.NewPCG(scanSeed, 0))
	progress := func(row int) {
		if o.Progress != nil && (row%100_000 == 0 || row == o.Rows) {
			o.Progress(int64(row), int64(o.Rows))
		}
	}
	var place func(row int) layout.Cell
	var value func(row int, v []byte)
	rows := o.Rows
	switch {
	case o.Cells > 0:
		place = func(row int) layout.Cell { return layout.Cell{Agent: 1 + uint64(row/(o.Rows/o.Cells))} }
		rows = o.Rows / o.Cells * o.Cells
	case o.Projects > 0:
		place = func(row int) layout.Cell {
			if row < o.Rows {
				return layout.Cell{Agent: largeAgent, Project: 1 + uint64(row*o.Projects/o.Rows)}
			}
			return layout.Cell{Agent: smallAgent}
		}
		rows = 2 * o.Rows
	default:
		place = func(int) layout.Cell { return layout.Cell{Agent: largeAgent} }
		value = func(_ int, v []byte) {
			fill(r, v)
			for i := range v {
				v[i] = byte(int8(max(-127, int8(v[i]))))
			}
		}
	}
	took, err := timed(o.Clock, func() error {
		return p.write(ctx, rows, func(row int, code []byte) layout.Cell {
			progress(row)
			fill(r, code)
			return place(row)
		}, value)
	})
	if err != nil {
		return nil, err
	}
	progress(o.Rows)
	report.Write, report.Segments = round(took.Seconds()), len(p.segments)
	query := func() kernel.Query { return kernel.Query{Code: fill(r, make([]byte, o.Dims/8)), Rows: o.K} }
	switch {
	case o.Cells > 0:
		report.Cells, err = p.cells(ctx, o, r, query)
	case o.Projects > 0:
		report.Projects, err = p.projects(ctx, o, query())
	default:
		report.Rerank, err = p.rerank(ctx, o, r, query())
	}
	if err != nil {
		return nil, err
	}
	report.AnonymousMB, err = p.anonymousMB(ctx)
	return report, err
}

// starts is how often a process is started to time it.
const starts = 3

func (p *scanProcess) cells(ctx context.Context, o ScanShapeOptions, r *rand.Rand, query func() kernel.Query) (*CellsReport, error) {
	report := &CellsReport{Cells: o.Cells, ScopeRows: o.Rows / o.Cells}
	ask := func() error {
		reply, err := p.client.Scan(ctx, scanOf(1+r.Uint64N(uint64(o.Cells)), query()))
		report.Scanned = reply.GetRowsScanned()
		return err
	}
	var begun, scopes []time.Duration
	for range starts {
		p.stop()
		took, err := timed(o.Clock, func() error {
			if err := p.start(ctx); err != nil {
				return err
			}
			return ask()
		})
		if err != nil {
			return nil, err
		}
		begun = append(begun, took)
	}
	for range o.Repeat {
		took, err := timed(o.Clock, ask)
		if err != nil {
			return nil, err
		}
		scopes = append(scopes, took)
	}
	for _, name := range p.segments {
		file, err := layout.OpenSegment(p.folder, name, p.source)
		if err != nil {
			return nil, err
		}
		report.Directory += 32 * file.Header().Cells
		if err := file.Close(); err != nil {
			return nil, err
		}
	}
	report.Start, report.Scope = Quantile(begun, .5), Quantile(scopes, .5)
	return report, nil
}

func (p *scanProcess) projects(ctx context.Context, o ScanShapeOptions, query kernel.Query) (*ProjectsReport, error) {
	if err := p.start(ctx); err != nil {
		return nil, err
	}
	report := &ProjectsReport{Projects: o.Projects}
	var many, one []time.Duration
	for round := range o.Repeat + 1 {
		for _, of := range []struct {
			agent uint64
			times *[]time.Duration
		}{{largeAgent, &many}, {smallAgent, &one}} {
			took, err := timed(o.Clock, func() error {
				reply, err := p.client.Scan(ctx, scanOf(of.agent, query))
				report.Scanned = reply.GetRowsScanned()
				return err
			})
			if err != nil {
				return nil, err
			}
			if round > 0 { // the first one verifies
				*of.times = append(*of.times, took)
			}
		}
	}
	report.Scan, report.OneCell = Quantile(many, .5), Quantile(one, .5)
	report.Ratio = ratio(report.Scan, report.OneCell)
	return report, nil
}

func (p *scanProcess) rerank(ctx context.Context, o ScanShapeOptions, r *rand.Rand, query kernel.Query) (*RerankReport, error) {
	if err := p.start(ctx); err != nil {
		return nil, err
	}
	report := &RerankReport{}
	plain := scanOf(largeAgent, query)
	full := scanOf(largeAgent, query)
	full.Queries[0].Values = fill(r, make([]byte, o.Dims))
	path := filepath.Join(p.folder, p.values)
	scan := func(request *scannerv1.ScanRequest, into *[]time.Duration, counts bool) error {
		took, err := timed(o.Clock, func() error {
			_, err := p.client.Scan(ctx, request)
			return err
		})
		if counts {
			*into = append(*into, took)
		}
		return err
	}
	var plains, colds, warms, disks []time.Duration
	for i := range o.Repeat + 1 {
		number := uint64(2 + 2*i)
		if _, err := p.client.Publish(ctx, p.generation(number, false)); err != nil { // so that nobody has the file mapped
			return nil, err
		}
		if _, _, err := forgetAll(path); err != nil {
			return nil, err
		}
		disk, err := timed(o.Clock, func() error { return readRandomly(path, r, o.K) })
		if err != nil {
			return nil, err
		}
		left, bytes, err := forgetAll(path)
		if err != nil {
			return nil, err
		}
		report.ValuesBefore, report.ValuesMB = max(report.ValuesBefore, round(left)), round(float64(bytes)/1e6)
		if i > 0 {
			disks = append(disks, disk)
		}
		if _, err := p.client.Publish(ctx, p.generation(number+1, true)); err != nil {
			return nil, err
		}
		for _, step := range []struct {
			request *scannerv1.ScanRequest
			into    *[]time.Duration
		}{{plain, &plains}, {full, &colds}, {full, &warms}} {
			if err := scan(step.request, step.into, i > 0); err != nil { // the first one verifies
				return nil, err
			}
		}
	}
	for _, name := range p.segments {
		part, _, err := pagesOf(filepath.Join(p.folder, name))
		if err != nil {
			return nil, err
		}
		report.BitsAfter += part / float64(len(p.segments))
	}
	report.BitsAfter = round(report.BitsAfter)
	report.Scan, report.Cold, report.Warm = Quantile(plains, .5), Quantile(colds, .5), Quantile(warms, .5)
	report.Disk, report.BestColdMore = Quantile(disks, .5), round(Quantile(colds, 0)-Quantile(plains, 0))
	report.ColdMore, report.WarmMore = round(report.Cold-report.Scan), round(report.Warm-report.Scan)
	return report, nil
}

// forgetAll drops a file from memory; the process that had it mapped may take a
// moment to let go of it.
func forgetAll(path string) (part float64, bytes int64, err error) {
	for range 20 {
		if part, bytes, err = forget(path); err != nil || part < .01 {
			break
		}
	}
	return part, bytes, err
}

// readRandomly reads so many random places of a file, all at once.
func readRandomly(path string, r *rand.Rand, n int) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	errs := make([]error, n)
	var wait sync.WaitGroup
	for i := range errs {
		at := r.Int64N(info.Size())
		wait.Go(func() { _, errs[i] = f.ReadAt(make([]byte, 1), at) })
	}
	wait.Wait()
	return errors.Join(errs...)
}
