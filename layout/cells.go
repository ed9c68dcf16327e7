package layout

import (
	"encoding/binary"
	"fmt"
)

// Cell returns a cell of the directory, by its place in it, and its rows.
func (s *Segment) Cell(i int) (Cell, Range, error) {
	if i < 0 || i >= s.header.Cells {
		return Cell{}, Range{}, fmt.Errorf("cell %d of %s, which has %d", i, s.Name(), s.header.Cells)
	}
	c, err := s.cell(i)
	if err != nil {
		return Cell{}, Range{}, err
	}
	r, err := s.rowsOf(i, i+1)
	return c, r, err
}

// CellRows returns the rows of one cell, none when the segment does not have it.
func (s *Segment) CellRows(c Cell) (Range, error) {
	i, err := s.bound(0, s.header.Cells, c, 3, false)
	if err != nil || i == s.header.Cells {
		return Range{}, err
	}
	if at, err := s.cell(i); err != nil || at != c {
		return Range{}, err
	}
	return s.rowsOf(i, i+1)
}

// Ranges returns the rows of a scope, ascending, ranges that touch made one: an
// agent is one range, with a project given it is two, with a channel too at most
// four. A channel without a project is looked for in each of the agent's cells.
// What is read of the directory is verified.
func (s *Segment) Ranges(scope Scope) ([]Range, error) {
	agent := Cell{Agent: scope.Agent}
	from, to, err := s.within(0, s.header.Cells, agent, 1)
	if err != nil || from == to {
		return nil, err
	}
	channel := scope.Channel
	if channel != nil && *channel == 0 {
		channel = nil
	}
	var ranges []Range
	add := func(from, to int) error {
		if from == to {
			return nil
		}
		r, err := s.rowsOf(from, to)
		ranges = extend(ranges, r)
		return err
	}
	if scope.Project == nil && channel != nil {
		for i := from; i < to; i++ {
			c, err := s.cell(i)
			if err != nil {
				return nil, err
			}
			if c.Channel == 0 || c.Channel == *channel {
				if err := add(i, i+1); err != nil {
					return nil, err
				}
			}
		}
		return ranges, nil
	}
	if scope.Project == nil {
		return ranges, add(from, to)
	}
	for _, project := range withZero(*scope.Project) {
		at := Cell{Agent: scope.Agent, Project: project}
		from, to, err := s.within(from, to, at, 2)
		if err != nil {
			return nil, err
		}
		if channel == nil {
			if err := add(from, to); err != nil {
				return nil, err
			}
			continue
		}
		for _, at.Channel = range withZero(*channel) {
			from, to, err := s.within(from, to, at, 3)
			if err == nil {
				err = add(from, to)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return ranges, nil
}

// withZero is the keys that a given project or channel sees: its own and 0.
func withZero(key uint64) []uint64 {
	if key == 0 {
		return []uint64{0}
	}
	return []uint64{0, key}
}

// within returns the cells of the directory between from and to that agree with a
// cell in its first levels of agent, project and channel.
func (s *Segment) within(from, to int, c Cell, levels int) (first, end int, err error) {
	if first, err = s.bound(from, to, c, levels, false); err != nil {
		return 0, 0, err
	}
	end, err = s.bound(first, to, c, levels, true)
	return first, end, err
}

// bound returns the first cell between from and to that does not precede c in the
// first levels of its keys, or, with after, the first that follows it.
func (s *Segment) bound(from, to int, c Cell, levels int, after bool) (int, error) {
	for from < to {
		middle := int(uint(from+to) / 2)
		at, err := s.cell(middle)
		if err != nil {
			return 0, err
		}
		if order := at.cut(levels).Compare(c.cut(levels)); order < 0 || order == 0 && after {
			from = middle + 1
		} else {
			to = middle
		}
	}
	return from, nil
}

// cut forgets the keys below the first levels.
func (c Cell) cut(levels int) Cell {
	if levels < 3 {
		c.Channel = 0
	}
	if levels < 2 {
		c.Project = 0
	}
	return c
}

func (s *Segment) cell(i int) (Cell, error) {
	b, err := s.cellRecord(i)
	if err != nil {
		return Cell{}, err
	}
	return Cell{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])}, nil
}

func (s *Segment) cellRecord(i int) ([]byte, error) {
	at := int64(i) * cellBytes
	if err := s.chunks.touch(cells, at, at+cellBytes); err != nil {
		return nil, err
	}
	return s.chunks.section(cells)[at : at+cellBytes], nil
}

// rowsOf returns the rows of the cells [from, to) of the directory; from < to.
func (s *Segment) rowsOf(from, to int) (Range, error) {
	first, err := s.firstRow(from)
	if err != nil {
		return Range{}, err
	}
	end, err := s.firstRow(to)
	if err != nil {
		return Range{}, err
	}
	if first >= end || end > uint64(s.header.Rows) {
		return Range{}, s.chunks.damage(cells, int(int64(from)*cellBytes/ChunkBytes), "a cell's rows are out of range")
	}
	return Range{int(first), int(end)}, nil
}

func (s *Segment) firstRow(i int) (uint64, error) {
	if i == s.header.Cells {
		return uint64(s.header.Rows), nil
	}
	b, err := s.cellRecord(i)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b[24:]), nil
}
