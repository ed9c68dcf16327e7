package arm

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"recalld/memory"
	"recalld/scanner/client"
	"recalld/shards"
	"recalld/sqlite"
)

// silent has the records of a scanner without their cosines.
type silent struct{ Scanner }

func (s silent) Records(ctx context.Context, view *sqlite.View, q shards.RecordQuery) (shards.RecordAnswer, error) {
	a, err := s.Scanner.Records(ctx, view, q)
	a.Cosines = nil
	return a, err
}

// slope is a vector of length 1 without equal components.
func slope(r *rand.Rand) []float32 {
	v := make([]float32, dims)
	sum := 0.0
	for i := range v {
		v[i] = float32(r.NormFloat64())
		sum += float64(v[i]) * float64(v[i])
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(sum))
	}
	return v
}

// nearestScale is the factor that brings a code nearest to its vector.
func nearestScale(v []float32, code []byte) float64 {
	var vx, xx float64
	for i, c := range code {
		vx += float64(v[i]) * float64(int8(c))
		xx += float64(int8(c)) * float64(int8(c))
	}
	return vx / xx
}

// codedCosine is the cosine of a record and a query by their codes.
func codedCosine(record, query []float32) float64 {
	x, _ := memory.Int8(record)
	y, _ := memory.Int8(query)
	var dot, length float64
	for i := range x {
		dot += float64(int8(x[i])) * float64(int8(y[i]))
		length += float64(query[i]) * float64(query[i])
	}
	return dot * float64(float32(nearestScale(record, x))) * nearestScale(query, y) / math.Sqrt(length)
}

// DECISIONS 20: an approximate answer has the order, the keys and the floor of int8
// cosines, and says so once; where no scanner answers, or one does not say its
// cosines, it is the exact one and does not.
func TestScannedApproximatelyIsTheOrderOfCodes(t *testing.T) {
	folder := t.TempDir()
	w := newWorld(t, folder, 11)
	t.Cleanup(func() {
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := range 120 {
		m := sqlite.NewMemory{Cell: memory.Cell{Agent: []string{"mia", "mia", "ken"}[i%3]}, Content: strconv.Itoa(i), Vector: slope(w.random), Model: w.model}
		if _, err := w.store.StoreMemories(t.Context(), []sqlite.NewMemory{m}); err != nil {
			t.Fatal(err)
		}
	}
	codes := within{t, openCodes(t, w.store, filepath.Join(folder, "codes"))}
	view, err := w.store.ViewRecords(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	cells, err := view.Cells(memory.Scope{Agent: "mia"})
	if err != nil || len(cells) != 1 {
		t.Fatal(cells, err)
	}
	local := NewVector(NewMatrices(1<<20), nil)
	differ := 0
	for range 30 {
		q := Query{Scope: memory.Scope{Agent: "mia"}, Depth: 1 + w.random.IntN(20), Floor: []float64{-1, .2, .6}[w.random.IntN(3)], Vectors: []ModelVector{{Model: w.model, Vector: slope(w.random)}}}
		exact, err := local.Search(t.Context(), view, q)
		if err != nil {
			t.Fatal(err)
		}
		var want []memory.Candidate
		err = view.Vectors(w.model, []int64{cells[0].ID}, func(ref memory.Ref, _ int64, values []float32) error {
			if key := codedCosine(values, q.Vectors[0].Vector); key >= q.Floor {
				want = append(want, memory.Candidate{Ref: ref, Key: key})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(want, memory.Compare)
		truncated := len(want) > q.Depth
		want = want[:min(len(want), q.Depth)]
		q.Approximate = true
		got, err := NewVector(NewMatrices(0), codes).Search(t.Context(), view, q)
		if err != nil || len(got.Degraded) != 1 || got.Degraded[0].Reason != ReasonApproximate || got.Scanned != 80 || got.Truncated != truncated {
			t.Fatalf("%+v, %v", got, err)
		}
		same := slices.EqualFunc(got.Candidates, want, func(a, b memory.Candidate) bool { return a.Ref == b.Ref && math.Abs(a.Key-b.Key) < 1e-6 })
		if !same {
			t.Errorf("got %v, want %v", got.Candidates, want)
		}
		for i, c := range exact.Candidates {
			if i < len(got.Candidates) && math.Abs(c.Key-got.Candidates[i].Key) > 1e-4 {
				differ++
			}
		}
		for _, v := range []*Vector{local, NewVector(NewMatrices(0), silent{codes}), NewVector(NewMatrices(0), down{err: client.ErrUnavailable}), NewVector(NewMatrices(0), down{over: true})} {
			got, err := v.Search(t.Context(), view, q)
			if err != nil || !slices.Equal(got.Candidates, exact.Candidates) || slices.ContainsFunc(got.Degraded, func(d Degradation) bool { return d.Reason != ReasonScanner }) {
				t.Errorf("without an answer of the scanner: %+v, %v", got, err)
			}
		}
	}
	if differ < 20 {
		t.Errorf("only %d keys differ from the exact ones", differ)
	}
}
