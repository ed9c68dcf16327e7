package shards

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"recalld/layout"
	"recalld/memory"
	"recalld/sqlite"
)

// directory knows the keys of every cell that the store ever named, 32 bytes a
// cell, and which names those keys stand for, 16 bytes a name.
type directory struct {
	key   func(name string) uint64 // layout.Key of the store
	ids   []int64                  // ascending
	cells []layout.Cell            // of ids
	// prints tell the name that has a key, by the place of the key: an agent, a
	// project of one, a channel of one.
	prints map[uint64]uint64
	// refused are agents of which a name has the key of another: their rows cannot be
	// told apart in a file.
	refused map[uint64]bool
}

func newDirectory(key func(string) uint64) *directory {
	return &directory{key: key, prints: make(map[uint64]uint64), refused: make(map[uint64]bool)}
}

// The places that a key can have.
const (
	asAgent   = 1
	asProject = 2
	asChannel = 3
)

// namePage is how many cells are read at a time.
const namePage = 10_000

// extend takes over the cells that came into being up to the snapshot.
func (d *directory) extend(view *sqlite.View) error {
	for {
		n := 0
		err := view.CellNames(d.last(), namePage, func(c sqlite.CellName) error {
			n++
			d.add(c)
			return nil
		})
		if err != nil || n < namePage {
			return err
		}
	}
}

// last is the highest number of a cell that is known.
func (d *directory) last() int64 {
	if len(d.ids) == 0 {
		return 0
	}
	return d.ids[len(d.ids)-1]
}

func (d *directory) add(c sqlite.CellName) {
	keys := d.keysOf(c.Cell)
	d.ids, d.cells = append(d.ids, c.ID), append(d.cells, keys)
	for _, n := range d.namesOf(c.Cell, keys) {
		if n.name == "" {
			continue
		}
		place, print := n.place(), printOf(n.name)
		if held, known := d.prints[place]; n.key == 0 || known && held != print {
			d.refused[keys.Agent] = true
		} else {
			d.prints[place] = print
		}
	}
}

func (d *directory) keysOf(c memory.Cell) layout.Cell {
	return layout.Cell{Agent: d.keyOf(c.Agent), Project: d.keyOf(c.Project), Channel: d.keyOf(c.Channel)}
}

func (d *directory) keyOf(name string) uint64 {
	if name == "" {
		return 0
	}
	return d.key(name)
}

// placed is a name, its key, and where the key stands.
type placed struct {
	name  string
	key   uint64
	as    byte
	agent uint64
}

func (d *directory) namesOf(c memory.Cell, keys layout.Cell) [3]placed {
	return [3]placed{{c.Agent, keys.Agent, asAgent, keys.Agent}, {c.Project, keys.Project, asProject, keys.Agent}, {c.Channel, keys.Channel, asChannel, keys.Agent}}
}

// place is one number for where a key stands. Two places that had one number
// would only refuse an agent without need.
func (p placed) place() uint64 {
	b := binary.BigEndian.AppendUint64([]byte{p.as}, p.agent)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(b, p.key))
	return binary.BigEndian.Uint64(sum[:])
}

// printOf tells names with one key apart.
func printOf(name string) uint64 {
	sum := sha256.Sum256([]byte(name))
	return binary.BigEndian.Uint64(sum[8:])
}

// cell returns the keys of a cell; ok is false for one that was gone before the
// directory was made.
func (d *directory) cell(id int64) (c layout.Cell, ok bool) {
	i, ok := slices.BinarySearch(d.ids, id)
	if !ok {
		return c, false
	}
	return d.cells[i], true
}

// scope returns the keys of a scope; ok is false when one of them stands for
// another name as well, so that rows of others would be in the scope.
func (d *directory) scope(s memory.Scope) (keys layout.Scope, ok bool) {
	c := memory.Cell{Agent: s.Agent}
	if s.Project != nil {
		c.Project = *s.Project
	}
	if s.Channel != nil {
		c.Channel = *s.Channel
	}
	cell := d.keysOf(c)
	for _, n := range d.namesOf(c, cell) {
		if n.name == "" {
			continue
		}
		if held, known := d.prints[n.place()]; n.key == 0 || known && held != printOf(n.name) {
			return keys, false
		}
	}
	keys.Agent = cell.Agent
	if s.Project != nil {
		keys.Project = &cell.Project
	}
	if s.Channel != nil {
		keys.Channel = &cell.Channel
	}
	return keys, !d.refused[keys.Agent]
}
