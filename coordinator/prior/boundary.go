package prior

import (
	"recalld/coordinator/portable"
	"recalld/memory"
)

// Boundary is the episode boundary penalty (RR-412): memories older than the
// newest episode of the scope count for less, the older the less, down to a
// floor.
type Boundary struct {
	// Newest is when the scope's newest episode was stored; the zero Time
	// switches the penalty off.
	Newest memory.Time
	Rate   float64 // per hour, 0.01
	Floor  float64 // 0.5
}

// Factor is p(row) for one record. Episodes and records without any time are
// exempt.
func (b Boundary) Factor(r memory.Record) float64 {
	if b.Newest.IsZero() || r.Ref.Kind == memory.KindEpisode {
		return 1
	}
	when := r.When()
	if when.IsZero() {
		when = r.Created
	}
	if when.IsZero() || when.Milli >= b.Newest.Milli {
		return 1
	}
	hours := float64(b.Newest.Milli-when.Milli) / 3_600_000
	return max(portable.Exp(-float64(b.Rate*hours)), b.Floor)
}
