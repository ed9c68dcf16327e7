package admission

import (
	"math"
	"slices"
)

// Method is how a threshold is chosen.
type Method string

// The methods of RR-428, RR-429 and RR-430.
const (
	Separation Method = "separation"
	Percentile Method = "percentile"
	ZScore     Method = "zscore"
)

// Precision weighs false positives against misses (RR-432).
type Precision string

// The levels of precision.
const (
	Strict   Precision = "strict"
	Balanced Precision = "balanced"
	Lenient  Precision = "lenient"
)

// Beta is the weight of RR-432.
func (p Precision) Beta() float64 {
	switch p {
	case Strict:
		return 2
	case Lenient:
		return .5
	}
	return 1
}

// What a calibration needs and how far it may go (RR-427 to RR-431).
const (
	DefaultSample      = 200
	MaxSample          = 2_000
	MinSample          = 10
	ThresholdFloor     = .05
	MinPositivePairs   = 10
	PositiveMinutes    = 30
	separationSteps    = 256
	defaultQuantile    = .95
	defaultZ           = 1.0
	maxZ               = 10.0
	FusedQueries       = 40
	FusedDraws         = 5
	FusedDepth         = 20
	MinFusedNull       = 10
	MinFusedPositives  = 5
	thresholdPrecision = 4
)

// ScoringVersion stamps stored thresholds; a threshold of another version is
// never used (RR-433). It rises whenever the meaning of a score changes.
const ScoringVersion = 2

// Threshold chooses a threshold from two populations of scores. parameter is
// the quantile or z, 0 for the method's default. The result is floored and
// rounded (RR-427). The null must not be empty; Separation needs positives too.
func Threshold(m Method, null, positives []float64, beta, parameter float64) float64 {
	var t float64
	switch m {
	case Percentile:
		t = quantile(null, parameter)
	case ZScore:
		t = zscore(null, parameter)
	default:
		t = Separate(null, positives, beta)
	}
	return round(max(ThresholdFloor, t), thresholdPrecision)
}

// Separate returns the point, of 256 from the lowest to the highest value, that
// maximises TPR + beta × (1 − FPR); the lowest of equals (RR-428).
func Separate(null, positives []float64, beta float64) float64 {
	null, positives = slices.Sorted(slices.Values(null)), slices.Sorted(slices.Values(positives))
	lo := min(null[0], positives[0])
	hi := max(null[len(null)-1], positives[len(positives)-1])
	best, at := math.Inf(-1), lo
	for i := range separationSteps {
		x := lo + float64((hi-lo)*float64(i))/float64(separationSteps-1)
		score := reached(positives, x) + float64(beta*(1-reached(null, x)))
		if score > best {
			best, at = score, x
		}
	}
	return at
}

// reached is the share of sorted values at or above x.
func reached(sorted []float64, x float64) float64 {
	below, _ := slices.BinarySearch(sorted, x)
	return float64(len(sorted)-below) / float64(len(sorted))
}

// quantile interpolates linearly; a parameter above 1 is read as percent
// (RR-429).
func quantile(values []float64, q float64) float64 {
	switch {
	case q == 0:
		q = defaultQuantile
	case q > 1:
		q /= 100
	}
	q = clamp(q, 0, 1)
	sorted := slices.Sorted(slices.Values(values))
	place := float64(q * float64(len(sorted)-1))
	i := int(place)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + float64((place-float64(i))*(sorted[i+1]-sorted[i]))
}

// zscore is mean plus z standard deviations, z clamped (RR-430).
func zscore(values []float64, z float64) float64 {
	if z == 0 {
		z = defaultZ
	}
	z = clamp(z, -maxZ, maxZ)
	mean := 0.0
	for _, v := range values {
		mean += v
	}
	mean /= float64(len(values))
	variance := 0.0
	for _, v := range values {
		variance += float64((v - mean) * (v - mean))
	}
	return mean + float64(z*math.Sqrt(variance/float64(len(values))))
}

// UpperMedian is the median of several draws, the upper of two in the middle
// (RR-431).
func UpperMedian(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
