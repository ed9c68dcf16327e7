package shards

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"recalld/layout"
	"recalld/memory"
	"recalld/sqlite"
)

// pieceBytes is about how many bytes of codes and values one piece of a build has;
// an agent is never divided. Each piece is published, so that a build that is
// ended has done something.
const pieceBytes = 512 << 20

// rowsOfCell is how many rows of one model and kind a cell has.
type rowsOfCell struct {
	cell layout.Cell
	id   int64
	n    int64
}

// plan is the cells that hold rows of one model and kind, in the order of files.
type plan struct {
	model codedModel
	kind  layout.Kind
	cells []rowsOfCell
}

func (p plan) bytes(n int64, lean bool) int64 {
	size := n * rowBytes(p.kind, p.model.Dims)
	switch {
	case lean:
	case p.kind == layout.Signs:
		size += n * int64(p.model.Dims)
	case p.kind == layout.Int8:
		size += 4 * n * int64(p.model.Dims)
	}
	return size
}

// schedule is how missing agents are built: what is left of it, piece after piece.
type schedule struct {
	plans   []plan
	seq     int64    // snapshot that it was made in
	missing keySpans // when the next piece begins
	first   uint64   // key of the next piece's first agent
	lasts   []uint64 // of each piece left
	done    int64    // bytes
	total   int64
}

// holds reports whether the schedule is still right: nothing else went missing,
// and no change after its snapshot was taken into files without the agents that
// are still to be built.
func (s *schedule) holds(k catalog) bool {
	return s != nil && len(s.lasts) > 0 && slices.Equal(s.missing, k.Missing) && k.Sequence <= s.seq
}

// maxYields is how often in a row builds give way, so that they end some day.
const maxYields = 3

// errYield ends a piece for the sake of an erasure, which does not wait for it.
var errYield = errors.New("a build gives way to an erasure")

// build builds the agents that are missing, piece after piece. progress, which may
// be nil, is told bytes. c.work is not held: others may work between pieces.
func (c *Codes) build(ctx context.Context, progress func(done, total int64)) error {
	var s *schedule
	for {
		err := c.work.lock(ctx)
		if err != nil {
			return err
		}
		done := false
		if c.started() {
			s, done, err = c.buildPiece(ctx, s, progress)
		} else {
			done = true
		}
		c.work.unlock()
		if done || err != nil && !errors.Is(err, errYield) {
			return err
		}
	}
}

// buildPiece builds and publishes the next piece. c.work is held.
func (c *Codes) buildPiece(ctx context.Context, s *schedule, progress func(done, total int64)) (_ *schedule, done bool, err error) {
	m, err := c.newMaker(ctx)
	if err != nil || len(m.next.Missing) == 0 {
		return nil, true, err
	}
	if !s.holds(m.next) {
		if s, err = m.schedule(); err != nil {
			return nil, false, err
		}
	}
	built := s.done
	tell := func(n int64) {
		if s.done += n; progress != nil {
			progress(min(s.done, s.total), s.total)
		}
	}
	agents := keySpan{s.first, s.lasts[0]}
	for _, p := range s.plans {
		if err = m.piece(p, agents, tell); err != nil {
			break
		}
	}
	if err == nil {
		m.next.Missing = m.next.Missing.without(agents)
		err = m.catchUp()
	}
	if err != nil {
		s.done = built
		return s, false, errors.Join(err, m.abandon())
	}
	if err := c.commit(m); err != nil {
		return s, false, err
	}
	c.yielded = 0
	s.lasts, s.missing = s.lasts[1:], m.next.Missing
	if len(s.lasts) > 0 {
		s.first = agents.Last + 1
	}
	return s, false, nil
}

// schedule plans the build of everything that is missing.
func (m *maker) schedule() (*schedule, error) {
	plans, seq, err := m.plan()
	if err != nil {
		return nil, err
	}
	s := &schedule{plans: plans, seq: seq, missing: m.next.Missing}
	var sizes []int64
	s.lasts, sizes = cuts(plans, m.next.Lean, m.c.pieceBytes)
	for _, n := range sizes {
		s.total += n
	}
	return s, nil
}

