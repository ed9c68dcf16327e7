package admission

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"recalld/memory"
)

func number(x float64) *float64 { return &x }

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// RR-421
func TestFirstSignal(t *testing.T) {
	all := Signals{Confidence: number(.1), Convex: number(.2), Cosine: number(.3), ReciprocalRank: number(.4)}
	for _, want := range []Signal{Confidence, Convex, Cosine, ReciprocalRank, Recency} {
		got, _, scored := all.First()
		if got != want || scored != (want != Recency) {
			t.Errorf("got %s, want %s", got, want)
		}
		switch want {
		case Confidence:
			all.Confidence = nil
		case Convex:
			all.Convex = nil
		case Cosine:
			all.Cosine = nil
		case ReciprocalRank:
			all.ReciprocalRank = nil
		}
	}
}

// RR-422
func TestHeuristicGate(t *testing.T) {
	threshold := func(pool int64, signal Signal, deep bool) float64 {
		return NewGate(GateInput{Pool: pool, Signal: signal, Deep: deep, K: 60, Relative: true}).Threshold
	}
	near(t, "n = 0", threshold(0, Convex, false), .5)
	near(t, "n = 1", threshold(1, Convex, false), .5-.3*math.Log(2)/math.Log(500))
	near(t, "n = 499", threshold(499, Convex, false), .2)
	near(t, "n = 1,000,000", threshold(1_000_000, Convex, false), .2)
	near(t, "deep", threshold(499, Convex, true), .1)
	near(t, "rrf", threshold(499, ReciprocalRank, false), .2*3/61)
}

// RR-084: without a measured threshold a fused score is not compared with one
// that was made for cosines; a confidence is.
func TestHeuristicGateReadsNoFusedScore(t *testing.T) {
	for _, signal := range []Signal{Convex, ReciprocalRank} {
		g := NewGate(GateInput{Pool: 3, Signal: signal, K: 60})
		if g.Source != SourceUncalibrated || !g.Admit(Signals{Convex: number(.01)}) || g.Admit(Signals{}) {
			t.Errorf("%s: %+v", signal, g)
		}
	}
	if g := NewGate(GateInput{Pool: 3, Signal: Confidence}); g.Source != SourceHeuristic || g.Admit(Signals{Confidence: number(.01)}) {
		t.Errorf("confidence: %+v", g)
	}
}

// RR-424: a calibrated threshold is used raw, also on rrf, and halved by deep.
func TestCalibratedGate(t *testing.T) {
	g := NewGate(GateInput{Pool: 499, Signal: ReciprocalRank, K: 60, Calibrated: number(.03)})
	near(t, "raw scale", g.Threshold, .03)
	if g.Source != SourceCalibrated {
		t.Errorf("source %q", g.Source)
	}
	near(t, "deep", NewGate(GateInput{Signal: Convex, Calibrated: number(.4), Deep: true}).Threshold, .2)
}

// RR-423, RR-451
func TestGateAdmits(t *testing.T) {
	scored := func(x float64) Signals { return Signals{Convex: number(x)} }
	g := NewGate(GateInput{Pool: 99, Signal: Convex, Calibrated: number(.4)})
	if !g.Admit(scored(.4)) || g.Admit(scored(.3999)) {
		t.Error("the boundary belongs to the rows that pass")
	}
	for pool, want := range map[int64]bool{99: false, 100: true} {
		if got := NewGate(GateInput{Pool: pool, Signal: Convex}).Admit(Signals{}); got != want {
			t.Errorf("unscored row at pool %d: %v", pool, got)
		}
	}
	if !NewGate(GateInput{Pool: 3, EmptyQuery: true}).Admit(Signals{}) {
		t.Error("an empty query waives the pool rule")
	}
	off := NewGate(GateInput{Off: true, Pool: 3, Signal: Convex})
	if !off.Admit(scored(0)) || !off.Admit(Signals{}) || off.Source != SourceOff {
		t.Error("a gate that is off admits everything")
	}
}

// RR-426
func TestAutocut(t *testing.T) {
	for _, c := range []struct {
		name   string
		scores []float64
		want   int
	}{
		{"gap below the ratio", []float64{1, .95, .81, .80}, 4},
		{"gap at the ratio", []float64{1, .95, .75, .74}, 2},
		{"gap above the ratio", []float64{1, .9, .85, .2}, 3},
		{"a gap after the first row keeps two", []float64{1, .2, .19}, 3},
		{"two rows are never cut", []float64{1, .1}, 2},
		{"nothing", nil, 0},
		{"zero at the top", []float64{0, 0, 0}, 3},
	} {
		if got := Autocut(c.scores, .15); got != c.want {
			t.Errorf("%s: kept %d, want %d", c.name, got, c.want)
		}
	}
}

