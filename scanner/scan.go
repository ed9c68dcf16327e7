package scanner

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner/kernel"
)

// maxWanted is how many rows or parents one query may ask for.
const maxWanted = 100_000

// target is one range of rows of a file or of a part of the delta.
type target struct {
	matrix   kernel.Matrix
	from, to int
	live     kernel.Live
	records  kernel.Runs
	precedes func(a, b uint32) bool
	at       func(row int) (memory.Ref, int)
	segment  *segment // nil: part
	part     *part
}

// found is a hit that has left its file: it is ordered by what it is, not by
// where it stands (DECISIONS 2).
type found struct {
	ref      memory.Ref
	block    int
	distance uint32
	target   *target
	row      int
}

func compareFound(a, b found) int {
	if c := cmp.Compare(a.distance, b.distance); c != 0 {
		return c
	}
	return memory.CompareRows(memory.Candidate{Ref: a.ref, Block: int32(a.block)}, memory.Candidate{Ref: b.ref, Block: int32(b.block)})
}

// best is what one query found so far.
type best struct{ rows, parents []found }

// scan answers one request.
func (s *state) scan(ctx context.Context, r *scannerv1.ScanRequest, threads int) (*scannerv1.ScanReply, error) {
	if r.GetSequence() > s.sequence {
		return nil, fmt.Errorf("%w: it is at change %d, %d was asked for", errBehind, s.sequence, r.GetSequence())
	}
	m := s.models[r.GetModel()]
	if m == nil {
		return nil, invalid("model", "%d is not published", r.GetModel())
	}
	queries, err := m.queries(r)
	if err != nil {
		return nil, err
	}
	scope := layout.Scope{Agent: r.GetScope().GetAgent(), Project: r.GetScope().Project, Channel: r.GetScope().Channel}
	targets, err := m.targets(scope, int(r.GetPerParent()))
	if err != nil {
		return nil, err
	}
	reply := &scannerv1.ScanReply{State: s.wire()}
	for _, t := range targets {
		reply.RowsScanned += uint64(t.count())
		reply.RowsRead += uint64(t.to - t.from)
	}
	if most := r.GetMost(); most > 0 && reply.GetRowsScanned() > most {
		reply.Over, reply.RowsScanned, reply.RowsRead = true, 0, 0
		return reply, nil
	}
	answers := make([]best, len(queries))
	for _, t := range targets {
		if err := t.scan(ctx, threads, queries, answers); err != nil {
			return nil, err
		}
	}
	for i, a := range answers {
		answer, err := m.answer(a, r.GetQueries()[i].GetValues())
		if err != nil {
			return nil, err
		}
		reply.Answers = append(reply.Answers, answer)
	}
	return reply, nil
}

// queries checks a request's and makes the kernel's of them.
func (m *model) queries(r *scannerv1.ScanRequest) ([]kernel.Query, error) {
	if n := len(r.GetQueries()); n < 1 || n > kernel.MaxQueries {
		return nil, invalid("queries", "are %d, not 1 to %d", n, kernel.MaxQueries)
	}
	if r.GetScope() == nil {
		return nil, invalid("scope", "is missing")
	}
	var queries []kernel.Query
	for _, q := range r.GetQueries() {
		if n := len(q.GetCode()); n != (m.source.Dims+7)/8 {
			return nil, invalid("queries.code", "has %d bytes, the model has %d components", n, m.source.Dims)
		}
		if n := len(q.GetValues()); n != 0 && n != m.source.Dims {
			return nil, invalid("queries.values", "are %d, the model has %d components", n, m.source.Dims)
		}
		if q.GetRows() > maxWanted || q.GetParents() > maxWanted {
			return nil, invalid("queries", "ask for %d rows and %d parents, at most %d can be had", q.GetRows(), q.GetParents(), maxWanted)
		}
		code := append(slices.Clone(q.GetCode()), make([]byte, m.stride()-len(q.GetCode()))...)
		queries = append(queries, kernel.Query{Code: code, Rows: int(q.GetRows()), Parents: int(q.GetParents())})
	}
	return queries, nil
}

