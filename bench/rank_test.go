package bench

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"recalld/memory"
)

// By hand: relevant at ranks 1 and 3 of 3 relevant items is (1 + 1/2) over
// (1 + 1/log2(3) + 1/2).
func TestNDCG(t *testing.T) {
	relevant := map[string]bool{"a": true, "b": true, "c": true}
	for _, c := range []struct {
		ranking []string
		k       int
		want    float64
	}{
		{[]string{"a", "x", "b"}, 10, 1.5 / (1.5 + 1/math.Log2(3))},
		{[]string{"c", "b", "a"}, 10, 1},
		{[]string{"x", "a", "b", "c"}, 1, 0},
		{[]string{"a"}, 1, 1},
		{nil, 10, 0},
	} {
		if got := NDCG(c.ranking, relevant, c.k); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v at %d: %v, want %v", c.ranking, c.k, got, c.want)
		}
	}
	if got := NDCG([]string{"a"}, nil, 10); got != 0 {
		t.Errorf("nothing is relevant: %v", got)
	}
}

func TestFirstHit(t *testing.T) {
	for want, ranking := range map[int][]string{0: {"x", "y"}, 1: {"a", "b"}, 3: {"x", "y", "b"}} {
		if got := FirstHit(ranking, map[string]bool{"a": true, "b": true}); got != want {
			t.Errorf("%v: %d, want %d", ranking, got, want)
		}
	}
}

// The nearest rank: the smallest value that at least the share q is not above.
func TestQuantile(t *testing.T) {
	var d []time.Duration
	for i := range 20 {
		d = append(d, time.Duration(20-i)*time.Millisecond)
	}
	for q, want := range map[float64]float64{.5: 10, .95: 19, .951: 20, 1: 20, 0: 1} {
		if got := Quantile(d, q); got != want {
			t.Errorf("%v: %v ms, want %v", q, got, want)
		}
	}
	if got := Quantile(nil, .5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// Numbers that nothing can be measured with are refused by name before anything
// is opened.
func TestImpossibleNumbersAreRefused(t *testing.T) {
	folder := t.TempDir()
	lexical := func(records, own, questions int) error {
		_, err := Lexical(t.Context(), LexicalOptions{Folder: folder, Crowd: records, Own: own, Questions: questions, Clock: time.Now})
		return err
	}
	store := func(records, clients int) error {
		_, err := Store(t.Context(), StoreOptions{Folder: folder, Records: records, Clients: clients, Clock: time.Now})
		return err
	}
	for _, c := range []struct {
		field string
		err   error
	}{
		{"records", lexical(0, 1, 1)}, {"own", lexical(1, -1, 1)}, {"questions", lexical(1, 1, 0)},
		{"records", store(0, 1)}, {"clients", store(1, -1)},
	} {
		var refused *memory.FieldError
		if !errors.As(c.err, &refused) || refused.Field != c.field || refused.Limit == "" || refused.Next == "" {
			t.Errorf("%s: %v", c.field, c.err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A whole run of the lexical bench at the smallest scale: the agent's answers
// are the same beside others, and the keywords of both languages are found.
func TestLexicalBenchAtTheSmallestScale(t *testing.T) {
	report, err := Lexical(t.Context(), LexicalOptions{Folder: t.TempDir(), Crowd: 300, Own: 40, Questions: 5, Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if !report.Own.SameRows || report.Own.PostingsAlone == 0 || report.Own.PostingsAlone != report.Own.PostingsBeside || report.Index == 0 || report.Text == 0 {
		t.Errorf("%+v", report)
	}
	if got := fmt.Sprint(report.Japanese >= .99, report.Chinese >= .99); got != "true true" {
		t.Errorf("keywords: Japanese %v, Chinese %v", report.Japanese, report.Chinese)
	}
}
