package coordinator

import (
	"slices"

	"recalld/coordinator/admission"
	"recalld/coordinator/arm"
	"recalld/memory"
)

// score fills in each row's confidence when the scorer is on. It becomes what
// the gate reads and what the row reports; the order stays (RR-062, RR-413).
// Rows without a cosine get one from their stored vector (RR-411).
func (t *turn) score(hits []hit) error {
	if !t.policy.ConfidenceOn {
		return nil
	}
	if err := t.records.load(refsOf(hits)); err != nil {
		return err
	}
	cosines, err := t.cosines(hits)
	if err != nil {
		return err
	}
	var span admission.Span
	if t.stats.Dated {
		span = admission.Span{Min: instant(t.stats.MinTime), Max: instant(t.stats.MaxTime)}
	}
	for i := range hits {
		h := &hits[i]
		record, ok := t.records.held[h.Ref]
		if !ok {
			continue
		}
		var cosine *float64
		if value, known := cosines[h.Ref]; known {
			cosine = &value
			h.backfilled = !h.votedBy(arm.VectorName)
		}
		scored := t.policy.Confidence.Score(record, cosine, span, t.now, t.deep)
		value := scored.Score
		h.signals.Confidence, h.signals.Cosine = &value, cosine
		h.confidence = &Confidence{Score: scored.Score, AgeHours: scored.AgeHours, AgeUnknown: scored.AgeUnknown, Resolved: scored.Resolved}
		if cosine != nil {
			h.confidence.Cosine = roundedPointer(*cosine)
		}
	}
	return nil
}

// votedBy reports whether an arm ranked the row.
func (h *hit) votedBy(name string) bool {
	for _, v := range h.Votes {
		if v.Arm == name {
			return true
		}
	}
	return false
}

// cosines are the rows' similarities to the query under the first model that
// has a vector of them.
func (t *turn) cosines(hits []hit) (map[memory.Ref]float64, error) {
	out := make(map[memory.Ref]float64)
	for _, m := range t.vectors {
		vectors, err := t.view.VectorsOf(m.Model, refsOf(hits))
		if err != nil {
			return nil, err
		}
		for ref, values := range vectors {
			if _, known := out[ref]; !known && len(values) == len(m.Vector) {
				out[ref] = float64(memory.Dot(m.Vector, values))
			}
		}
	}
	return out, nil
}

// makeGate is the gate of this recall: calibrated for the agent, the signal and
// the model, else by the size of the scope for a score that means the same in
// every query (RR-084, RR-422, RR-424).
func (t *turn) makeGate() (admission.Gate, error) {
	in := admission.GateInput{Off: t.gateOff, Deep: t.deep, Pool: t.pool(), K: t.policy.RRFK, Relative: t.policy.GateRelative, Signal: admission.Signal(t.mode)}
	if t.policy.ConfidenceOn {
		in.Signal = admission.Confidence
	}
	if t.policy.GateFused && !t.gateOff && slices.Equal(t.arms, t.serverArms()) {
		var err error
		if in.Calibrated, err = t.calibrated(in.Signal); err != nil {
			return admission.Gate{}, err
		}
	}
	return admission.NewGate(in), nil
}

// serverArms are the arms that a calibration was measured with.
func (t *turn) serverArms() []string {
	arms, _, _ := arm.Expand(t.policy.Arms)
	return arms
}

// floor is the lowest cosine that the vector arm admits (RR-400).
func (t *turn) floor() (float64, error) {
	if t.gateOff {
		return -1, nil
	}
	lowest := t.policy.VectorMin
	threshold, err := t.calibrated(admission.Cosine)
	if err != nil {
		return 0, err
	}
	if threshold != nil {
		lowest = *threshold
	}
	return float64(lowest * t.policy.VectorPart), nil
}

// calibrated is the agent's own stored threshold for a signal, nil without one
// that fits: measured under the one model that is searched and the present
// scoring version (RR-424, RR-433). Other agents' are never used (DECISIONS 1).
func (t *turn) calibrated(signal admission.Signal) (*float64, error) {
	var model int64
	var dims int
	switch len(t.vectors) {
	case 0:
	case 1:
		model, dims = t.vectors[0].Model, len(t.vectors[0].Vector)
	default:
		return nil, nil
	}
	stored, err := t.view.Calibrations(t.question.Scope.Agent)
	if err != nil {
		return nil, err
	}
	for _, s := range stored {
		if s.Signal == string(signal) && s.Model == model && s.Dims == dims && s.ScoringVersion == admission.ScoringVersion {
			return &s.Threshold, nil
		}
	}
	return nil, nil
}
