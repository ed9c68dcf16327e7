package fusion

// scaled is each candidate's key min-max scaled to 0..1 inside its own arm and
// query. Keys that are all equal, and rankings without scores, give 1
// (RR-406).
func scaled(r Ranking) []float64 {
	parts := make([]float64, len(r.Candidates))
	if len(parts) == 0 {
		return parts
	}
	best, worst := r.Candidates[0].Key, r.Candidates[len(parts)-1].Key
	for i, c := range r.Candidates {
		if r.Unscored || best == worst {
			parts[i] = 1
		} else {
			parts[i] = (c.Key - worst) / (best - worst)
		}
	}
	return parts
}

// totalWeight is the weight of the arms that returned anything, the divisor of
// RR-406; 1 when there is none, so that an empty fusion stays empty.
func totalWeight(rankings []Ranking) float64 {
	total := 0.0
	for _, r := range rankings {
		if len(r.Candidates) > 0 {
			total += r.Weight
		}
	}
	if total == 0 {
		return 1
	}
	return total
}