var scorer = Scorer{
	CosineFloor: .2, CosineCeil: .75, DecayRate: .005, ReferenceHours: 168, MinRangeHours: 24,
	DecayFloor: .3, DecayCeil: .5, RecallBoost: .02, BoostDecay: .002,
	ResolvedFactor: .3, RecentFactor: .7, RecentMinutes: 5,
}

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func ago(hours float64) memory.Time {
	return memory.TimeOf(now.Add(-time.Duration(hours * float64(time.Hour))))
}

func row(hours float64) memory.Record {
	return memory.Record{Ref: memory.Ref{Kind: memory.KindMemory, ID: 1}, Time: ago(hours)}
}

// RR-414, RR-415, RR-417
func TestConfidenceByHand(t *testing.T) {
	milli := now.UnixMilli()
	week := Span{Min: ago(168), Max: ago(0)}
	month := Span{Min: ago(672), Max: ago(0)}
	score := func(r memory.Record, cosine *float64, span Span, deep bool) float64 {
		return scorer.Score(r, cosine, span, milli, deep).Score
	}
	// nc = (0.475 − 0.2) / 0.55 = 0.5; td = 1 / (1 + 100 × 0.005) = 2/3
	near(t, "one week's span", score(row(100), number(.475), week, false), .5774)
	near(t, "a span of 4 weeks decays 4 times slower", score(row(100), number(.475), month, false), round(math.Sqrt(.5/1.125), 4))
	near(t, "no span: the plain rate", score(row(100), number(.475), Span{}, false), .5774)
	near(t, "no cosine: nc is 1", score(row(100), nil, week, false), round(math.Sqrt(2.0/3), 4))
	near(t, "cosine below the floor", score(row(1), number(.1), week, false), 0)
	near(t, "cosine above the ceiling", score(row(0), number(.9), week, false), 1)
	near(t, "deep", score(row(5000), number(.475), week, true), round(math.Sqrt(.5), 4))

	resolved := memory.Record{Ref: memory.Ref{Kind: memory.KindEpisode, ID: 1}, Time: ago(0), Resolved: true}
	near(t, "resolved episode", score(resolved, nil, week, false), .3)
	near(t, "resolved episode, deep", score(resolved, nil, week, true), 1)

	recent := row(0)
	recent.RecallCount, recent.LastRecalled = 1, ago(4.0/60)
	near(t, "recalled 4 minutes ago", score(recent, nil, week, false), .7)
	recent.LastRecalled = ago(5.0 / 60)
	near(t, "recalled 5 minutes ago", score(recent, nil, week, false), 1)
}

// RR-416
func TestConfidenceFloor(t *testing.T) {
	milli := now.UnixMilli()
	old := row(100_000)
	near(t, "never recalled", scorer.floor(old, milli), .3)
	old.RecallCount, old.LastRecalled = 3, ago(500)
	near(t, "recalled 3 times, 500 hours ago", scorer.floor(old, milli), .3+math.Log(4)*.02/2)
	old.RecallCount, old.LastRecalled = 1_000_000, ago(0)
	near(t, "the ceiling", scorer.floor(old, milli), .5)
}

// RR-418
func TestConfidenceAge(t *testing.T) {
	milli := now.UnixMilli()
	undated := memory.Record{Ref: memory.Ref{Kind: memory.KindMemory, ID: 1}}
	got := scorer.Score(undated, nil, Span{Min: ago(110), Max: ago(10)}, milli, false)
	if !got.AgeUnknown || got.AgeHours != 60 {
		t.Errorf("undated memory: %+v, want 10 + 100/2 hours, unknown", got)
	}
	got = scorer.Score(undated, nil, Span{}, milli, false)
	if !got.AgeUnknown || got.AgeHours != 12 {
		t.Errorf("no anchor: %+v, want half of 24 hours, unknown", got)
	}
	episode := memory.Record{Ref: memory.Ref{Kind: memory.KindEpisode, ID: 1}, Created: ago(7)}
	if got = scorer.Score(episode, nil, Span{}, milli, false); got.AgeUnknown || got.AgeHours != 7 {
		t.Errorf("an episode without a start: %+v, want its creation time", got)
	}
	if got = scorer.Score(row(-5), nil, Span{}, milli, false); got.AgeHours != 0 {
		t.Errorf("a time in the future: %+v, want age 0", got)
	}
}

