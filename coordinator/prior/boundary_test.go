package prior

import (
	"math"
	"testing"
	"time"

	"recalld/memory"
)

// RR-412
func TestBoundaryCurve(t *testing.T) {
	boundary := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b := Boundary{Newest: memory.TimeOf(boundary), Rate: .01, Floor: .5}
	row := func(kind memory.Kind, hours float64) memory.Record {
		when := memory.TimeOf(boundary.Add(-time.Duration(hours * float64(time.Hour))))
		return memory.Record{Ref: memory.Ref{Kind: kind, ID: 1}, Time: when}
	}
	for _, c := range []struct {
		name string
		row  memory.Record
		want float64
	}{
		{"at the boundary", row(memory.KindMemory, 0), 1},
		{"after it", row(memory.KindMemory, -5), 1},
		{"one hour before", row(memory.KindMemory, 1), math.Exp(-.01)},
		{"ten hours before", row(memory.KindMemory, 10), math.Exp(-.1)},
		{"just above the floor", row(memory.KindMemory, 69), math.Exp(-.69)},
		{"at the floor", row(memory.KindMemory, 70), .5},
		{"a year before", row(memory.KindMemory, 8760), .5},
		{"episodes are exempt", row(memory.KindEpisode, 1000), 1},
		{"undated: the time it was stored", memory.Record{Ref: memory.Ref{Kind: memory.KindMemory, ID: 1}, Created: memory.TimeOf(boundary.Add(-10 * time.Hour))}, math.Exp(-.1)},
		{"no time at all", memory.Record{Ref: memory.Ref{Kind: memory.KindMemory, ID: 1}}, 1},
	} {
		if got := b.Factor(c.row); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	if got := (Boundary{Rate: .01, Floor: .5}).Factor(row(memory.KindMemory, 1000)); got != 1 {
		t.Errorf("without episodes: got %v, want 1", got)
	}
}
