package bench

import (
	"cmp"
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

// kernelPeer scans in this process.
type kernelPeer struct {
	set    *peerSet
	clock  func() time.Time
	took   time.Duration // to make the int8 codes
	values kernel.Values // of records, and of the queries asks
	scale  []float32
	bound  []float32
	asks   []boundedCode
}

func newKernelPeer(s *peerSet, clock func() time.Time) (*kernelPeer, error) {
	p := &kernelPeer{set: s, clock: clock}
	if s.task == TaskSigns {
		return p, nil
	}
	start := clock()
	all, err := bounded(s.vectors, s.dims)
	if err != nil {
		return nil, err
	}
	p.values = kernel.Values{Dims: s.dims, Stride: s.dims, Data: make([]byte, 0, len(s.vectors))}
	for _, row := range all {
		p.values.Data = append(p.values.Data, row.code...)
		p.scale, p.bound = append(p.scale, row.scale), append(p.bound, row.bound)
	}
	p.asks, err = bounded(s.asks, s.dims)
	p.took = clock().Sub(start)
	return p, err
}

func (p *kernelPeer) version() string                         { return kernel.Best().String() }
func (p *kernelPeer) can(int, int) bool                       { return true }
func (p *kernelPeer) memory(context.Context) (float64, error) { return 0, nil }
func (p *kernelPeer) built() time.Duration                    { return p.took }
func (p *kernelPeer) close() error                            { return nil }

func (p *kernelPeer) search(ctx context.Context, from, count, threads int) (took time.Duration, answers []peerAnswer, err error) {
	if p.set.task == TaskRecords {
		return p.rank(ctx, from, count, threads)
	}
	start := p.clock()
	job := kernel.Job{Matrix: kernel.Matrix{Bits: p.set.dims, Codes: p.set.codes}, To: p.set.rows, Queries: p.set.signQueries(from, count), Path: kernel.Best()}
	s, err := kernel.New(job)
	if err != nil {
		return 0, nil, err
	}
	if err := s.Run(ctx, threads); err != nil {
		return 0, nil, err
	}
	found := s.Answers()
	took = p.clock().Sub(start)
	for _, a := range found {
		var answer peerAnswer
		for _, hit := range a.Rows {
			answer.ids, answer.distances = append(answer.ids, int64(hit.Row)), append(answer.distances, float64(hit.Distance))
		}
		answers = append(answers, answer)
	}
	return took, answers, nil
}

func (s *peerSet) signQueries(from, count int) (queries []kernel.Query) {
	for code := range slices.Chunk(s.askCodes[from*s.dims/8:(from+count)*s.dims/8], s.dims/8) {
		queries = append(queries, kernel.Query{Code: code, Rows: s.k})
	}
	return queries
}

// rank answers up to eight queries in one pass: int8 codes say which rows could be
// among the nearest, float32 decides.
func (p *kernelPeer) rank(ctx context.Context, from, count, threads int) (took time.Duration, answers []peerAnswer, err error) {
	start := p.clock()
	job := kernel.BoundJob{Values: p.values, To: p.set.rows, Scale: p.scale, Error: p.bound, Path: kernel.Best()}
	for _, ask := range p.asks[from : from+count] {
		job.Queries = append(job.Queries, kernel.BoundQuery{Code: ask.code, K: p.set.k, Scale: float64(ask.scale), Error: float64(ask.bound)})
	}
	found, err := kernel.BoundScans(ctx, job, threads)
	if err != nil {
		return 0, nil, err
	}
	for i, candidates := range found {
		rows := make([]int64, len(candidates))
		for j, c := range candidates {
			rows[j] = int64(c.Row)
		}
		answers = append(answers, p.set.decide(from+i, rows))
	}
	return p.clock().Sub(start), answers, nil
}

// decide orders candidates by their inner products of float32.
func (s *peerSet) decide(query int, rows []int64) (answer peerAnswer) {
	type scored struct {
		row   int64
		score float32
	}
	all := make([]scored, len(rows))
	ask := s.asks[query*s.dims:][:s.dims]
	for i, row := range rows {
		all[i] = scored{row, memory.Dot(s.vectors[int(row)*s.dims:][:s.dims], ask)}
	}
	slices.SortFunc(all, func(a, b scored) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.row, b.row)) })
	for _, one := range all[:min(s.k, len(all))] {
		answer.ids, answer.distances = append(answer.ids, one.row), append(answer.distances, -float64(one.score))
	}
	return answer
}

// pluginPeer is a scanner process for each number of threads, over the same files.
type pluginPeer struct {
	set     *peerSet
	clock   func() time.Time
	took    time.Duration // to write the files
	clients map[int]*client.Client
	asks    []boundedCode
}

// peerModel is the number of the model of both kinds of segments.
const peerModel = 1

