package fusion

// scaled is each candidate's key min-max scaled to 0..1 over the rankings that
// share its scale, which for most is its own alone. Keys that are all equal, and
// rankings without scores, give 1 (RR-406).
func scaled(r Ranking, all []Ranking) []float64 {
	parts := make([]float64, len(r.Candidates))
	if len(parts) == 0 {
		return parts
	}
	worst, best := bounds(r, all)
	for i, c := range r.Candidates {
		if r.Unscored || best == worst {
			parts[i] = 1
		} else {
			parts[i] = (c.Key - worst) / (best - worst)
		}
	}
	return parts
}

// bounds are the lowest and the highest key on the scale of r.
func bounds(r Ranking, all []Ranking) (worst, best float64) {
	worst, best = r.Candidates[len(r.Candidates)-1].Key, r.Candidates[0].Key
	for _, other := range all {
		if sameScale(r, other) && len(other.Candidates) > 0 {
			worst = min(worst, other.Candidates[len(other.Candidates)-1].Key)
			best = max(best, other.Candidates[0].Key)
		}
	}
	return worst, best
}

func sameScale(a, b Ranking) bool {
	return a.Scale != "" && a.Scale == b.Scale && !a.Unscored && !b.Unscored
}

// totalWeight is the weight of the arms that returned anything, the divisor of
// RR-406; 1 when there is none, so that an empty fusion stays empty. Arms of one
// scale count once, with the largest weight among them, since a row is in one of
// them at most.
func totalWeight(rankings []Ranking) float64 {
	total := 0.0
	for i, r := range rankings {
		if len(r.Candidates) == 0 {
			continue
		}
		weight, counted := r.Weight, false
		for j, other := range rankings {
			if j == i || len(other.Candidates) == 0 || !sameScale(r, other) {
				continue
			}
			counted = counted || j < i
			weight = max(weight, other.Weight)
		}
		if !counted {
			total += weight
		}
	}
	if total == 0 {
		return 1
	}
	return total
}
