package admission

// Signal names what a gate reads (RR-421).
type Signal string

// The signals, in the order in which the first present one is taken. Recency is
// no signal of relevance: such rows are unscored.
const (
	Confidence     Signal = "confidence"
	Convex         Signal = "rsf"
	Cosine         Signal = "cosine"
	ReciprocalRank Signal = "rrf"
	Recency        Signal = "recency"
)

// Signals are the scores that one row has; nil is absent.
type Signals struct {
	Confidence     *float64
	Convex         *float64
	Cosine         *float64
	ReciprocalRank *float64
}

// First returns the signal that the gate reads and its value; ok is false for
// an unscored row.
func (s Signals) First() (signal Signal, value float64, ok bool) {
	for _, c := range []struct {
		signal Signal
		value  *float64
	}{{Confidence, s.Confidence}, {Convex, s.Convex}, {Cosine, s.Cosine}, {ReciprocalRank, s.ReciprocalRank}} {
		if c.value != nil {
			return c.signal, *c.value, true
		}
	}
	return Recency, 0, false
}
