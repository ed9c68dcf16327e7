package admission

import "recalld/coordinator/portable"

// UnscoredPool is the number of records in scope from which unscored rows pass
// the gate (RR-423).
const UnscoredPool = 100

// Where a gate's threshold came from.
const (
	SourceCalibrated = "calibrated"
	SourceHeuristic  = "heuristic"
	SourceOff        = "off"
	// SourceUncalibrated gates nothing: a fused score says how a row stands among
	// the rows of its query, so that only a threshold measured on such scores can
	// tell a good one from a bad one (RR-084).
	SourceUncalibrated = "uncalibrated"
)

// Gate is the threshold that rows have to reach.
type Gate struct {
	Signal    Signal
	Threshold float64
	Source    string
	pool      int64
	open      bool
}

// GateInput is what a gate is made of.
type GateInput struct {
	Off        bool   // truncation layers off (RR-451)
	EmptyQuery bool   // a recency listing waives the pool rule (RR-423)
	Deep       bool   // halves the threshold (RR-422, RR-424)
	Signal     Signal // what this recall's rows carry
	Pool       int64  // memories plus episodes in scope
	K          float64
	// Relative applies the heuristic to fused scores as well, as the reference
	// does (RR-422).
	Relative bool
	// Calibrated is the stored threshold for Signal, nil without one (RR-424).
	Calibrated *float64
}

// NewGate makes the gate of one recall: calibrated when there is a threshold
// for its signal, else by pool size for a signal that means the same in every
// query.
func NewGate(in GateInput) Gate {
	g := Gate{Signal: in.Signal, pool: in.Pool, open: in.EmptyQuery}
	switch {
	case in.Off:
		g.Source = SourceOff
		return g
	case in.Calibrated != nil:
		g.Source, g.Threshold = SourceCalibrated, *in.Calibrated
	case !in.Relative && (in.Signal == Convex || in.Signal == ReciprocalRank):
		g.Source = SourceUncalibrated
		return g
	default:
		g.Source, g.Threshold = SourceHeuristic, heuristic(in.Pool)
		if in.Signal == ReciprocalRank {
			g.Threshold = float64(g.Threshold * 3 / (in.K + 1))
		}
	}
	if in.Deep {
		g.Threshold /= 2
	}
	return g
}

// heuristic is RR-422 before the halving.
func heuristic(pool int64) float64 {
	if pool <= 0 {
		return .5
	}
	share := min(1, portable.Log(float64(pool)+1)/portable.Log(500))
	return .5 - float64(.3*share)
}

// Admit reports whether a row passes.
func (g Gate) Admit(s Signals) bool {
	if g.Source == SourceOff {
		return true
	}
	_, value, scored := s.First()
	if !scored {
		return g.open || g.pool >= UnscoredPool
	}
	if g.Source == SourceUncalibrated {
		return true
	}
	return value >= g.Threshold
}