// RR-443
func TestExclusion(t *testing.T) {
	long := "the deploy on friday failed because the disk was full" // 53
	at31, at32 := strings.Repeat("記", 31), strings.Repeat("記", 32)
	for _, c := range []struct {
		name, text, content string
		want                bool
	}{
		{"equal", "猫", "猫", true},
		{"short: no prefix", "猫", "猫が好き", false},
		{"case and space fold", "  The   DEPLOY on Friday failed because the disk was full", long, true},
		{"a preview excludes the row", long[:40], long, true},
		{"a longer text excludes its preview", long + " again", long, true},
		{"31 code points must be equal", at31, at31 + "憶", false},
		{"32 code points are a prefix", at32, at32 + "憶", true},
		{"a short row must be equal", long, "the deploy", false},
		{"blank excludes nothing", "   ", "", false},
		{"another text", strings.ToUpper(long), "no", false},
	} {
		if got := NewExclusion([]string{c.text}).Excludes(c.content); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// RR-428, RR-432: the higher the weight of false positives, the higher the
// threshold; two separate populations are parted exactly.
func TestSeparation(t *testing.T) {
	var null, positives []float64
	for i := range 100 {
		null = append(null, float64(i)/200)              // 0 .. 0.495
		positives = append(positives, .6+float64(i)/500) // 0.6 .. 0.798
	}
	if x := Separate(null, positives, 1); x <= .495 || x > .6 {
		t.Errorf("parted at %v, outside the gap", x)
	}
	var low, high []float64
	for i := range 20 {
		for j := range 20 { // two overlapping triangles with peaks at 0.475 and 0.675
			low, high = append(low, float64(i+j)/40), append(high, .2+float64(i+j)/40)
		}
	}
	strict, balanced, lenient := Separate(low, high, Strict.Beta()), Separate(low, high, Balanced.Beta()), Separate(low, high, Lenient.Beta())
	if !(strict > balanced && balanced > lenient) {
		t.Errorf("strict %v, balanced %v, lenient %v", strict, balanced, lenient)
	}
}

// RR-427, RR-429, RR-430
func TestPercentileAndZScore(t *testing.T) {
	var null []float64
	for i := range 101 {
		null = append(null, float64(i)/100)
	}
	near(t, "default quantile", Threshold(Percentile, null, nil, 1, 0), .95)
	near(t, "percent", Threshold(Percentile, null, nil, 1, 95), .95)
	near(t, "quantile", Threshold(Percentile, null, nil, 1, .5), .5)
	near(t, "floor", Threshold(Percentile, []float64{-.5, -.4}, nil, 1, 0), .05)
	pair := []float64{.2, .4} // mean 0.3, deviation 0.1
	near(t, "default z", Threshold(ZScore, pair, nil, 1, 0), .4)
	near(t, "z of 50 acts as 10", Threshold(ZScore, pair, nil, 1, 50), 1.3)
	near(t, "4 places", Threshold(ZScore, []float64{.1, .2, .4}, nil, 1, 0), .3581)
}

// RR-431
func TestUpperMedian(t *testing.T) {
	near(t, "odd", UpperMedian([]float64{3, 1, 2}), 2)
	near(t, "even: the upper", UpperMedian([]float64{4, 1, 3, 2}), 3)
}

// RR-422, RR-424: a gate is monotone: a row that scores at least as much as an
// admitted one is admitted.
func TestGateIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := GateInput{
			Pool: rapid.Int64Range(0, 2000).Draw(t, "pool"), Deep: rapid.Bool().Draw(t, "deep"), K: 60,
			Signal: rapid.SampledFrom([]Signal{Confidence, Convex, Cosine, ReciprocalRank}).Draw(t, "signal"),
		}
		g := NewGate(in)
		a := rapid.Float64Range(0, 1).Draw(t, "a")
		b := rapid.Float64Range(a, 1).Draw(t, "b")
		if g.Admit(Signals{Convex: &a}) && !g.Admit(Signals{Convex: &b}) {
			t.Fatalf("admits %v but not %v", a, b)
		}
	})
}
