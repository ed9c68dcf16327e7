package scanner

import (
	"cmp"
	"math/bits"
	"slices"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner/kernel"
)

// stretch is a range of rows of a file or of a part of the delta: blocks or record
// vectors.
type stretch interface {
	span() (from, to int)
	rowBytes() int // of codes
	// leg goes over rows [from, to) for scans or ranks of at most
	// [kernel.MaxQueries] queries, adds to what they found, and returns how many rows
	// it got to before the pass was to stop.
	leg(p *pass, from, to int, all []*asked) (rows int, err error)
}

// target is a stretch of blocks.
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

func (t *target) span() (from, to int) { return t.from, t.to }

func (t *target) rowBytes() int { return t.matrix.Bits / 8 }

// plan is what scans or ranks of one scope go over, in one state.
type plan struct {
	stretches     []stretch
	scanned, read uint64 // rows that take part, and all rows of the stretches
}

func (p *plan) add(t stretch, live kernel.Live) {
	from, to := t.span()
	p.stretches = append(p.stretches, t)
	p.scanned += uint64(countLive(live, from, to))
	p.read += uint64(to - from)
}

// over reports whether that is more than a request wants compared.
func (p *plan) over(most uint64) bool {
	return most > 0 && p.scanned > most
}

// rowsOf says which rows of a model take part.
type rowsOf struct {
	scope     layout.Scope
	perParent int             // 0: all
	only      *scannerv1.Only // nil: all
}

// intact reports a file that was cut since it was opened.
func intact(segments []*segment) error {
	for _, g := range segments {
		if err := g.Intact(); err != nil {
			return inFile(g.Name(), err)
		}
	}
	return nil
}

// blockPlan finds the ranges of blocks. Their codes are not verified yet.
func (m *model) blockPlan(of rowsOf) (*plan, error) {
	p := &plan{}
	width := 8 * m.stride()
	for _, g := range m.segments {
		ranges, table, live, err := g.rowsOf(of)
		if err != nil {
			return nil, inFile(g.Name(), err)
		}
		for _, r := range ranges {
			precedes := table.Precedes
			one, err := g.inOneCell(r)
			if err != nil {
				return nil, inFile(g.Name(), err)
			}
			if one {
				precedes = nil // the order of rows
			}
			p.add(&target{matrix: kernel.Matrix{Bits: width, Codes: g.Codes()}, from: r.From, to: r.To,
				live: live, records: table, precedes: precedes, at: table.At, segment: g}, live)
		}
	}
	within(m.delta, of.scope, func(d *part) {
		live := d.rowsOf(of)
		p.add(&target{matrix: kernel.Matrix{Bits: width, Codes: d.codes}, to: d.rows(),
			live: live, records: d.starts, precedes: d.precedes, at: d.at, part: d}, live)
	})
	return p, nil
}

// rowsOf returns the ranges of a scope and the rows of them that take part.
func (s *segment) rowsOf(of rowsOf) (ranges []layout.Range, table layout.Rows, live kernel.Live, err error) {
	if ranges, err = s.Ranges(of.scope); err != nil || len(ranges) == 0 {
		return nil, table, nil, err
	}
	if table, err = s.Rows(); err != nil {
		return nil, table, nil, err
	}
	live = s.liveWithin(of.perParent, table)
	if of.only != nil {
		live, err = s.liveOnly(of.only, live, table, ranges)
	}
	return ranges, table, live, err
}

// celled is rows of one cell.
type celled interface{ in() layout.Cell }

// within calls take with those of the parts, which are in the order of their
// cells, that are in a scope.
func within[P celled](parts []P, scope layout.Scope, take func(P)) {
	first, _ := slices.BinarySearchFunc(parts, layout.Cell{Agent: scope.Agent}, func(p P, c layout.Cell) int { return p.in().Compare(c) })
	for _, p := range parts[first:] {
		if p.in().Agent != scope.Agent {
			break
		}
		if scope.Contains(p.in()) {
			take(p)
		}
	}
}

// cellAt returns the place of the cell that a row is the first of, and its rows;
// the place of the cell behind it and no rows when the row is inside a cell.
func (s *segment) cellAt(row int) (place int, rows layout.Range, err error) {
	from, to := 0, s.Header().Cells
	for from < to {
		i := (from + to) / 2
		_, rows, err := s.Cell(i)
		if err != nil {
			return 0, layout.Range{}, err
		}
		switch cmp.Compare(rows.From, row) {
		case 0:
			return i, rows, nil
		case -1:
			from = i + 1
		default:
			to = i
		}
	}
	return from, layout.Range{}, nil
}

// inOneCell reports whether a range, which begins with a cell, ends with it.
func (s *segment) inOneCell(r layout.Range) (bool, error) {
	_, rows, err := s.cellAt(r.From)
	return rows.To >= r.To, err
}

// countLive is how many rows of a range are live.
func countLive(live kernel.Live, from, to int) (n int) {
	if live == nil {
		return to - from
	}
	for row := from; row < to; {
		word := live[row/64] >> (row % 64)
		end := min(to, row/64*64+64)
		if rest := end - row; rest < 64 {
			word &= 1<<rest - 1
		}
		n += bits.OnesCount64(word)
		row = end
	}
	return n
}
