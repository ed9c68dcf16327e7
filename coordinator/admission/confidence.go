package admission

import (
	"math"

	"recalld/coordinator/portable"
	"recalld/memory"
)

// Scorer holds the constants of the confidence score (RR-414 to RR-418). The
// score is reported and may gate; it never re-sorts (RR-062).
type Scorer struct {
	CosineFloor    float64 // 0.20
	CosineCeil     float64 // 0.75
	DecayRate      float64 // per hour, 0.005
	ReferenceHours float64 // 168
	MinRangeHours  float64 // 24
	DecayFloor     float64 // 0.3
	DecayCeil      float64 // 0.5
	RecallBoost    float64 // 0.02
	BoostDecay     float64 // per hour, 0.002
	ResolvedFactor float64 // 0.3
	RecentFactor   float64 // 0.7
	RecentMinutes  float64 // 5
}

// Span is the oldest and the newest time of a scope; zero when there is none.
type Span struct {
	Min, Max memory.Time
}

// Scored is one record's confidence and what it was made of.
type Scored struct {
	Score      float64 // 0..1, 4 places
	AgeHours   float64 // 2 places
	AgeUnknown bool    // RR-418
	Resolved   bool
}

const hour = 3_600_000.0 // milliseconds

// Score computes RR-414 at the instant now (UTC milliseconds). cosine is nil
// for a record without one. deep switches every decay off (RR-417).
func (c Scorer) Score(r memory.Record, cosine *float64, span Span, now int64, deep bool) Scored {
	out := Scored{Resolved: r.Ref.Kind == memory.KindEpisode && r.Resolved}
	age, known := c.age(r, span, now)
	out.AgeHours, out.AgeUnknown = round(age, 2), !known

	nc := 1.0
	if cosine != nil {
		nc = clamp((*cosine-c.CosineFloor)/(c.CosineCeil-c.CosineFloor), 0, 1)
	}
	td, cf, rp := 1.0, 1.0, 1.0
	if !deep {
		td = max(c.floor(r, now), 1/(1+float64(age*c.rate(span))))
		if out.Resolved {
			cf = c.ResolvedFactor
		}
		if !r.LastRecalled.IsZero() && float64(now-r.LastRecalled.Milli) < float64(c.RecentMinutes*60_000) {
			rp = c.RecentFactor
		}
	}
	out.Score = round(float64(math.Sqrt(nc*td)*cf*rp), 4)
	return out
}

// rate is the decay per hour, slower for a scope that spans more time (RR-415).
func (c Scorer) rate(span Span) float64 {
	if span.Min.IsZero() || span.Max.IsZero() {
		return c.DecayRate
	}
	return c.DecayRate / max(1, c.rangeHours(span)/c.ReferenceHours)
}

func (c Scorer) rangeHours(span Span) float64 {
	return max(c.MinRangeHours, float64(span.Max.Milli-span.Min.Milli)/hour)
}

// floor is what age can never take away (RR-416).
func (c Scorer) floor(r memory.Record, now int64) float64 {
	if r.RecallCount <= 0 || r.LastRecalled.IsZero() {
		return c.DecayFloor
	}
	since := max(0, float64(now-r.LastRecalled.Milli)/hour)
	boost := portable.Log(1+float64(r.RecallCount)) * c.RecallBoost / (1 + float64(since*c.BoostDecay))
	return min(c.DecayCeil, c.DecayFloor+boost)
}

// age is in hours, never negative. A record without a usable time gets the age
// of the scope's newest row plus half the span (RR-418).
func (c Scorer) age(r memory.Record, span Span, now int64) (hours float64, known bool) {
	if when := r.When(); !when.IsZero() {
		return max(0, float64(now-when.Milli)/hour), true
	}
	if span.Min.IsZero() || span.Max.IsZero() {
		return c.MinRangeHours / 2, false
	}
	newest := max(0, float64(now-span.Max.Milli)/hour)
	return newest + float64(span.Max.Milli-span.Min.Milli)/hour/2, false
}

func clamp(x, lo, hi float64) float64 { return max(lo, min(hi, x)) }

// round rounds half away from zero to the given number of decimal places.
func round(x float64, places int) float64 {
	scale := 1.0
	for range places {
		scale = float64(scale * 10)
	}
	return math.Round(x*scale) / scale
}
