package coordinator

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"recalld/coordinator/arm"
	"recalld/memory"
	"recalld/sqlite"
)

// overheard is an arm with what was asked of it.
type overheard struct {
	arm.Arm
	questions, approximate int
}

func (o *overheard) Search(ctx context.Context, view *sqlite.View, q arm.Query) (arm.Result, error) {
	o.questions++
	if q.Approximate {
		o.approximate++
	}
	return o.Arm.Search(ctx, view, q)
}

func saysApproximate(a *RecallResponse) (n int) {
	for _, d := range a.Degraded {
		if d.Arm == arm.VectorName && d.Reason == arm.ReasonApproximate {
			n++
		}
	}
	return n
}

// codesCosine is the cosine of a record and a query by their int8 codes.
func codesCosine(record, query []float32) float64 {
	x, _ := memory.Int8(record)
	y, _ := memory.Int8(query)
	var dot, rx, xx, qy, yy, qq float64
	for i := range x {
		a, b, r, q := float64(int8(x[i])), float64(int8(y[i])), float64(record[i]), float64(query[i])
		dot, rx, xx, qy, yy, qq = dot+a*b, rx+r*a, xx+a*a, qy+q*b, yy+b*b, qq+q*q
	}
	return float64(float32(min(1, dot*float64(float32(rx/xx))*(qy/yy/math.Sqrt(qq)))))
}

// measureByHand is the recall at ten of int8 cosines over every vector of the store:
// all pairs, all sorted.
func measureByHand(b *bench) (queries int, at10 float64) {
	b.t.Helper()
	view, err := b.store.ViewRecords(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	defer view.Close()
	model, _, err := view.ActiveModel("")
	if err != nil {
		b.t.Fatal(err)
	}
	byAgent := make(map[string][]sampled)
	var cells []sqlite.CellStats
	if err := view.AllCells(func(c sqlite.CellStats) error {
		cells = append(cells, c)
		return nil
	}); err != nil {
		b.t.Fatal(err)
	}
	for _, c := range cells {
		err := view.Vectors(model.ID, []int64{c.ID}, func(ref memory.Ref, _ int64, values []float32) error {
			byAgent[c.Cell.Agent] = append(byAgent[c.Cell.Agent], sampled{ref: ref, vector: slices.Clone(values)})
			return nil
		})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	found, wanted := 0, 0
	for _, rows := range byAgent {
		for _, q := range rows {
			queries++
			nearest := func(cosine func(record, query []float32) float64) []memory.Candidate {
				var all []memory.Candidate
				for _, row := range rows {
					if row.ref != q.ref {
						all = append(all, memory.Candidate{Ref: row.ref, Key: cosine(row.vector, q.vector)})
					}
				}
				slices.SortFunc(all, memory.Compare)
				return all[:min(10, len(all))]
			}
			exact := nearest(func(record, query []float32) float64 { return float64(memory.Dot(query, record)) })
			coded := nearest(codesCosine)
			wanted += len(exact)
			for _, c := range exact {
				if slices.ContainsFunc(coded, func(d memory.Candidate) bool { return d.Ref == c.Ref }) {
					found++
				}
			}
		}
	}
	return queries, float64(found) / float64(wanted)
}

// DECISIONS 20: vectors are compared exactly unless a request or the setting asks
// otherwise, and then the answer says so; what that costs is measured on the stored
// vectors themselves, and is what a comparison of all pairs gives. A calibration is
// exact always.
func TestApproximateRecallIsMarkedAndMeasured(t *testing.T) {
	b := openWith(t, filepath.Join(t.TempDir(), "recall.db"), nil, ownScanner(t))
	shelve(b, 5, 150)
	b.drain()
	b.built()
	recall := RecallRequest{Agent: "mia", Query: "the pump was started again"}
	if n := saysApproximate(b.recall(recall)); n != 0 {
		t.Errorf("an exact answer says %d times that it is not", n)
	}
	recall.Approximate = true
	if n := saysApproximate(b.recall(recall)); n != 1 {
		t.Errorf("an approximate answer says so %d times", n)
	}
	state, err := b.Index(t.Context(), IndexStateRequest{ApproximateRecall: MaxRecallQueries})
	if err != nil {
		t.Fatal(err)
	}
	queries, at10 := measureByHand(b)
	m := state.ApproximateRecall
	if m == nil || m.At10 == nil || m.Queries != queries || *m.At10 != at10 || at10 < .9 || at10 > .9999 {
		t.Errorf("measured %+v, by hand %d and %v", encode(t, m), queries, at10)
	}
	var some [2]string
	for i := range some {
		state, err := b.Index(t.Context(), IndexStateRequest{ApproximateRecall: 7})
		if err != nil || state.ApproximateRecall.Queries != 7 {
			t.Fatal(state, err)
		}
		some[i] = encode(t, state.ApproximateRecall)
	}
	if some[0] != some[1] {
		t.Errorf("%s, and again %s", some[0], some[1])
	}
	if state, err := b.Index(t.Context(), IndexStateRequest{}); err != nil || state.ApproximateRecall != nil {
		t.Errorf("not asked for: %+v, %v", state, err)
	}
	if _, err := b.SetSetting(t.Context(), "recall.approximate", "true"); err != nil {
		t.Fatal(err)
	}
	recall.Approximate = false
	if n := saysApproximate(b.recall(recall)); n != 1 {
		t.Errorf("under the setting an answer says %d times that it is approximate", n)
	}
	heard := &overheard{Arm: b.arms[arm.VectorName]}
	b.arms[arm.VectorName] = heard
	if a, err := b.Calibrate(t.Context(), CalibrateRequest{Agent: "mia", DryRun: true}); err != nil || len(a.Results) == 0 {
		t.Fatal(a, err)
	}
	if heard.questions == 0 || heard.approximate > 0 {
		t.Errorf("a calibration asked %d questions, %d of them approximately", heard.questions, heard.approximate)
	}
}

// Without a scanner every answer is exact, and nothing is measured; so it is where
// nothing stands beside a record.
func TestApproximateWithoutAScanner(t *testing.T) {
	b := openWith(t, filepath.Join(t.TempDir(), "recall.db"), map[string]string{"scanner": "off", "recall.approximate": "true"}, ownScanner(t))
	b.put("mia", days()...)
	if n := saysApproximate(b.recall(RecallRequest{Agent: "mia", Query: "staging database", Approximate: true})); n != 0 {
		t.Errorf("an exact answer says %d times that it is not", n)
	}
	alone := openWith(t, filepath.Join(t.TempDir(), "recall.db"), nil, ownScanner(t))
	alone.put("mia", say("One record."))
	alone.drain()
	for _, x := range []*bench{b, alone} {
		state, err := x.Index(t.Context(), IndexStateRequest{ApproximateRecall: 5})
		if err != nil || state.ApproximateRecall == nil || *state.ApproximateRecall != (ApproximateRecall{}) {
			t.Errorf("%+v, %v", state, err)
		}
		for _, n := range []int{-1, MaxRecallQueries + 1} {
			var refused *memory.FieldError
			if _, err := x.Index(t.Context(), IndexStateRequest{ApproximateRecall: n}); !errors.As(err, &refused) || refused.Field != "approximate_recall" {
				t.Errorf("%d: %v", n, err)
			}
		}
	}
}
