package fusion

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"recalld/memory"
)

func mem(id int64) memory.Ref { return memory.Ref{Kind: memory.KindMemory, ID: id} }
func ep(id int64) memory.Ref  { return memory.Ref{Kind: memory.KindEpisode, ID: id} }

func ranking(arm string, weight float64, keys map[memory.Ref]float64) Ranking {
	r := Ranking{Arm: arm, Weight: weight}
	for ref, key := range keys {
		r.Candidates = append(r.Candidates, memory.Candidate{Ref: ref, Key: key})
	}
	slices.SortFunc(r.Candidates, memory.Compare)
	return r
}

func expect(t *testing.T, got []Row, refs []memory.Ref, scores []float64) {
	t.Helper()
	if len(got) != len(refs) {
		t.Fatalf("got %d rows, want %d", len(got), len(refs))
	}
	for i, row := range got {
		if row.Ref != refs[i] || math.Abs(row.Score-scores[i]) > 1e-12 {
			t.Errorf("place %d: got %v %.6f, want %v %.6f", i+1, row.Ref, row.Score, refs[i], scores[i])
		}
	}
}

// RR-405: mem:1 is 1st and 3rd, mem:2 is 2nd and 1st, ep:1 is 3rd, mem:3 is 2nd.
func TestReciprocalRankByHand(t *testing.T) {
	a := ranking("vector", 1, map[memory.Ref]float64{mem(1): .9, mem(2): .8, ep(1): .7})
	b := ranking("fts", 1, map[memory.Ref]float64{mem(2): 12, mem(3): 11, mem(1): 10})
	got := Fuse(ReciprocalRank, 60, []Ranking{a, b})
	expect(t, got,
		[]memory.Ref{mem(2), mem(1), mem(3), ep(1)},
		[]float64{1.0/62 + 1.0/61, 1.0/61 + 1.0/63, 1.0 / 62, 1.0 / 63})
}

// RR-406: each arm scaled by itself, summed, divided by the two arms that
// returned anything; the third, empty arm does not count.
func TestConvexByHand(t *testing.T) {
	a := ranking("vector", 1, map[memory.Ref]float64{mem(1): .9, mem(2): .7, mem(3): .5})
	b := ranking("fts", 1, map[memory.Ref]float64{mem(2): 10, mem(1): 4, ep(9): 6})
	got := Fuse(Convex, 60, []Ranking{a, b, {Arm: "fts_episode", Weight: 1}})
	expect(t, got,
		[]memory.Ref{mem(2), mem(1), ep(9), mem(3)},
		[]float64{(.5 + 1) / 2, (1 + 0) / 2.0, (2.0 / 6) / 2, 0})
}

// RR-406: all equal gives 1, all missing gives 1; RR-085: weights are shares.
func TestConvexEqualMissingAndWeighted(t *testing.T) {
	equal := ranking("vector", 3, map[memory.Ref]float64{mem(1): .5, mem(2): .5})
	missing := ranking("keyword", 1, map[memory.Ref]float64{mem(2): 1000, mem(3): 2000})
	missing.Unscored = true
	got := Fuse(Convex, 60, []Ranking{equal, missing})
	expect(t, got,
		[]memory.Ref{mem(2), mem(1), mem(3)},
		[]float64{1, .75, .25})
}

// RR-402, RR-224: rows that only recency orders come newest first; every other
// tie ends in the total order, episodes before memories, lower ids first.
func TestTiesEndInTheTotalOrder(t *testing.T) {
	recent := ranking("keyword", 1, map[memory.Ref]float64{mem(1): 10, mem(2): 30, mem(3): 20})
	recent.Unscored = true
	expect(t, Fuse(Convex, 60, []Ranking{recent}), []memory.Ref{mem(2), mem(3), mem(1)}, []float64{1, 1, 1})

	tie := ranking("vector", 1, map[memory.Ref]float64{mem(7): .4, mem(2): .4, ep(9): .4})
	expect(t, Fuse(Convex, 60, []Ranking{tie}), []memory.Ref{ep(9), mem(2), mem(7)}, []float64{1, 1, 1})
}

// RR-406, DECISIONS 2: whatever the arms say, every candidate comes out once,
// scores stay inside 0..1, order is total, and a shared factor on all weights
// changes nothing but the last bits.
func TestFusionProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		arms := rapid.IntRange(0, 4).Draw(t, "arms")
		var rankings []Ranking
		all := map[memory.Ref]bool{}
		for range arms {
			keys := map[memory.Ref]float64{}
			for range rapid.IntRange(0, 12).Draw(t, "rows") {
				ref := memory.Ref{Kind: memory.Kind(rapid.IntRange(1, 2).Draw(t, "kind")), ID: rapid.Int64Range(1, 9).Draw(t, "id")}
				keys[ref] = float64(rapid.IntRange(-4, 4).Draw(t, "key")) / 4
				all[ref] = true
			}
			r := ranking("arm", float64(rapid.IntRange(1, 5).Draw(t, "weight")), keys)
			r.Unscored = rapid.Bool().Draw(t, "unscored")
			rankings = append(rankings, r)
		}
		mode := rapid.SampledFrom([]Mode{Convex, ReciprocalRank}).Draw(t, "mode")
		got := Fuse(mode, DefaultK, rankings)
		if len(got) != len(all) {
			t.Fatalf("%d rows from %d candidates", len(got), len(all))
		}
		for i, row := range got {
			if mode == Convex && (row.Score < 0 || row.Score > 1+1e-12) {
				t.Fatalf("score %v outside 0..1", row.Score)
			}
			if len(row.Votes) == 0 {
				t.Fatalf("row %v without a vote", row.Ref)
			}
			if i > 0 && Compare(got[i-1], row) >= 0 {
				t.Fatalf("place %d is not after place %d", i+1, i)
			}
		}
	})
}

// DECISIONS 18: memories and episodes found by the same words are measured in
// the same bits: a weak episode does not reach the top for being alone, and a row
// that leads every arm it can be in scores 1.
func TestArmsOfOneScaleAreScaledTogether(t *testing.T) {
	words := Ranking{Arm: "lexical_memory", Weight: .7, Scale: "bits", Candidates: []memory.Candidate{{Ref: mem(1), Key: 21}, {Ref: mem(2), Key: 11}}}
	episodes := Ranking{Arm: "lexical_episode", Weight: .7, Scale: "bits", Candidates: []memory.Candidate{{Ref: ep(9), Key: 3}, {Ref: ep(8), Key: 1}}}
	vectors := Ranking{Arm: "vector", Weight: .3, Candidates: []memory.Candidate{{Ref: mem(1), Key: .9}, {Ref: ep(9), Key: .5}}}
	expect(t, Fuse(Convex, 60, []Ranking{vectors, words, episodes}),
		[]memory.Ref{mem(1), mem(2), ep(9), ep(8)}, []float64{1, .7 * .5, .7 * .1, 0})
	episodes.Scale = ""
	expect(t, Fuse(Convex, 60, []Ranking{words, episodes}), []memory.Ref{ep(9), mem(1), ep(8), mem(2)}, []float64{.5, .5, 0, 0})
}
