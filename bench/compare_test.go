package bench

import (
	"errors"
	"testing"

	"recalld/memory"
)

// rowOf finds a figure.
func rowOf(t *testing.T, r *CompareReport, figure string) CompareRow {
	t.Helper()
	for _, row := range r.Rows {
		if row.Figure == figure {
			return row
		}
	}
	t.Fatalf("no row of %s", figure)
	return CompareRow{}
}

func ladderOf(recall []float64, hits string) *LadderReport {
	r := rungFor(ShapeOne, 1_000)
	r.Samples = LadderSamples{RecallMS: recall, HitAt10: map[string]string{askExact: hits}}
	return &LadderReport{Kind: KindLadder, Rungs: []LadderRung{r, rungFor(ShapeZipf, 1_000)}}
}

// Questions that are twice as slow each are twice as slow in every sample that
// draws them in pairs, however much they differ among themselves; drawn apart they
// are not.
//
// DECISIONS 31
func TestIntervalsOfPairs(t *testing.T) {
	var a, b, more []float64
	for i := range 40 {
		a = append(a, float64(1+i*i))
		b = append(b, 2*a[i])
	}
	more = append(append(more, b...), b[20])
	paired, err := Compare(ladderOf(a, "1100"), ladderOf(b, "1111"), CompareOptions{Resamples: 300, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	p50 := rowOf(t, paired, "recall_ms.p50")
	if !p50.Paired || *p50.Ratio != 2 || *p50.Low != 2 || *p50.High != 2 || p50.N != [2]int{40, 40} {
		t.Errorf("%+v: %v, %v to %v", p50, *p50.Ratio, *p50.Low, *p50.High)
	}
	apart, err := Compare(ladderOf(a, "1100"), ladderOf(more, "1111"), CompareOptions{Resamples: 300, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	loose := rowOf(t, apart, "recall_ms.p50")
	if loose.Paired || *loose.Low >= 1.9 || *loose.High <= 2.1 {
		t.Errorf("%+v: %v to %v", loose, *loose.Low, *loose.High)
	}
	hits := rowOf(t, paired, "hit_at_10."+askExact)
	if hits.A != .5 || hits.B != 1 || *hits.Ratio != 2 {
		t.Errorf("%+v", hits)
	}
	again, err := Compare(ladderOf(a, "1100"), ladderOf(more, "1111"), CompareOptions{Resamples: 300, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if same := rowOf(t, again, "recall_ms.p50"); *same.Low != *loose.Low || *same.High != *loose.High {
		t.Error("one seed gives two intervals")
	}
	if len(paired.Rows) != 6 || paired.Rows[5].Shape != ShapeZipf {
		t.Errorf("%d rows of two rungs", len(paired.Rows))
	}
}

// The interval of a mean of zeroes and ones is about two standard errors wide on
// either side, and a ratio to nothing is none.
func TestIntervalsHaveTheirWidth(t *testing.T) {
	half := ""
	for range 50 {
		half += "10"
	}
	all := ""
	for range 101 { // not paired
		all += "1"
	}
	r, err := Compare(ladderOf([]float64{1}, all), ladderOf([]float64{1}, half), CompareOptions{Resamples: 1_000, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	row := rowOf(t, r, "hit_at_10."+askExact)
	if *row.Low < .36 || *row.Low > .44 || *row.High < .56 || *row.High > .64 {
		t.Errorf("%v to %v", *row.Low, *row.High)
	}
	none := ""
	for range 100 {
		none += "0"
	}
	if r, err = Compare(ladderOf([]float64{1}, none), ladderOf([]float64{1}, half), CompareOptions{Resamples: 10}); err != nil {
		t.Fatal(err)
	}
	if row := rowOf(t, r, "hit_at_10."+askExact); row.Ratio != nil || row.Low != nil || row.High != nil {
		t.Errorf("%+v", row)
	}
}

func TestImpossibleComparisonsAreRefused(t *testing.T) {
	a := &LadderReport{Rungs: []LadderRung{rungFor(ShapeOne, 1_000)}}
	b := &LadderReport{Rungs: []LadderRung{rungFor(ShapeOne, 2_000)}}
	var refused *memory.FieldError
	if _, err := Compare(a, b, CompareOptions{Resamples: 1}); !errors.As(err, &refused) || refused.Field != "files" {
		t.Errorf("%v", err)
	}
	for _, resamples := range []int{-1, 0, MaxResamples + 1} {
		_, err := Compare(a, a, CompareOptions{Resamples: resamples})
		if !errors.As(err, &refused) || refused.Field != "resamples" {
			t.Errorf("%d: %v", resamples, err)
		}
	}
}
