package bench

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"time"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner/client"
	"recalld/scanner/kernel"
)

// blocksEach is how many blocks a record of the bench has at most.
const blocksEach = 20

// scanProcess is files of a bench and a scanner process over them.
type scanProcess struct {
	folder   string // of the files
	sockets  string
	command  []string
	source   layout.Source
	segments []string
	values   string // "" for none
	client   *client.Client
}

// newScanProcess makes folders, that of the files below another one, "" for the
// system's temporary one.
func newScanProcess(below string, command []string, dims int) (p *scanProcess, err error) {
	p = &scanProcess{command: command, source: layout.Source{TruthID: "bench", Model: 1, Identity: sha256.Sum256([]byte("bench")), Dims: dims}}
	if p.folder, err = os.MkdirTemp(below, "scan"); err != nil {
		return nil, err
	}
	if p.folder, err = filepath.Abs(p.folder); err == nil {
		p.sockets, err = os.MkdirTemp("", "scan") // its path must be a short one
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.folder))
	}
	return p, nil
}

// write streams so many rows into segments. place fills in a row's code and says
// its cell; cells ascend. A record has up to [blocksEach] blocks and does not leave
// its cell. value, which may be nil, fills in a row's int8.
func (p *scanProcess) write(ctx context.Context, rows int, place func(row int, code []byte) layout.Cell, value func(row int, v []byte)) (err error) {
	spec := layout.Spec{Source: p.source, Kind: layout.Signs, Lean: value == nil}
	var w *layout.Writer
	var values *layout.ValuesWriter
	if value != nil {
		if values, err = layout.CreateValues(p.folder, layout.ValuesSpec{Source: p.source, Number: 1}); err != nil {
			return err
		}
	}
	defer func() {
		if err != nil && w != nil {
			err = errors.Join(err, w.Abandon())
		}
	}()
	finish := func() error {
		if w == nil {
			return nil
		}
		name, err := w.Finish()
		p.segments = append(p.segments, name)
		w = nil
		return err
	}
	code, int8s := make([]byte, p.source.Dims/8), make([]byte, p.source.Dims)
	var last layout.Cell
	record, block := int64(0), 0
	for row := range rows {
		cell := place(row, code)
		if block++; row == 0 || cell != last || block == blocksEach {
			if err := ctx.Err(); err != nil {
				return err
			}
			record, block, last = record+1, 0, cell
			if w == nil || !w.Fits(blocksEach) {
				if err := finish(); err != nil {
					return err
				}
				if w, err = layout.Create(p.folder, spec); err != nil {
					return err
				}
			}
		}
		r := layout.Row{Cell: cell, Ref: memory.Ref{Kind: memory.KindMemory, ID: record}, Block: block, Code: code, Value: layout.NoPointer()}
		if values != nil {
			value(row, int8s)
			if r.Value, err = values.Add(int8s); err != nil {
				return err
			}
		}
		if err := w.Add(r); err != nil {
			return err
		}
	}
	if err := finish(); err != nil || values == nil {
		return err
	}
	p.values, err = values.Finish()
	return err
}

// generation is the files as they are published.
func (p *scanProcess) generation(number uint64, values bool) *scannerv1.PublishRequest {
	g := &scannerv1.PublishRequest{Generation: number, Models: []*scannerv1.Model{{Number: 1, Identity: p.source.Identity[:], Dims: uint32(p.source.Dims)}}}
	for _, name := range p.segments {
		g.Segments = append(g.Segments, &scannerv1.Segment{Model: 1, Name: name})
	}
	if values {
		g.Values = []*scannerv1.Values{{Model: 1, Number: 1, Name: p.values}}
	}
	return g
}

// start starts a process and gives it the files, but for values.
func (p *scanProcess) start(ctx context.Context) (err error) {
	if p.client, err = client.New(client.Options{Command: p.command, Folder: p.folder, TruthID: p.source.TruthID, Runtime: p.sockets}); err != nil {
		return err
	}
	_, err = p.client.Publish(ctx, p.generation(1, false))
	return err
}

// stop ends the process.
func (p *scanProcess) stop() {
	if p.client != nil {
		_ = p.client.Close()
		p.client = nil
	}
}

// close ends the process and removes the files.
func (p *scanProcess) close() {
	p.stop()
	_ = os.RemoveAll(p.folder)
	_ = os.RemoveAll(p.sockets)
}

// anonymousMB is the process's memory that no file stands behind, in MB; 0 where
// the system does not say.
func (p *scanProcess) anonymousMB(ctx context.Context) (float64, error) {
	stats, err := p.client.Stats(ctx)
	return round(float64(stats.GetAnonymousBytes()) / 1e6), err
}

// scanOf is a scan of an agent's rows.
func scanOf(agent uint64, queries ...kernel.Query) *scannerv1.ScanRequest {
	r := &scannerv1.ScanRequest{Model: 1, Scope: &scannerv1.Scope{Agent: agent}}
	for _, q := range queries {
		r.Queries = append(r.Queries, &scannerv1.Query{Code: q.Code, Rows: uint32(q.Rows)})
	}
	return r
}

func timed(clock func() time.Time, f func() error) (time.Duration, error) {
	start := clock()
	err := f()
	return clock().Sub(start), err
}
