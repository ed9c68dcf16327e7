package bench

import (
	"context"
	"math"
	"slices"
)

// FidelityAngles are the angles between queries and rows, at the largest size, by
// what the rows are to the query: its nearest, the nine after that, all others.
type FidelityAngles struct {
	Nearest FidelitySpread `json:"nearest"`
	Ten     FidelitySpread `json:"second_to_tenth"`
	Others  FidelitySpread `json:"others"`
}

// FidelitySpread describes a distribution, in degrees to a tenth.
type FidelitySpread struct {
	Mean float64 `json:"mean"`
	P1   float64 `json:"p1"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	low  [3600]int64
	n    int64
	sum  float64
}

// FidelityBin holds the pairs whose true angle is from From to below To degrees:
// how far off the guesses are in the mean, how they scatter, and how signs of
// independent random hyperplanes would scatter.
type FidelityBin struct {
	From    int     `json:"from"`
	To      int     `json:"to"`
	Pairs   int64   `json:"pairs"`
	Bias    float64 `json:"bias"`
	Scatter float64 `json:"scatter"`
	Random  float64 `json:"scatter_of_random,omitempty"`
	sum     float64
	squares float64
	chance  float64
}

const binDegrees = 10

// add counts a guess; what is out of range counts at the ends.
func (s *FidelitySpread) add(angle float32) {
	s.n++
	s.sum += float64(angle)
	s.low[max(0, min(len(s.low)-1, int(float32(angle*10))))]++
}

func (s *FidelitySpread) close() {
	if s.n == 0 {
		return
	}
	s.Mean = hundredths(s.sum / float64(s.n))
	at := func(share float64) float64 {
		want, seen := int64(math.Ceil(float64(share*float64(s.n)))), int64(0)
		for i, n := range s.low {
			if seen += n; seen >= want {
				return float64(i) / 10
			}
		}
		return 180
	}
	s.P1, s.P50, s.P99 = at(.01), at(.5), at(.99)
}

func hundredths(x float64) float64 { return math.Round(float64(x*100)) / 100 }

func (a *FidelityAngles) of(rank int) *FidelitySpread {
	switch {
	case rank == 0:
		return &a.Nearest
	case rank > 0:
		return &a.Ten
	}
	return &a.Others
}

func (a *FidelityAngles) close() {
	for _, s := range []*FidelitySpread{&a.Nearest, &a.Ten, &a.Others} {
		s.close()
	}
}

// compareCodes writes every code of the rows and asks it every query.
func compareCodes(ctx context.Context, rows, queries [][]float32, step func(int)) (*FidelityReport, error) {
	dims := len(rows[0])
	report := &FidelityReport{Dims: dims, Rows: len(rows), Queries: len(queries), Sizes: fidelitySizes(len(rows))}
	codes := fidelityCodes(dims)
	turn := directions(dims, slices.Max(fidelityWidths(dims)), fidelitySeed)
	for i, v := range rows {
		if i%embedChunk == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		f := formsOf(turn, v)
		for _, c := range codes {
			c.code.add(f)
		}
	}
	ranks := make([][][]int, len(codes)) // by code and size: of all true neighbours
	for i, c := range codes {
		report.Codes = append(report.Codes, FidelityCode{Name: c.name, Bytes: c.code.bytes(), Bins: make([]FidelityBin, 180/binDegrees)})
		ranks[i] = make([][]int, len(report.Sizes))
	}
	truth, guess := make([]float32, len(rows)), make([]float32, len(rows))
	for _, q := range queries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for r, v := range rows {
			truth[r] = degrees(dot(q, v))
		}
		var tops [][]int
		for _, n := range report.Sizes {
			tops = append(tops, nearest(truth[:n], fidelityTop))
		}
		last := tops[len(tops)-1]
		for r, angle := range truth {
			report.Angles.of(slices.Index(last, r)).add(angle)
		}
		f := formsOf(turn, q)
		for i, c := range codes {
			c.code.angles(f, guess)
			for s, n := range report.Sizes {
				ranks[i][s] = append(ranks[i][s], ranksOf(guess[:n], tops[s])...)
			}
			report.Codes[i].count(truth, guess, last)
		}
		step(1)
	}
	report.Angles.close()
	for i, c := range codes {
		signs, _ := c.code.(*signCode)
		report.Codes[i].close(signs, report.Sizes, ranks[i])
	}
	return report, nil
}

// nearest returns the k rows with the smallest angles, ties in row order.
func nearest(angles []float32, k int) []int {
	var top []int
	for r, angle := range angles {
		if len(top) == k && angle >= angles[top[k-1]] {
			continue
		}
		at := len(top)
		for at > 0 && angle < angles[top[at-1]] {
			at--
		}
		if top = slices.Insert(top, at, r); len(top) > k {
			top = top[:k]
		}
	}
	return top
}

// ranksOf returns the places, from 1, that rows have in the order of angles, ties
// in row order.
func ranksOf(angles []float32, rows []int) []int {
	ranks := make([]int, len(rows))
	for i, row := range rows {
		mine := angles[row]
		before := 0
		for _, a := range angles[:row] {
			if a <= mine {
				before++
			}
		}
		for _, a := range angles[row:] {
			if a < mine {
				before++
			}
		}
		ranks[i] = before + 1
	}
	return ranks
}

// count adds a query's guesses to the distributions.
func (c *FidelityCode) count(truth, guess []float32, top []int) {
	for r, angle := range truth {
		c.Guesses.of(slices.Index(top, r)).add(guess[r])
		b := &c.Bins[min(len(c.Bins)-1, int(angle/binDegrees))]
		off := float64(guess[r]) - float64(angle)
		b.Pairs++
		b.sum += off
		b.squares += float64(off * off)
		p := float64(angle) / 180
		b.chance += float64(p * (1 - p))
	}
}

func (c *FidelityCode) close(signs *signCode, sizes []int, ranks [][]int) {
	c.Guesses.close()
	var bins []FidelityBin
	for i, b := range c.Bins {
		if b.Pairs == 0 {
			continue
		}
		n := float64(b.Pairs)
		mean := b.sum / n
		b.From, b.To = i*binDegrees, (i+1)*binDegrees
		b.Bias, b.Scatter = hundredths(mean), hundredths(math.Sqrt(max(0, b.squares/n-float64(mean*mean))))
		if signs != nil {
			b.Random = hundredths(float64(180 * math.Sqrt(b.chance/n/float64(signs.width))))
		}
		bins = append(bins, b)
	}
	c.Bins = bins
	for i, n := range sizes {
		c.Depths = append(c.Depths, depthOf(n, ranks[i]))
	}
}

// depthOf sorts the ranks.
func depthOf(rows int, ranks []int) FidelityDepth {
	slices.Sort(ranks)
	keep := func(percent int) int { return ranks[(len(ranks)*percent+99)/100-1] }
	kept := func(depth int) float64 {
		n, _ := slices.BinarySearch(ranks, depth+1)
		return round(float64(n) / float64(len(ranks)))
	}
	return FidelityDepth{Rows: rows, Keep90: keep(90), Keep95: keep(95), Keep99: keep(99), At50: kept(50), At200: kept(200)}
}
