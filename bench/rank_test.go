package bench

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"recalld/coordinator"
	"recalld/embed"
	"recalld/memory"
)

// What stands behind the rows that were asked for is no hit among the first ten.
func TestReservedRowsAreNotRanked(t *testing.T) {
	rows := []coordinator.Row{{Ref: "mem:3"}, {Ref: "mem:1"}, {Ref: "mem:2", Admission: coordinator.AdmissionReservation}}
	if got := ranked(rows); !slices.Equal(got, []string{"mem:3", "mem:1"}) {
		t.Errorf("ranked %v", got)
	}
}

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

// By hand: ranks 1, 2.5, 2.5, 4 against 1, 3, 2, 4 are correlated by
// 4.5 / sqrt(4.5 * 5).
func TestSpearman(t *testing.T) {
	for _, c := range []struct {
		x, y []float64
		want float64
	}{
		{[]float64{.1, .5, .5, .9}, []float64{0, 4, 3, 5}, 4.5 / math.Sqrt(4.5*5)},
		{[]float64{1, 2, 3}, []float64{10, 100, 1_000}, 1},
		{[]float64{1, 2, 3}, []float64{3, 2, 1}, -1},
		{[]float64{1, 1, 1}, []float64{3, 2, 1}, 0},
	} {
		if got := Spearman(c.x, c.y); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v and %v: %v, want %v", c.x, c.y, got, c.want)
		}
	}
}

// The built-in model is measured over a file of pairs, and puts three plain ones
// in the judged order; a file without pairs is refused.
func TestSimilarityAndEmbedding(t *testing.T) {
	m, err := embed.Open(embed.Config{Backend: "static"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	path := filepath.Join(t.TempDir(), "pairs.jsonl")
	lines := `{"a":"猫が窓辺で寝ている。","b":"窓のそばで猫が眠っている。","score":4.6}
{"a":"猫が窓辺で寝ている。","b":"犬が庭を走っている。","score":1.5}
{"a":"猫が窓辺で寝ている。","b":"決算報告書は来週提出します。","score":0}
`
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := Similarity(t.Context(), m, path, nil)
	if err != nil || report.Spearman != 1 || report.Pairs != 3 || report.Model != "static/static-e5-v2" {
		t.Errorf("%+v, %v", report, err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Similarity(t.Context(), m, path, nil); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("an empty file: %v", err)
	}
	rates, err := Embedding(t.Context(), m, EmbedOptions{Texts: 50, Clock: time.Now})
	if err != nil || len(rates.Lengths) != len(embedLengths()) || rates.Dims != 256 || rates.Lengths[0].Texts != 50 || rates.Lengths[0].PerSecond <= 0 {
		t.Errorf("%+v, %v", rates, err)
	}
	for _, length := range embedLengths() {
		if texts := embedTexts(7, 3, length); memory.Len(texts[2]) != length || texts[0] == texts[1] {
			t.Errorf("texts of %d code points: %q", length, texts)
		}
	}
}