func newPluginPeer(ctx context.Context, o *PeersOptions, s *peerSet) (p *pluginPeer, err error) {
	if len(o.Scanner) == 0 {
		return nil, &missingPeer{"no scanner program is given"}
	}
	p = &pluginPeer{set: s, clock: o.Clock, clients: map[int]*client.Client{}}
	begun := p
	defer func() {
		if err != nil {
			err = errors.Join(err, begun.close())
		}
	}()
	folder := o.file("segments")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	start := o.Clock()
	publish, err := s.publish(folder)
	if err != nil {
		return nil, err
	}
	if s.task == TaskRecords {
		if p.asks, err = bounded(s.asks, s.dims); err != nil {
			return nil, err
		}
	}
	p.took = o.Clock().Sub(start)
	for _, threads := range peerThreads() {
		c, err := client.New(client.Options{Command: append(slices.Clone(o.Scanner), "--threads", strconv.Itoa(threads)), Folder: folder, TruthID: "bench", Runtime: o.Folder})
		if err != nil {
			return nil, err
		}
		p.clients[threads] = c
		if _, err := c.Publish(ctx, publish); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// publish writes the rows into segments, as one agent's.
func (s *peerSet) publish(folder string) (*scannerv1.PublishRequest, error) {
	identity := sha256.Sum256([]byte("bench"))
	spec := layout.Spec{Source: layout.Source{TruthID: "bench", Model: peerModel, Identity: identity, Dims: s.dims}, Kind: layout.Signs, Lean: true}
	var codes []boundedCode
	each := blocksEach
	if s.task == TaskRecords {
		spec.Kind, spec.Lean, each = layout.Int8, false, 1
		var err error
		if codes, err = bounded(s.vectors, s.dims); err != nil {
			return nil, err
		}
	}
	g := &scannerv1.PublishRequest{Generation: 1, Models: []*scannerv1.Model{{Number: peerModel, Identity: identity[:], Dims: uint32(s.dims)}}}
	var w *layout.Writer
	finish := func() error {
		name, err := w.Finish()
		segment := &scannerv1.Segment{Model: peerModel, Name: name}
		if s.task == TaskRecords {
			g.Records = append(g.Records, segment)
		} else {
			g.Segments = append(g.Segments, segment)
		}
		return err
	}
	for row := range s.rows {
		if row%each == 0 && (w == nil || !w.Fits(each)) {
			if w != nil {
				if err := finish(); err != nil {
					return nil, err
				}
			}
			var err error
			if w, err = layout.Create(folder, spec); err != nil {
				return nil, err
			}
		}
		next := layout.Row{Cell: layout.Cell{Agent: largeAgent}, Ref: memory.Ref{Kind: memory.KindMemory, ID: int64(row/each) + 1}, Block: row % each}
		if codes != nil {
			next.Code, next.Scale, next.Bound = codes[row].code, codes[row].scale, codes[row].bound
		} else {
			next.Code = s.codes[row*s.dims/8:][:s.dims/8]
		}
		if err := w.Add(next); err != nil {
			return nil, errors.Join(err, w.Abandon())
		}
	}
	return g, finish()
}

func (p *pluginPeer) version() string      { return "" }
func (p *pluginPeer) can(int, int) bool    { return true }
func (p *pluginPeer) built() time.Duration { return p.took }

// memory is the larger of the processes'.
func (p *pluginPeer) memory(ctx context.Context) (most float64, err error) {
	for _, threads := range peerThreads() {
		stats, err := p.clients[threads].Stats(ctx)
		if err != nil {
			return 0, err
		}
		most = max(most, resident(stats.GetProcess()))
	}
	return most, nil
}

func (p *pluginPeer) close() (err error) {
	for _, threads := range peerThreads() {
		if c := p.clients[threads]; c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	return err
}

func (p *pluginPeer) search(ctx context.Context, from, count, threads int) (took time.Duration, answers []peerAnswer, err error) {
	if p.set.task == TaskRecords {
		return p.rank(ctx, from, count, threads)
	}
	request := &scannerv1.ScanRequest{Model: peerModel, Scope: &scannerv1.Scope{Agent: largeAgent}}
	start := p.clock()
	for _, q := range p.set.signQueries(from, count) {
		request.Queries = append(request.Queries, &scannerv1.Query{Code: q.Code, Rows: uint32(q.Rows)})
	}
	reply, err := p.clients[threads].Scan(ctx, request)
	if err != nil {
		return 0, nil, err
	}
	took = p.clock().Sub(start)
	for _, a := range reply.GetAnswers() {
		var answer peerAnswer
		rows := a.GetRows()
		for i, id := range rows.GetIds() {
			row := (id-1)*blocksEach + int64(rows.GetBlocks()[i])
			answer.ids, answer.distances = append(answer.ids, row), append(answer.distances, float64(rows.GetDistances()[i]))
		}
		answers = append(answers, answer)
	}
	return took, answers, nil
}

func (p *pluginPeer) rank(ctx context.Context, from, count, threads int) (took time.Duration, answers []peerAnswer, err error) {
	start := p.clock()
	for q := from; q < from+count; q++ {
		ask := p.asks[q]
		reply, err := p.clients[threads].Rank(ctx, &scannerv1.RankRequest{Model: peerModel, Scope: &scannerv1.Scope{Agent: largeAgent}, Code: ask.code,
			Scale: float64(ask.scale), Error: float64(ask.bound), K: uint32(p.set.k)})
		if err != nil {
			return 0, nil, err
		}
		rows := make([]int64, 0, len(reply.GetRefs()))
		for _, ref := range reply.GetRefs() {
			rows = append(rows, ref.GetId()-1)
		}
		answers = append(answers, p.set.decide(q, rows))
	}
	return p.clock().Sub(start), answers, nil
}

// resident is the memory of a process in MB, mapped files that it has touched
// included; 0 where the system does not say.
func resident(pid int64) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				return 0
			}
			return round(kb / 1000)
		}
	}
	return 0
}