// plan lists the cells of missing agents.
func (m *maker) plan() (plans []plan, seq int64, err error) {
	view, err := m.view()
	if err != nil {
		return nil, 0, err
	}
	defer view.Close()
	if err := m.learn(view); err != nil {
		return nil, 0, err
	}
	for _, model := range m.next.Models {
		for _, kind := range []layout.Kind{layout.Signs, layout.Int8} {
			p := plan{model: model, kind: kind}
			read := view.CountedBlocks
			if kind == layout.Int8 {
				read = view.CountedVectors
			}
			for after, n := int64(0), namePage; n == namePage; {
				n = 0
				err := read(model.ID, after, namePage, func(k sqlite.CellCount) error {
					n, after = n+1, k.Cell
					if cell, ok := m.cell(k.Cell); ok && !m.refused[cell.Agent] && m.next.Missing.contains(cell.Agent) {
						p.cells = append(p.cells, rowsOfCell{cell, k.Cell, k.N})
					}
					return nil
				})
				if err != nil {
					return nil, 0, err
				}
			}
			slices.SortFunc(p.cells, func(a, b rowsOfCell) int { return cmp.Or(a.cell.Compare(b.cell), cmp.Compare(a.id, b.id)) })
			plans = append(plans, p)
		}
	}
	return plans, view.Seq(), nil
}

// cuts divides the agents of plans into pieces: the last key of each, and how many
// bytes it has. The last piece ends with the last key there is.
func cuts(plans []plan, lean bool, most int64) (last []uint64, size []int64) {
	type weight struct {
		agent uint64
		bytes int64
	}
	var weights []weight
	for _, p := range plans {
		for _, k := range p.cells {
			b := p.bytes(k.n, lean)
			if n := len(weights); n > 0 && weights[n-1].agent == k.cell.Agent {
				weights[n-1].bytes += b
				continue
			}
			weights = append(weights, weight{k.cell.Agent, b})
		}
	}
	slices.SortFunc(weights, func(a, b weight) int { return cmp.Compare(a.agent, b.agent) })
	var sum int64
	for i, w := range weights {
		sum += w.bytes
		if i+1 < len(weights) && sum >= most && weights[i+1].agent != w.agent {
			last, size = append(last, w.agent), append(size, sum)
			sum = 0
		}
	}
	return append(last, math.MaxUint64), append(size, sum)
}

// piece writes the rows of one model and kind of some agents, in place of what
// files have of them.
func (m *maker) piece(p plan, agents keySpan, tell func(n int64)) error {
	before := len(m.next.Segments)
	from, _ := slices.BinarySearchFunc(p.cells, agents.First, func(k rowsOfCell, key uint64) int { return cmp.Compare(k.cell.Agent, key) })
	d := m.draft(p.model, p.kind, m.run())
	read := &pages{m: m}
	var err error
	for _, k := range p.cells[from:] {
		if k.cell.Agent > agents.Last {
			break
		}
		if err = m.readCell(d, read, p, k); err != nil {
			break
		}
		tell(p.bytes(k.n, m.next.Lean))
	}
	err = m.take(d, errors.Join(err, read.close()))
	if err != nil {
		return err
	}
	for _, s := range m.next.Segments[before:] {
		m.next.First += s.Bytes
	}
	return m.clear(p, m.next.Missing.inside(agents), before)
}

// setsPerPage is how many block sets are read at most by one statement, and
// vectorsPerPage how many vectors.
const (
	setsPerPage    = 200
	vectorsPerPage = 1_000
)

// readCell writes the rows of one cell.
func (m *maker) readCell(d *draft, read *pages, p plan, k rowsOfCell) error {
	var after memory.Ref
	for {
		if m.c.erasing.Load() > 0 && m.c.yielded < maxYields {
			m.c.yielded++
			return errYield
		}
		rows, last, err := m.readPage(d, read, p, k, after)
		if err != nil || rows == 0 {
			return err
		}
		after = last
	}
}

// readPage writes the next rows of one cell: those of a few records after one. It
// returns how many there were, 0 at the end, and the last record read.
func (m *maker) readPage(d *draft, read *pages, p plan, k rowsOfCell, after memory.Ref) (rows int64, last memory.Ref, err error) {
	if err := m.ctx.Err(); err != nil {
		return 0, after, err
	}
	view, err := read.page()
	if err != nil {
		return 0, after, err
	}
	size := 0
	last = after
	if p.kind == layout.Signs {
		err = view.CodedSets(p.model.ID, k.id, after, m.c.pageSets, !m.next.Lean, func(s sqlite.CodedSet) error {
			rows, size, last = rows+int64(s.N), size+len(s.Bits)+len(s.Values), s.Ref
			return d.set(k.cell, s)
		})
	} else {
		err = view.PlacedVectors(p.model.ID, k.id, after, m.c.pageVectors, func(v sqlite.PlacedVector) error {
			rows, size, last = rows+1, size+4*len(v.Values), v.Ref
			if len(v.Values) != p.model.Dims {
				return nil // RR-399: another width is skipped
			}
			return d.vector(k.cell, v.Ref, encodeRecord(v.Values))
		})
	}
	read.spent(size)
	return rows, last, err
}
