package layout

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"recalld/memory"
)

// The ranges of a scope hold its rows and no other, whatever cells a segment has:
// the same as asking about each row.
//
// DECISIONS 3, DECISIONS 29, RR-439, RR-440, RR-441, BR-092
func TestRangesEqualTheFilter(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		agent, project, channel := rapid.SampledFrom(agents), rapid.SampledFrom(projects), rapid.SampledFrom(channels)
		names := make(map[Cell]memory.Cell)
		var rows []Row
		for i := range rapid.IntRange(0, 60).Draw(t, "records") {
			c := memory.Cell{Agent: agent.Draw(t, "agent"), Project: project.Draw(t, "project"), Channel: channel.Draw(t, "channel")}
			names[CellOf(truthID, c)] = c
			for block := range rapid.IntRange(1, 3).Draw(t, "blocks") {
				rows = append(rows, Row{Cell: CellOf(truthID, c), Ref: memory.Ref{Kind: memory.KindMemory, ID: int64(i + 1)}, Block: block, Code: make([]byte, 8)})
			}
		}
		slices.SortFunc(rows, compareRows)
		s, err := OpenSegment(dir, writeIn(t, dir, spec(Signs, 64), rows), source(64))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		scope := memory.Scope{Agent: rapid.SampledFrom(append(agents, "nobody")).Draw(t, "scope agent"),
			Project: rapid.Ptr(rapid.SampledFrom(append(projects, "none")), true).Draw(t, "scope project"),
			Channel: rapid.Ptr(rapid.SampledFrom(append(channels, "none")), true).Draw(t, "scope channel")}
		keys := ScopeOf(truthID, scope)
		ranges, err := s.Ranges(keys)
		if err != nil {
			t.Fatal(err)
		}
		last := -1
		in := make([]bool, len(rows))
		for _, r := range ranges {
			if r.From <= last || r.From >= r.To {
				t.Fatalf("ranges are %v", ranges)
			}
			last = r.To
			for row := r.From; row < r.To; row++ {
				in[row] = true
			}
		}
		for i, r := range rows {
			want := scope.Contains(names[r.Cell])
			if in[i] != want || keys.Contains(r.Cell) != want {
				t.Fatalf("row %d of %v: in %v, keys %v, scope %v", i, names[r.Cell], in[i], keys.Contains(r.Cell), want)
			}
		}
		limit := len(rows)
		switch {
		case scope.Project == nil && (scope.Channel == nil || *scope.Channel == ""):
			limit = 1
		case scope.Project != nil && (scope.Channel == nil || *scope.Channel == ""):
			limit = 2
		case scope.Project != nil:
			limit = 4
		}
		if len(ranges) > limit {
			t.Fatalf("%d ranges: %v", len(ranges), ranges)
		}
	})
}

// writeIn is write for a property.
func writeIn(t *rapid.T, dir string, s Spec, rows []Row) string {
	w, err := Create(dir, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := w.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	name, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// An agent whose key is the highest number has an end too.
func TestRangesAtTheEdge(t *testing.T) {
	const most = ^uint64(0)
	dir := t.TempDir()
	var rows []Row
	for i, c := range []Cell{{most - 1, 0, 0}, {most, 0, most}, {most, most, 0}, {most, most, most}} {
		rows = append(rows, Row{Cell: c, Ref: memory.Ref{Kind: memory.KindMemory, ID: int64(i + 1)}, Code: make([]byte, 8)})
	}
	s := open(t, dir, write(t, dir, spec(Signs, 64), rows), source(64))
	project, channel := most, most
	for _, c := range []struct {
		scope Scope
		want  []Range
	}{
		{Scope{Agent: most - 1}, []Range{{0, 1}}},
		{Scope{Agent: most}, []Range{{1, 4}}},
		{Scope{Agent: most, Project: &project}, []Range{{1, 4}}},
		{Scope{Agent: most, Project: new(uint64)}, []Range{{1, 2}}},
		{Scope{Agent: most, Project: &project, Channel: &channel}, []Range{{1, 4}}},
		{Scope{Agent: most, Channel: new(uint64)}, []Range{{1, 4}}},
		{Scope{Agent: 0}, nil},
	} {
		if got, err := s.Ranges(c.scope); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, %v; not %v", c.scope, got, err, c.want)
		}
	}
}

// Keys are of one store.
func TestKey(t *testing.T) {
	if got := Key(truthID, ""); got != 0 {
		t.Errorf("the empty name has key %d", got)
	}
	for _, name := range slices.Concat(agents, projects[1:], channels[1:]) {
		sum := sha256.Sum256(append(append([]byte(truthID), 0), name...))
		if want := binary.BigEndian.Uint64(sum[:8]); Key(truthID, name) != want {
			t.Errorf("%s has key %x, not %x", name, Key(truthID, name), want)
		}
		if Key("another", name) == Key(truthID, name) {
			t.Errorf("%s has one key in two stores", name)
		}
	}
}
