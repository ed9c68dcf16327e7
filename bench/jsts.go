package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"recalld/coordinator"
	"recalld/embed"
	"recalld/memory"
)

// Pair is a line of a file of judged sentence pairs, such as the validation split
// of JSTS (Kurihara et al. 2022, JGLUE): two texts and how alike people found
// them.
type Pair struct {
	A     string  `json:"a"`
	B     string  `json:"b"`
	Score float64 `json:"score"`
}

// SimilarityReport is Spearman's rank correlation of the cosine with the judged
// similarity, both texts embedded as documents.
type SimilarityReport struct {
	Spearman     float64 `json:"spearman"`
	Pairs        int     `json:"pairs"`
	Unembeddable int     `json:"unembeddable,omitempty"` // pairs left out
	Model        string  `json:"model"`
	Machine      Machine `json:"machine"`
}

// Similarity embeds every pair of the file and compares.
func Similarity(ctx context.Context, m embed.Model, path string, progress coordinator.Progress) (*SimilarityReport, error) {
	pairs, err := readPairs(path)
	if err != nil {
		return nil, missing("--path", "a file of sentence pairs", err)
	}
	var cosines, scores []float64
	report := &SimilarityReport{}
	for chunk := range slices.Chunk(pairs, 128) {
		var texts []string
		for _, p := range chunk {
			texts = append(texts, p.A, p.B)
		}
		vectors, err := m.Embed(ctx, embed.Document, texts)
		if err != nil {
			return nil, err
		}
		for i, p := range chunk {
			a, b := vectors[2*i], vectors[2*i+1]
			if a == nil || b == nil {
				report.Unembeddable++
				continue
			}
			cosines, scores = append(cosines, dot(a, b)), append(scores, p.Score)
		}
		if progress != nil {
			progress(int64(len(cosines)), int64(len(pairs)))
		}
	}
	if len(cosines) < 2 {
		return nil, &memory.FieldError{Field: "path", Problem: fmt.Sprintf("holds %d usable pairs", len(cosines)), Limit: "at least 2", Next: "name a file of sentence pairs"}
	}
	report.Pairs, report.Spearman = len(cosines), round(Spearman(cosines, scores))
	report.Model, err = nameOf(ctx, m)
	return report, err
}

func nameOf(ctx context.Context, m embed.Model) (string, error) {
	id, err := m.Identity(ctx)
	if err != nil {
		return "", err
	}
	return id.Backend + "/" + id.Name, nil
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(float64(a[i]) * float64(b[i]))
	}
	return sum
}

func readPairs(path string) ([]Pair, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read pairs: %w", err)
	}
	defer f.Close()
	d := json.NewDecoder(bufio.NewReader(f))
	var pairs []Pair
	for {
		var p Pair
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return pairs, nil
		case err != nil:
			return nil, fmt.Errorf("read pairs: number %d: %w", len(pairs)+1, err)
		}
		pairs = append(pairs, p)
	}
}

// Spearman is the rank correlation of two series of one length: Pearson's of
// their ranks, equal values sharing the mean of theirs. It is 0 when either does
// not vary.
func Spearman(x, y []float64) float64 {
	return pearson(ranks(x), ranks(y))
}

func ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case x[a] < x[b]:
			return -1
		case x[a] > x[b]:
			return 1
		}
		return 0
	})
	out := make([]float64, len(x))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && x[order[j]] == x[order[i]] {
			j++
		}
		for _, at := range order[i:j] {
			out[at] = float64(i+j-1)/2 + 1
		}
		i = j
	}
	return out
}

func pearson(x, y []float64) float64 {
	var mx, my float64
	for i := range x {
		mx += x[i]
		my += y[i]
	}
	n := float64(len(x))
	mx, my = mx/n, my/n
	var xy, xx, yy float64
	for i := range x {
		dx, dy := x[i]-mx, y[i]-my
		xy += float64(dx * dy)
		xx += float64(dx * dx)
		yy += float64(dy * dy)
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return xy / math.Sqrt(float64(xx*yy))
}
