package fusion

// reciprocal is each candidate's 1/(k+rank), rank from 1 (RR-405).
func reciprocal(r Ranking, k float64) []float64 {
	parts := make([]float64, len(r.Candidates))
	for i := range parts {
		parts[i] = 1 / (k + float64(i+1))
	}
	return parts
}
