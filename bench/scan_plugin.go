package bench

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner/client"
	"recalld/scanner/kernel"
)

// Plugin is what the same scan takes through a scanner process, in the same
// rounds.
type Plugin struct {
	Scan         float64 `json:"scan_ms"`
	More         float64 `json:"more_ms"`      // than in this process
	BestMore     float64 `json:"best_more_ms"` // the same of the shortest times
	Small        float64 `json:"small_scope_ms"`
	SmallRows    int     `json:"small_scope_rows"`
	SmallScanned uint64  `json:"small_scope_rows_scanned"`
	AnonymousMB  float64 `json:"anonymous_mb,omitempty"` // of the process, at the end; Linux
}

// smallRows is the size of the small scope that stands beside the large one.
const smallRows = 1000

// blocksEach is how many blocks a record of the bench has.
const blocksEach = 20

const (
	largeAgent = 1
	smallAgent = 2
)

// scanThrough is a scanner process over segments of the same codes.
type scanThrough struct {
	client  *client.Client
	dirs    []string
	large   []*scannerv1.ScanRequest // passes
	small   *scannerv1.ScanRequest
	larges  []time.Duration
	smalls  []time.Duration
	scanned uint64 // rows, of the last small scope
}

// newScanThrough writes the codes into segments and starts a process.
func newScanThrough(ctx context.Context, o ScanOptions, codes []byte, queries []kernel.Query) (s *scanThrough, err error) {
	s = &scanThrough{}
	begun := s // a return of an error leaves s nil
	defer func() {
		if err != nil {
			begun.close()
		}
	}()
	for range 2 { // of files and of sockets
		dir, err := os.MkdirTemp("", "scan")
		if err != nil {
			return nil, err
		}
		s.dirs = append(s.dirs, dir)
	}
	identity := sha256.Sum256([]byte("bench"))
	publish := &scannerv1.PublishRequest{Generation: 1, Models: []*scannerv1.Model{{Number: 1, Identity: identity[:], Dims: uint32(o.Dims)}}}
	names, err := writeSegments(s.dirs[0], o, identity, codes)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		publish.Segments = append(publish.Segments, &scannerv1.Segment{Model: 1, Name: name})
	}
	if s.client, err = client.New(client.Options{Command: o.Command, Folder: s.dirs[0], TruthID: "bench", Runtime: s.dirs[1]}); err != nil {
		return nil, err
	}
	if _, err := s.client.Publish(ctx, publish); err != nil {
		return nil, err
	}
	request := func(agent uint64, queries []kernel.Query) *scannerv1.ScanRequest {
		r := &scannerv1.ScanRequest{Model: 1, Scope: &scannerv1.Scope{Agent: agent}}
		for _, q := range queries {
			r.Queries = append(r.Queries, &scannerv1.Query{Code: q.Code, Rows: uint32(q.Rows)})
		}
		return r
	}
	for pass := range slices.Chunk(queries, kernel.MaxQueries) {
		s.large = append(s.large, request(largeAgent, pass))
	}
	s.small = request(smallAgent, queries[:1])
	return s, nil
}

// writeSegments writes the codes as one agent's, and a second agent's small
// scope behind them.
func writeSegments(dir string, o ScanOptions, identity [32]byte, codes []byte) (names []string, err error) {
	spec := layout.Spec{Source: layout.Source{TruthID: "bench", Model: 1, Identity: identity, Dims: o.Dims}, Kind: layout.Signs, Lean: true}
	var w *layout.Writer
	finish := func() error {
		if w == nil {
			return nil
		}
		name, err := w.Finish()
		names = append(names, name)
		return err
	}
	width := o.Dims / 8
	for row := range o.Rows + smallRows {
		agent, record, block := uint64(largeAgent), row/blocksEach, row%blocksEach
		code := codes[row%o.Rows*width:][:width]
		if row >= o.Rows {
			agent, record, block = smallAgent, o.Rows+row, 0
		}
		if block == 0 && (w == nil || !w.Fits(blocksEach)) {
			if err := finish(); err != nil {
				return nil, err
			}
			if w, err = layout.Create(dir, spec); err != nil {
				return nil, err
			}
		}
		if err := w.Add(layout.Row{Cell: layout.Cell{Agent: agent}, Ref: memory.Ref{Kind: memory.KindMemory, ID: int64(record) + 1}, Block: block, Code: code}); err != nil {
			return nil, errors.Join(err, w.Abandon())
		}
	}
	return names, finish()
}

// round takes the time of one scan of each scope.
func (s *scanThrough) round(ctx context.Context, clock func() time.Time, counts bool) error {
	start := clock()
	for _, r := range s.large {
		if _, err := s.client.Scan(ctx, r); err != nil {
			return err
		}
	}
	large := clock().Sub(start)
	start = clock()
	reply, err := s.client.Scan(ctx, s.small)
	if err != nil {
		return err
	}
	small := clock().Sub(start)
	s.scanned = reply.GetRowsScanned()
	if counts {
		s.larges, s.smalls = append(s.larges, large), append(s.smalls, small)
	}
	return nil
}

// report compares with the times of the same scans in this process.
func (s *scanThrough) report(ctx context.Context, here []time.Duration) (*Plugin, error) {
	stats, err := s.client.Stats(ctx)
	if err != nil {
		return nil, err
	}
	p := &Plugin{Scan: Quantile(s.larges, .5), Small: Quantile(s.smalls, .5), SmallRows: smallRows, SmallScanned: s.scanned, AnonymousMB: anonymous(stats.GetProcess())}
	p.More = round(p.Scan - Quantile(here, .5))
	p.BestMore = round(Quantile(s.larges, 0) - Quantile(here, 0))
	return p, nil
}

// anonymous is the memory of a process, in MB, that no file stands behind; 0 where
// the system does not say.
func anonymous(pid int64) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			if err != nil {
				return 0
			}
			return round(kb / 1000)
		}
	}
	return 0
}

// close ends the process and removes the files.
func (s *scanThrough) close() {
	if s.client != nil {
		_ = s.client.Close()
	}
	for _, dir := range s.dirs {
		_ = os.RemoveAll(dir) // of the system's temporary folder
	}
}
