package scanner

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"recalld/layout"
	"recalld/memory"
	"recalld/scanner/kernel"
)

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

// pass compares the queries of scans or ranks with stretches of rows.
type pass struct {
	turns   *turns
	agent   uint64
	batch   bool
	threads int
	stop    *atomic.Bool // ends a leg at the next tile
	reading
}

// reading is a turn and what was read in it.
type reading struct {
	turn  *turn
	bytes int64
}

// add counts bytes that were read, and lets others go first when a turn's are
// full. After an error the turn is gone.
func (r *reading) add(ctx context.Context, bytes int64) error {
	r.bytes += bytes
	if r.bytes < r.turn.of.quantum && ctx.Err() == nil {
		return nil
	}
	bytes, r.bytes = r.bytes, 0
	if err := r.turn.next(ctx, bytes); err != nil {
		r.turn = nil
		return err
	}
	return nil
}

// end gives the turn back, if it is not gone.
func (r *reading) end() {
	if r.turn != nil {
		r.turn.end(r.bytes)
	}
}

// leg is that of a [stretch], for scans. What a scan knows already limits it: rows
// farther away than the last of enough are of no use.
func (t *target) leg(p *pass, from, to int, scans []*asked) (rows int, err error) {
	ctx := context.Background() // ended by stop
	if t.segment != nil {
		verified, err := t.segment.verifyUntil(ctx, layout.Range{From: from, To: to}, &p.reading, p.stop)
		if err != nil {
			return 0, err
		}
		if verified < to {
			if to, _ = t.records.Run(verified); to <= from { // one worker sees all rows of a record
				return 0, nil
			}
		}
	}
	job := kernel.Job{Matrix: t.matrix, From: from, To: to, Live: t.live, Parents: t.records, Precedes: t.precedes, Path: kernel.Best()}
	for _, a := range scans {
		for i, q := range a.queries {
			q.Limit = a.answers[i].limit(q)
			job.Queries = append(job.Queries, q)
		}
	}
	scan, err := kernel.New(job)
	if err != nil {
		return 0, err
	}
	width := int64(t.rowBytes())
	var read atomic.Int64
	tiles := (to - from + kernel.TileRows - 1) / kernel.TileRows
	err = p.together(ctx, tiles, func(_, idle context.Context, r *reading) error {
		worker := scan.Worker()
		for {
			n, more := worker.Step()
			if !more {
				return nil
			}
			read.Add(int64(n))
			if err := r.add(idle, int64(n)*width); err != nil || p.stop.Load() {
				return err
			}
		}
	})
	if err != nil {
		return 0, err
	}
	answers := scan.Answers()
	for _, a := range scans {
		for i, q := range a.queries {
			a.answers[i].rows = t.merge(a.answers[i].rows, answers[i].Rows, q.Rows)
			a.answers[i].parents = t.merge(a.answers[i].parents, answers[i].Parents, q.Parents)
		}
		answers = answers[len(a.queries):]
	}
	return int(read.Load()), nil
}

// together does tiles of work, each worker in turns of its own. work takes tiles
// until none is left, and between two of them waits in the context idle, which
// ends when none is left: whoever has no turn then is not waited for.
func (p *pass) together(ctx context.Context, tiles int, work func(ctx, idle context.Context, r *reading) error) error {
	helpers := min(tiles, p.threads) - 1
	if helpers < 1 {
		if err := work(ctx, ctx, &p.reading); err != nil {
			return err
		}
		return ctx.Err()
	}
	var wait sync.WaitGroup
	defer wait.Wait() // also after a fault in here: nobody reads files that were let go of
	idle, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, helpers)
	for i := range errs {
		wait.Go(func() {
			turn, err := p.turns.take(idle, p.agent, p.batch)
			if err != nil {
				return // nothing is left to do, or the pass has ended
			}
			r := reading{turn: turn}
			errs[i] = layout.Guard(func() error { return work(ctx, idle, &r) })
			r.end()
		})
	}
	err := work(ctx, ctx, &p.reading)
	stop()
	wait.Wait()
	if err == nil {
		err = ctx.Err()
	}
	for _, helper := range errs {
		if err == nil && !errors.Is(helper, context.Canceled) { // that is how idle ones end
			err = helper
		}
	}
	return err
}

// verifyUntil looks at the checksums of a range as far as that was not done before,
// and counts what it read. It ends behind the next tile when stop, which may be nil,
// is set. Rows before to are verified.
func (s *segment) verifyUntil(ctx context.Context, rows layout.Range, r *reading, stop *atomic.Bool) (to int, err error) {
	for from := rows.From; from < rows.To; {
		slice := from / kernel.TileRows
		part := layout.Range{From: from, To: min(rows.To, (slice+1)*kernel.TileRows)}
		from = part.To
		if s.verified[slice].Load() {
			continue
		}
		if err := s.Touch(part); err != nil {
			return 0, inFile(s.Name(), err)
		}
		if part.From%kernel.TileRows != 0 || part.Len() < kernel.TileRows && part.To < s.Header().Rows {
			continue // a part, and no more than that
		}
		s.verified[slice].Store(true)
		if err := r.add(ctx, int64(part.Len())*int64(s.RowBytes())); err != nil {
			return 0, err
		}
		if stop != nil && stop.Load() {
			return from, nil
		}
	}
	return rows.To, nil
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

// merge adds the hits of a range, which are in order, and keeps the first k.
func (t *target) merge(known []found, hits []kernel.Hit, k int) []found {
	if len(hits) == 0 {
		return known
	}
	merged := make([]found, 0, min(k, len(known)+len(hits)))
	for _, h := range hits {
		ref, block := t.at(int(h.Row))
		hit := found{ref, block, h.Distance, t, int(h.Row)}
		for len(known) > 0 && compareFound(known[0], hit) < 0 {
			merged, known = append(merged, known[0]), known[1:]
		}
		merged = append(merged, hit)
	}
	merged = append(merged, known...)
	return merged[:min(k, len(merged))]
}
