package admission

// Autocut returns how many of the rows to keep: it cuts below the largest gap
// between neighbouring scores when that gap is at least ratio times the top
// score. Scores are best first. Fewer than three rows are never cut, and at
// least two are kept (RR-426). It is meant for confidence and cosine alone; on
// a fused score the gap measures the fusion, not the rows.
func Autocut(scores []float64, ratio float64) int {
	if len(scores) < 3 || scores[0] <= 0 {
		return len(scores)
	}
	keep, widest := len(scores), 0.0
	for i := 2; i < len(scores); i++ {
		if gap := scores[i-1] - scores[i]; gap > widest {
			keep, widest = i, gap
		}
	}
	if widest/scores[0] < ratio {
		return len(scores)
	}
	return keep
}
