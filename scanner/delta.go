package scanner

import (
	"bytes"
	"slices"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner/kernel"
)

// part is the rows of one cell that came after the files. Its slices are only
// appended to, behind what an older part of the same cell can see; place is read
// and changed by the one who applies changes, and by nobody else.
type part struct {
	cell    layout.Cell
	stride  int // bytes of a row of codes
	dims    int
	codes   []byte
	refs    []memory.Ref  // of each record, gone ones included
	starts  kernel.Starts // of each record, then the number of rows
	values  []byte        // dims bytes a row
	norms   []uint32      // a row; 0: no values
	live    kernel.Live   // replaced, never changed
	longest int           // rows of the longest record
	place   map[memory.Ref]int
}

func newPart(cell layout.Cell, m *model) *part {
	return &part{cell: cell, stride: m.stride(), dims: m.source.Dims, starts: kernel.Starts{0}, place: make(map[memory.Ref]int)}
}

func (p *part) in() layout.Cell { return p.cell }

func (p *part) rows() int { return len(p.norms) }

func (p *part) bytes() int { return len(p.codes) + len(p.values) + 24*len(p.refs) + 4*len(p.norms) }

// at returns the record and the block of a row.
func (p *part) at(row int) (memory.Ref, int) {
	i, exact := slices.BinarySearch(p.starts, uint32(row))
	if !exact {
		i--
	}
	return p.refs[i], row - int(p.starts[i])
}

func (p *part) precedes(a, b uint32) bool {
	x, i := p.at(int(a))
	y, j := p.at(int(b))
	return memory.CompareRows(memory.Candidate{Ref: x, Block: int32(i)}, memory.Candidate{Ref: y, Block: int32(j)}) < 0
}

// liveWithin is as that of a segment.
func (p *part) liveWithin(most int) kernel.Live {
	if most == 0 || p.longest <= most {
		return p.live
	}
	live := slices.Clone(p.live)
	live.Cap(0, p.rows(), p.starts, most)
	return live
}

// rowsOf returns the rows that take part.
func (p *part) rowsOf(of rowsOf) kernel.Live {
	live := p.liveWithin(of.perParent)
	if of.only == nil {
		return live
	}
	live = slices.Clone(live)
	for i, ref := range p.refs {
		if takesPart(of.only, ref) {
			continue
		}
		for row := p.starts[i]; row < p.starts[i+1]; row++ {
			live.Clear(int(row))
		}
	}
	return live
}

// with returns the part after changes of its cell.
func (p *part) with(changes []*scannerv1.Change) *part {
	next := *p
	for _, c := range changes {
		next.append(c)
	}
	words := (next.rows() + 63) / 64
	next.live = append(slices.Clone(p.live), make(kernel.Live, words-len(p.live))...)
	for row := p.rows(); row < next.rows(); row++ {
		next.live[row/64] |= 1 << (row % 64)
	}
	row := p.rows()
	for _, c := range changes {
		ref := refOf(c.GetRef())
		if i, ok := next.place[ref]; ok {
			for r := next.starts[i]; r < next.starts[i+1]; r++ {
				next.live.Clear(int(r))
			}
			delete(next.place, ref)
		}
		if len(c.GetBlocks()) == 0 {
			continue
		}
		i, _ := slices.BinarySearch(next.starts, uint32(row))
		next.place[ref] = i
		for _, b := range c.GetBlocks() {
			if len(b.GetCode()) == 0 {
				next.live.Clear(row)
			}
			row++
		}
	}
	return &next
}

// append adds the rows of one change.
func (p *part) append(c *scannerv1.Change) {
	if len(c.GetBlocks()) == 0 {
		return
	}
	for _, b := range c.GetBlocks() {
		p.codes = append(append(p.codes, b.GetCode()...), make([]byte, p.stride-len(b.GetCode()))...)
		p.values = append(append(p.values, b.GetValues()...), make([]byte, p.dims-len(b.GetValues()))...)
		p.norms = append(p.norms, norm(b.GetValues()))
	}
	p.refs = append(p.refs, refOf(c.GetRef()))
	p.starts = append(p.starts, uint32(len(p.norms)))
	p.longest = max(p.longest, len(c.GetBlocks()))
}

// norm is the sum of squares of signed bytes.
func norm(values []byte) (sum uint32) {
	for _, b := range values {
		v := int32(int8(b))
		sum += uint32(v * v)
	}
	return sum
}

// deltaWith returns the parts of a model after changes.
func deltaWith(m *model, changes []*scannerv1.Change) []*part {
	return partsWith(m.delta, m.source.Model, changes, func(cell layout.Cell) *part { return newPart(cell, m) },
		(*part).with, func(c *scannerv1.Change) bool { return len(c.GetBlocks()) > 0 })
}

// vectorsWith is deltaWith for record vectors.
func vectorsWith(m *model, changes []*scannerv1.VectorChange) []*vectors {
	return partsWith(m.vectors, m.source.Model, changes, func(cell layout.Cell) *vectors {
		return &vectors{cell: cell, dims: m.source.Dims, place: make(map[memory.Ref]int)}
	}, (*vectors).with, func(c *scannerv1.VectorChange) bool { return len(c.GetCode()) > 0 })
}

// partsWith returns the parts of a model, by cell, after changes, each cell's in the
// order in which they are given. A part is made for the first change that has
// rows: others only take rows from files.
func partsWith[P celled, C interface {
	GetModel() int64
	GetCell() *scannerv1.Cell
}](parts []P, model int64, changes []C, empty func(layout.Cell) P, with func(P, []C) P, hasRows func(C) bool) []P {
	byCell := make(map[layout.Cell][]C)
	var cells []layout.Cell
	for _, c := range changes {
		if c.GetModel() != model {
			continue
		}
		cell := cellOf(c.GetCell())
		if byCell[cell] == nil {
			cells = append(cells, cell)
		}
		byCell[cell] = append(byCell[cell], c)
	}
	parts = slices.Clone(parts)
	for _, cell := range cells {
		i, found := slices.BinarySearchFunc(parts, cell, func(p P, c layout.Cell) int { return p.in().Compare(c) })
		if !found {
			if !slices.ContainsFunc(byCell[cell], hasRows) {
				continue
			}
			parts = slices.Insert(parts, i, empty(cell))
		}
		parts[i] = with(parts[i], byCell[cell])
	}
	return parts
}

// checkChange refuses what a part could not hold.
func checkChange(m *model, c *scannerv1.Change) error {
	if k := c.GetRef().GetKind(); k != scannerv1.Kind_KIND_EPISODE && k != scannerv1.Kind_KIND_MEMORY || c.GetRef().GetId() < 1 {
		return invalid("changes.ref", "is no record: kind %d, id %d", k, c.GetRef().GetId())
	}
	code := (m.source.Dims + 7) / 8
	for i, b := range c.GetBlocks() {
		if n := len(b.GetCode()); n != 0 && n != code {
			return invalid("changes.blocks", "code %d of %s has %d bytes, the model has %d", i, refOf(c.GetRef()), n, code)
		}
		if spare := m.source.Dims % 8; spare != 0 && len(b.GetCode()) > 0 && b.GetCode()[code-1]>>spare != 0 {
			return invalid("changes.blocks", "code %d of %s has bits behind the last component", i, refOf(c.GetRef()))
		}
		if n := len(b.GetValues()); n != 0 && (n != m.source.Dims || bytes.IndexByte(b.GetValues(), 0x80) >= 0) {
			return invalid("changes.blocks", "values %d of %s are %d bytes, the model has %d components from -127 to 127", i, refOf(c.GetRef()), n, m.source.Dims)
		}
	}
	return nil
}