// targets are the ranges of a scope, verified as far as a scan reads them.
func (m *model) targets(scope layout.Scope, perParent int) (targets []*target, err error) {
	width := 8 * m.stride()
	for _, g := range m.segments {
		if err := g.Intact(); err != nil {
			return nil, inFile(g.Name(), err)
		}
		ranges, err := g.Ranges(scope)
		if err != nil {
			return nil, inFile(g.Name(), err)
		}
		if len(ranges) == 0 {
			continue
		}
		if err := g.Touch(ranges...); err != nil {
			return nil, inFile(g.Name(), err)
		}
		table, err := g.Rows()
		if err != nil {
			return nil, inFile(g.Name(), err)
		}
		live := g.liveWithin(perParent, table)
		for _, r := range ranges {
			precedes := table.Precedes
			one, err := g.inOneCell(r)
			if err != nil {
				return nil, inFile(g.Name(), err)
			}
			if one {
				precedes = nil // the order of rows
			}
			targets = append(targets, &target{matrix: kernel.Matrix{Bits: width, Codes: g.Codes()}, from: r.From, to: r.To,
				live: live, records: table, precedes: precedes, at: table.At, segment: g})
		}
	}
	first, _ := slices.BinarySearchFunc(m.delta, layout.Cell{Agent: scope.Agent}, func(p *part, c layout.Cell) int { return p.cell.Compare(c) })
	for _, p := range m.delta[first:] {
		if p.cell.Agent != scope.Agent {
			break
		}
		if scope.Contains(p.cell) {
			targets = append(targets, &target{matrix: kernel.Matrix{Bits: width, Codes: p.codes}, to: p.rows(),
				live: p.liveWithin(perParent), records: p.starts, precedes: p.precedes, at: p.at, part: p})
		}
	}
	return targets, nil
}

// inOneCell reports whether a range, which begins with a cell, ends with it.
func (s *segment) inOneCell(r layout.Range) (bool, error) {
	from, to := 0, s.Header().Cells
	for from < to {
		i := (from + to) / 2
		_, rows, err := s.Cell(i)
		if err != nil {
			return false, err
		}
		switch {
		case rows.From == r.From:
			return rows.To >= r.To, nil
		case rows.From < r.From:
			from = i + 1
		default:
			to = i
		}
	}
	return false, nil
}

// count is how many rows a scan of the range compares.
func (t *target) count() (n int) {
	if t.live == nil {
		return t.to - t.from
	}
	for row := t.from; row < t.to; {
		word := t.live[row/64] >> (row % 64)
		end := min(t.to, row/64*64+64)
		if rest := end - row; rest < 64 {
			word &= 1<<rest - 1
		}
		n += bits.OnesCount64(word)
		row = end
	}
	return n
}

// scan goes over the range and adds to the answers. What is known already limits
// it: rows farther away than the last of enough are of no use.
func (t *target) scan(ctx context.Context, threads int, queries []kernel.Query, answers []best) error {
	limited := slices.Clone(queries)
	for i := range limited {
		limited[i].Limit = answers[i].limit(queries[i])
	}
	pass, err := kernel.New(kernel.Job{Matrix: t.matrix, From: t.from, To: t.to, Queries: limited, Live: t.live,
		Parents: t.records, Precedes: t.precedes, Path: kernel.Best()})
	if err != nil {
		return err
	}
	tiles := (t.to - t.from + kernel.TileRows - 1) / kernel.TileRows
	if err := pass.Run(ctx, max(1, min(tiles, threads))); err != nil {
		return err
	}
	for i, a := range pass.Answers() {
		answers[i].rows = t.merge(answers[i].rows, a.Rows, queries[i].Rows)
		answers[i].parents = t.merge(answers[i].parents, a.Parents, queries[i].Parents)
	}
	return nil
}

// limit is the distance from which on rows are of no use to the query; it admits
// those that tie with the last one, which they may precede.
func (b best) limit(q kernel.Query) int {
	limit := 0
	if q.Rows > 0 {
		if len(b.rows) < q.Rows {
			return 0
		}
		limit = int(b.rows[q.Rows-1].distance) + 1
	}
	if q.Parents > 0 {
		if len(b.parents) < q.Parents {
			return 0
		}
		limit = max(limit, int(b.parents[q.Parents-1].distance)+1)
	}
	return limit
}

// merge adds the hits of a range and keeps the first k.
func (t *target) merge(known []found, hits []kernel.Hit, k int) []found {
	for _, h := range hits {
		ref, block := t.at(int(h.Row))
		known = append(known, found{ref, block, h.Distance, t, int(h.Row)})
	}
	slices.SortFunc(known, compareFound)
	return known[:min(k, len(known))]
}
