package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"recalld/memory"
)

// CompareReport compares the rungs that two ladders share.
type CompareReport struct {
	A         Machine      `json:"a"`
	B         Machine      `json:"b"`
	Resamples int          `json:"resamples"`
	Seed      uint64       `json:"seed"`
	Rows      []CompareRow `json:"rows"`
}

// CompareRow is one figure of one rung. Ratio is B to A; Low and High hold 95 % of
// the ratios of bootstrap samples. A ratio over 0 is null. Paired: both asked the
// same questions, which were drawn together.
type CompareRow struct {
	Shape   string   `json:"shape"`
	Records int      `json:"records"`
	Figure  string   `json:"figure"` // recall_ms.p50, recall_ms.p95, hit_at_10.KIND
	A       float64  `json:"a"`
	B       float64  `json:"b"`
	Ratio   *float64 `json:"ratio"`
	Low     *float64 `json:"low"`
	High    *float64 `json:"high"`
	N       [2]int   `json:"n"` // samples of A and of B
	Paired  bool     `json:"paired"`
}

// MaxResamples bounds the samples of one comparison: an interval of more is no
// narrower than its data.
const MaxResamples = 100_000

// CompareOptions of [Compare].
type CompareOptions struct {
	Resamples int    // samples that are drawn, 1 to [MaxResamples]
	Seed      uint64 // of the samples
}

// Compare compares rungs of one shape and size. Two reports without such a rung,
// and no samples, are a *[memory.FieldError].
func Compare(a, b *LadderReport, o CompareOptions) (*CompareReport, error) {
	if err := atLeastOne("resamples", o.Resamples); err != nil {
		return nil, err
	}
	if o.Resamples > MaxResamples {
		return nil, &memory.FieldError{Field: "resamples", Problem: fmt.Sprintf("is %d", o.Resamples), Limit: fmt.Sprintf("1 to %d", MaxResamples), Next: "leave it out for the default"}
	}
	report := &CompareReport{A: a.Machine, B: b.Machine, Resamples: o.Resamples, Seed: o.Seed}
	for _, x := range a.Rungs {
		at := slices.IndexFunc(b.Rungs, func(y LadderRung) bool { return x.Shape == y.Shape && x.Records == y.Records })
		if at < 0 {
			continue
		}
		y := b.Rungs[at]
		for _, figure := range []struct {
			name string
			of   func([]float64) float64
		}{{"recall_ms.p50", quantileOf(.5)}, {"recall_ms.p95", quantileOf(.95)}} {
			report.add(x, figure.name, x.Samples.RecallMS, y.Samples.RecallMS, figure.of, o)
		}
		for _, kind := range needleKinds() {
			report.add(x, "hit_at_10."+kind, zeroesAndOnes(x.Samples.HitAt10[kind]), zeroesAndOnes(y.Samples.HitAt10[kind]), mean, o)
		}
	}
	if len(report.Rows) == 0 {
		return nil, &memory.FieldError{Field: "files", Problem: "share no rung", Limit: "one shape and number of records in both", Next: "compare two runs of the same ladder"}
	}
	return report, nil
}

// add compares one figure of two samples; none where one is empty.
func (r *CompareReport) add(rung LadderRung, figure string, a, b []float64, of func([]float64) float64, o CompareOptions) {
	if len(a) == 0 || len(b) == 0 {
		return
	}
	row := CompareRow{Shape: rung.Shape, Records: rung.Records, Figure: figure, A: round(of(a)), B: round(of(b)), N: [2]int{len(a), len(b)}, Paired: len(a) == len(b)}
	row.Ratio = ratioOrNull(of(b), of(a))
	random := rand.New(rand.NewPCG(o.Seed, uint64(len(r.Rows))))
	left, right := make([]float64, len(a)), make([]float64, len(b))
	var ratios []float64
	for range o.Resamples {
		for i := range left {
			at := random.IntN(len(a))
			left[i] = a[at]
			if row.Paired {
				right[i] = b[at]
			}
		}
		if !row.Paired {
			for i := range right {
				right[i] = b[random.IntN(len(b))]
			}
		}
		if q := ratioOrNull(of(right), of(left)); q != nil {
			ratios = append(ratios, *q)
		}
	}
	// Where some samples have no ratio the interval would leave out the worst.
	if row.Ratio != nil && len(ratios) == o.Resamples {
		low, high := quantileOf(.025)(ratios), quantileOf(.975)(ratios)
		row.Low, row.High = &low, &high
	}
	r.Rows = append(r.Rows, row)
}

func ratioOrNull(a, b float64) *float64 {
	if b == 0 {
		return nil
	}
	q := round(a / b)
	return &q
}

// quantileOf is the nearest-rank quantile of values, which stay as they are.
func quantileOf(q float64) func([]float64) float64 {
	return func(values []float64) float64 {
		sorted := slices.Clone(values)
		slices.Sort(sorted)
		i := int(math.Ceil(float64(q*float64(len(sorted))))) - 1
		return sorted[max(0, min(i, len(sorted)-1))]
	}
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func zeroesAndOnes(hits string) (values []float64) {
	for _, c := range strings.Split(hits, "") {
		value := 0.0
		if c == "1" {
			value = 1
		}
		values = append(values, value)
	}
	return values
}
