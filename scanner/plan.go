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

// plan is what scans of one scope go over, in one state.
type plan struct {
	targets       []*target
	scanned, read uint64 // rows that take part, and all rows of the ranges
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

// plan finds the ranges. Their codes are not verified yet.
func (m *model) plan(of rowsOf) (*plan, error) {
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
			p.targets = append(p.targets, &target{matrix: kernel.Matrix{Bits: width, Codes: g.Codes()}, from: r.From, to: r.To,
				live: live, records: table, precedes: precedes, at: table.At, segment: g})
		}
	}
	within(m.delta, of.scope, func(d *part) {
		p.targets = append(p.targets, &target{matrix: kernel.Matrix{Bits: width, Codes: d.codes}, to: d.rows(),
			live: d.rowsOf(of), records: d.starts, precedes: d.precedes, at: d.at, part: d})
	})
	for _, t := range p.targets {
		p.scanned += uint64(countLive(t.live, t.from, t.to))
		p.read += uint64(t.to - t.from)
	}
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
