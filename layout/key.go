package layout

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"

	"recalld/memory"
)

// Key is the number that stands for the name of an agent, a project or a channel
// in the files of one store: the first 8 bytes, big-endian, of the SHA-256 of the
// truth id, a zero byte and the name. The empty name is 0, and sorts first.
//
// Two names may have one key. Whoever builds files must refuse two agents, two
// projects of an agent, or two channels of an agent that do.
func Key(truthID, name string) uint64 {
	if name == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(truthID + "\x00" + name))
	return binary.BigEndian.Uint64(sum[:])
}

// Cell is a cell by its keys.
type Cell struct{ Agent, Project, Channel uint64 }

// CellOf returns the keys of a cell.
func CellOf(truthID string, c memory.Cell) Cell {
	return Cell{Key(truthID, c.Agent), Key(truthID, c.Project), Key(truthID, c.Channel)}
}

// Compare orders cells as files have them.
func (c Cell) Compare(d Cell) int {
	return cmp.Or(cmp.Compare(c.Agent, d.Agent), cmp.Compare(c.Project, d.Project), cmp.Compare(c.Channel, d.Channel))
}

// Scope is a [memory.Scope] by its keys: Agent is exact; a nil Project means all
// projects, another one itself and the pool 0; a nil Channel means all channels,
// another one itself and 0. A Channel of 0 is the same as nil.
type Scope struct {
	Agent            uint64
	Project, Channel *uint64
}

// ScopeOf returns the keys of a scope.
func ScopeOf(truthID string, s memory.Scope) Scope {
	keys := Scope{Agent: Key(truthID, s.Agent)}
	if s.Project != nil {
		project := Key(truthID, *s.Project)
		keys.Project = &project
	}
	if s.Channel != nil {
		channel := Key(truthID, *s.Channel)
		keys.Channel = &channel
	}
	return keys
}

// Contains reports whether rows of the cell are visible in the scope.
func (s Scope) Contains(c Cell) bool {
	return c.Agent == s.Agent &&
		(s.Project == nil || c.Project == 0 || c.Project == *s.Project) &&
		(s.Channel == nil || *s.Channel == 0 || c.Channel == 0 || c.Channel == *s.Channel)
}

// Range is the rows [From, To) of one segment.
type Range struct{ From, To int }

// Len is the number of rows.
func (r Range) Len() int { return r.To - r.From }

// extend appends a range, or lengthens the last one that it continues.
func extend(ranges []Range, r Range) []Range {
	switch last := len(ranges) - 1; {
	case r.From == r.To:
		return ranges
	case last >= 0 && ranges[last].To == r.From:
		ranges[last].To = r.To
		return ranges
	}
	return append(ranges, r)
}
