package lexical

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"recalld/memory"
)

// TestLog2IsTheLogarithm compares with the library's, which is near enough to
// check but may differ between processors.
func TestLog2IsTheLogarithm(t *testing.T) {
	for n := range uint64(64) {
		if got := log2(1 << n); got != n<<logBits {
			t.Errorf("log2(2^%d) = %d/2^32", n, got)
		}
	}
	for n, want := range map[uint64]uint64{3: 6807362105, 10: 14267572527, 1_000_003: 85605453752} {
		if got := log2(n); got != want {
			t.Errorf("log2(%d) = %d/2^32, want %d", n, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(1, 1<<40).Draw(t, "n")
		if got, want := float64(log2(n))/(1<<logBits), math.Log2(float64(n)); math.Abs(got-want) > 1e-8 {
			t.Fatalf("log2(%d) = %.12f, want %.12f", n, got, want)
		}
	})
}

// TestWorkedExample holds the numbers of docs/lexical.md, which were computed by
// hand.
//
// RT-098, DECISIONS 16: statistics of the scope, constants as decided.
func TestWorkedExample(t *testing.T) {
	s := statistics{rows: 3, length: 8}
	if got := s.weight(1); got != 92735 { // log2(8/3) = 1.41504 bits
		t.Errorf("a term in one of three rows weighs %d", got)
	}
	if got := s.curve().damp(46); math.Abs(got-7.9875) > 1e-12 {
		t.Errorf("a row of length 46 is damped by %v", got)
	}
	x := NewIndex(seal(t,
		Doc{Cell: 1, Ref: mem(1), Session: "s", Text: "Ann: Did you repair the kettle?"},
		Doc{Cell: 1, Ref: mem(2), Session: "s", Text: "Bo: Yesterday, yes."},
		Doc{Cell: 1, Ref: mem(3), Session: "s", Text: "Ann: Good."}))
	hits := mustSearch(t, x, Query{Text: "repair the kettle", Cells: []Cell{1}, Kind: memory.KindMemory, K: 9}).Hits
	want := []Hit{{Ref: mem(1), Score: 2 * 51555}, {Ref: mem(2), Score: 2 * 30373}, {Ref: mem(3), Score: 2 * 19446}}
	if !equalHits(hits, want) {
		t.Errorf("hits %v, want %v", hits, want)
	}
}

// TestBoundsAreAboveAllTheyBound holds what pruning rests on.
//
// DECISIONS 2
func TestBoundsAreAboveAllTheyBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := statistics{rows: rapid.Uint64Range(1, 1<<32).Draw(t, "rows")}
		s.length = rapid.Uint64Range(0, 1<<40).Draw(t, "length")
		c := s.curve()
		w := s.weight(rapid.Uint64Range(1, s.rows).Draw(t, "df"))
		highest := rapid.Uint32Range(1, shareAll*maxFrequency).Draw(t, "highest")
		f := rapid.Uint32Range(1, highest).Draw(t, "frequency")
		length := rapid.Uint32Range(f, 1<<24).Draw(t, "row length")
		if got, bound := contribution(w, f, c.damp(length)), c.bound(w, highest); got >= bound {
			t.Fatalf("contribution %d is not below the bound %d", got, bound)
		}
	})
}
