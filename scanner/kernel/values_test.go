package kernel

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"recalld/memory"
)

// naiveDot is the definition.
func naiveDot(a, b []byte) int64 {
	var sum int64
	for i := range a {
		sum += int64(int8(a[i])) * int64(int8(b[i]))
	}
	return sum
}

// Components of every kind: small ones, and those at which an instruction could
// saturate or overflow.
func components(r *rand.Rand, n int, kind string) []byte {
	b := random(r, n)
	for i := range b {
		switch kind {
		case "least":
			b[i] = 0x80
		case "most":
			b[i] = 0x7f
		case "extremes":
			b[i] = 0x7f + b[i]&1
		}
	}
	return b
}

// DECISIONS 22: dot products and norms are exact and equal on every path.
func TestDotsAndNormsAreExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 4))
		v := Values{Dims: rapid.SampledFrom([]int{1, 3, 15, 16, 17, 31, 32, 63, 64, 65, 100, 127, 128, 129, 256, 384, 1000, 1024}).Draw(rt, "dims")}
		v.Stride = v.Dims + rapid.SampledFrom([]int{0, 1, 8, 61}).Draw(rt, "gap")
		rows := rapid.IntRange(1, 60).Draw(rt, "rows")
		kind := rapid.SampledFrom([]string{"any", "least", "most", "extremes"})
		v.Data = components(r, (rows-1)*v.Stride+v.Dims, kind.Draw(rt, "row components"))
		query := components(r, v.Dims, kind.Draw(rt, "query components"))
		list := make([]uint32, rapid.IntRange(0, 100).Draw(rt, "list"))
		for i := range list {
			list[i] = uint32(r.IntN(rows))
		}
		got := make([]int32, len(list))
		for _, p := range Paths() {
			if err := v.Dots(p, list, query, got); err != nil {
				rt.Fatal(err)
			}
			for i, row := range list {
				if want := naiveDot(v.Data[int(row)*v.Stride:][:v.Dims], query); int64(got[i]) != want {
					rt.Fatalf("%s: dot of row %d is %d, want %d", p, row, got[i], want)
				}
			}
			if err := v.Norms(p, list, got); err != nil {
				rt.Fatal(err)
			}
			for i, row := range list {
				x := v.Data[int(row)*v.Stride:][:v.Dims]
				if want := naiveDot(x, x); int64(got[i]) != want {
					rt.Fatalf("%s: norm of row %d is %d, want %d", p, row, got[i], want)
				}
			}
		}
	})
}

// DECISIONS 22: so are the dot products of several queries with rows that follow
// one another.
func TestDotsTogetherAreExact(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	kinds := []string{"any", "least", "most", "extremes"}
	for i, dims := range []int{1, 3, 15, 16, 17, 31, 63, 64, 65, 100, 128, 384, 1000, 1024, 1025, 1040, 2048, 2085} {
		for n := 1; n <= MaxQueries; n++ {
			v := Values{Dims: dims, Stride: dims + []int{0, 1, 8}[n%3]}
			rows := 1 + (i+n)%13
			v.Data = components(r, (rows-1)*v.Stride+v.Dims, kinds[i%4])
			queries := components(r, n*dims, kinds[(i+n)%4])
			from := n % rows
			for _, p := range Paths() {
				got := make([]int32, n*(rows-from))
				v.dotsTogether(p, from, queries, got)
				for j, d := range got {
					q, row := j/(rows-from), from+j%(rows-from)
					if want := naiveDot(v.Data[row*v.Stride:][:dims], queries[q*dims:][:dims]); int64(d) != want {
						t.Fatalf("%s, %d components: dot of row %d and query %d of %d is %d, want %d", p, dims, row, q, n, d, want)
					}
				}
			}
		}
	}
}

// DECISIONS 22: the longest rows stay within 32 bits.
func TestLongestRowsDoNotOverflow(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, kind := range []string{"least", "most", "extremes"} {
		v := Values{Dims: MaxDims, Stride: MaxDims, Data: components(r, MaxDims, kind)}
		query := components(r, MaxDims, "least")
		got := make([]int32, 1)
		for _, p := range Paths() {
			if err := v.Dots(p, []uint32{0}, query, got); err != nil || int64(got[0]) != naiveDot(v.Data, query) {
				t.Errorf("%s, %s: got %d, %v", p, kind, got[0], err)
			}
			if err := v.Norms(p, []uint32{0}, got); err != nil || int64(got[0]) != naiveDot(v.Data, v.Data) {
				t.Errorf("%s, %s: norm %d, %v", p, kind, got[0], err)
			}
			both := make([]int32, 2)
			if v.dotsTogether(p, 0, slices.Concat(v.Data, query), both); int64(both[0]) != naiveDot(v.Data, v.Data) || int64(both[1]) != naiveDot(v.Data, query) {
				t.Errorf("%s, %s: together %d", p, kind, both)
			}
		}
	}
}

func TestValuesThatDoNotFitAreRefused(t *testing.T) {
	good := Values{Dims: 4, Stride: 8, Data: make([]byte, 20)}
	if good.Rows() != 3 {
		t.Errorf("%d rows", good.Rows())
	}
	for name, try := range map[string]func() error{
		"no components":         func() error { return Values{Stride: 1}.Dots(Go, nil, nil, nil) },
		"too many components":   func() error { return Values{Dims: MaxDims + 1, Stride: MaxDims + 1}.Dots(Go, nil, nil, nil) },
		"rows that overlap":     func() error { return Values{Dims: 4, Stride: 3}.Dots(Go, nil, make([]byte, 4), nil) },
		"short query":           func() error { return good.Dots(Go, nil, make([]byte, 3), nil) },
		"row behind the last":   func() error { return good.Dots(Go, []uint32{3}, make([]byte, 4), make([]int32, 1)) },
		"no room for a result":  func() error { return good.Dots(Go, []uint32{0}, make([]byte, 4), nil) },
		"norm behind the last":  func() error { return good.Norms(Best(), []uint32{3}, make([]int32, 1)) },
		"path of another world": func() error { return good.Norms(NEON+1, nil, nil) },
	} {
		var field *memory.FieldError
		if err := try(); !errors.As(err, &field) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// quantised returns unit vectors, some of them nearly alike, as a bound scan
// reads them.
func quantised(r *rand.Rand, rows, dims int) (vectors [][]float64, v Values, scale, errs []float32) {
	v = Values{Dims: dims, Stride: dims, Data: make([]byte, rows*dims)}
	scale, errs = make([]float32, rows), make([]float32, rows)
	for row := range rows {
		x := make([]float64, dims)
		if row > 0 && r.IntN(3) == 0 {
			copy(x, vectors[r.IntN(row)])
		}
		for i := range x {
			x[i] += r.NormFloat64() * .02
		}
		code, s, e := quantise(x)
		vectors = append(vectors, x)
		copy(v.Data[row*dims:], code)
		scale[row], errs[row] = float32(s), math.Nextafter32(float32(e), 1)
	}
	return vectors, v, scale, errs
}

// quantise makes x a unit vector and returns its bytes, their scale, and the
// length of what they leave out.
func quantise(x []float64) (code []byte, scale, off float64) {
	var norm, most float64
	for _, c := range x {
		norm += c * c
	}
	for i := range x {
		x[i] /= math.Sqrt(norm)
		most = max(most, math.Abs(x[i]))
	}
	scale = float64(float32(most / 127))
	code = make([]byte, len(x))
	for i, c := range x {
		n := math.Round(c / scale)
		code[i] = byte(int8(n))
		off += (c - n*scale) * (c - n*scale)
	}
	return code, scale, math.Sqrt(off) + 1e-7
}

// DECISIONS 20: no row that float arithmetic would choose is missing, on any path,
// with any number of threads and tiles; and all agree on what could be.
func TestBoundScanKeepsTheBest(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 5))
		rows, dims := rapid.IntRange(1, 1500).Draw(rt, "rows"), rapid.SampledFrom([]int{8, 17, 64}).Draw(rt, "dims")
		vectors, v, scale, errs := quantised(r, rows, dims)
		job := BoundJob{Values: v, Scale: scale, Error: errs}
		asked := make([][]float64, rapid.IntRange(1, MaxQueries).Draw(rt, "queries"))
		for i := range asked {
			asked[i] = slices.Clone(vectors[r.IntN(rows)])
			for j := range asked[i] {
				asked[i][j] += r.NormFloat64() * .02
			}
			code, s, e := quantise(asked[i])
			job.Queries = append(job.Queries, BoundQuery{Code: code, Scale: s, Error: e, K: rapid.SampledFrom([]int{1, 10, 200}).Draw(rt, "k")})
		}
		job.From = r.IntN(rows)
		job.To = job.From + r.IntN(rows-job.From+1)
		if rapid.Bool().Draw(rt, "some dead") {
			job.Live = NewLive(rows)
			for row := range rows {
				if r.IntN(3) == 0 {
					job.Live.Clear(row)
				}
			}
		}
		threads, tile := rapid.IntRange(1, 3).Draw(rt, "threads"), rapid.SampledFrom([]int{1, 100, TileRows}).Draw(rt, "tile")
		var got [][]Candidate
		for _, job.Path = range Paths() {
			var err error
			if got, err = boundScans(context.Background(), &job, threads, tile); err != nil {
				rt.Fatal(err)
			}
			for i, q := range job.Queries {
				if want := bounded(job, q); !slices.Equal(got[i], want) {
					rt.Fatalf("%s, query %d: got %v, want %v", job.Path, i, got[i], want)
				}
			}
		}
		for i, w := range asked {
			for _, row := range nearest(vectors, w, job, job.Queries[i].K) {
				if !slices.ContainsFunc(got[i], func(c Candidate) bool { return int(c.Row) == row }) {
					rt.Fatalf("row %d is among the best of query %d and missing", row, i)
				}
			}
		}
	})
}

// DECISIONS 20: what one query has found is nothing to another of the same pass,
// and each finds what it finds alone.
func TestBoundScansAnswerEachQuery(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	vectors, v, scale, errs := quantised(r, 1500, 17)
	job := BoundJob{Values: v, To: 1500, Scale: scale, Error: errs}
	for i := range MaxQueries {
		w := slices.Clone(vectors[i*i]) // near to some rows, and further from all of them the later it comes
		for j := range w {
			w[j] += r.NormFloat64() * .2 * float64(i)
		}
		code, s, e := quantise(w)
		job.Queries = append(job.Queries, BoundQuery{Code: code, Scale: s, Error: e, K: 1 + 7*i})
	}
	for _, job.Path = range Paths() {
		for n := 1; n <= MaxQueries; n++ {
			some := job
			some.Queries = job.Queries[MaxQueries-n:]
			got, err := boundScans(context.Background(), &some, 1, 100)
			if err != nil || len(got) != n {
				t.Fatalf("got %v, %v", got, err)
			}
			for i, q := range some.Queries {
				if want := bounded(job, q); !slices.Equal(got[i], want) {
					t.Errorf("%s, query %d of %d: got %v, want %v", job.Path, i, n, got[i], want)
				}
				alone := job
				alone.Queries = []BoundQuery{q}
				if one, err := BoundScans(context.Background(), alone, 2); err != nil || !slices.Equal(one[0], got[i]) {
					t.Errorf("%s, query %d alone: got %v, %v, want %v", job.Path, i, one, err, got[i])
				}
			}
		}
	}
}

// DECISIONS 20: parts of the rows that share a floor give together every row that
// could be among the best of all, and none that what came before is known to beat.
func TestPartsShareAFloor(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	vectors, v, scale, errs := quantised(r, 1500, 17)
	code, s, e := quantise(vectors[100]) // of the first part
	job := BoundJob{Values: v, To: 1500, Scale: scale, Error: errs}
	q := BoundQuery{Code: code, Scale: s, Error: e, K: 1}
	want := bounded(job, q)
	for _, job.Path = range Paths() {
		q.Floor = NewFloor()
		job.Queries = []BoundQuery{q}
		var got []Candidate
		floor := math.Inf(-1)
		for _, job.From = range []int{0, 500, 1000} {
			job.To = job.From + 500
			part, err := BoundScans(context.Background(), job, 2)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range part[0] {
				if c.Most < floor {
					t.Errorf("%s: row %d reaches %g, below %g", job.Path, c.Row, c.Most, floor)
				}
			}
			got = append(got, part[0]...)
			least := make([]float64, len(got))
			for i, c := range got {
				least[i] = c.Least
			}
			slices.Sort(least)
			floor = least[len(least)-q.K]
			q.Floor.Lift(floor)
		}
		got = slices.DeleteFunc(got, func(c Candidate) bool { return c.Most < floor })
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", job.Path, got, want)
		}
		q.Floor.Lift(-2)
		if q.Floor.load() != floor {
			t.Errorf("%s: the floor is %g, not %g", job.Path, q.Floor.load(), floor)
		}
	}
}

// bounded is the definition of a bound scan.
func bounded(job BoundJob, q BoundQuery) []Candidate {
	var all []Candidate
	var least []float64
	for row := job.From; row < job.To; row++ {
		if !job.Live.Has(row) {
			continue
		}
		dot := naiveDot(job.Values.Data[row*job.Values.Stride:][:job.Values.Dims], q.Code)
		estimate, e := float64(float64(float64(dot)*float64(job.Scale[row]))*q.Scale), float64(job.Error[row])
		width := e + q.Error + float64(e*q.Error)
		all = append(all, Candidate{Row: uint32(row), Dot: int32(dot), Least: estimate - width, Most: estimate + width})
		least = append(least, estimate-width)
	}
	slices.Sort(least)
	if len(least) < q.K {
		return all
	}
	kth := least[len(least)-q.K]
	return slices.DeleteFunc(all, func(c Candidate) bool { return c.Most < kth })
}

// nearest returns the live rows with the highest cosines.
func nearest(vectors [][]float64, w []float64, job BoundJob, k int) []int {
	type scored struct {
		row    int
		cosine float64
	}
	var all []scored
	for row := job.From; row < job.To; row++ {
		if job.Live.Has(row) {
			var sum float64
			for i := range w {
				sum += w[i] * vectors[row][i]
			}
			all = append(all, scored{row, sum})
		}
	}
	slices.SortFunc(all, func(a, b scored) int { return cmp.Compare(b.cosine, a.cosine) })
	var rows []int
	for _, s := range all[:min(k, len(all))] {
		rows = append(rows, s.row)
	}
	return rows
}

// DECISIONS 20: a row of unknown error is kept, and shuts out nothing.
func TestUnknownErrorsKeepRows(t *testing.T) {
	nan := float32(math.NaN())
	job := BoundJob{Values: Values{Dims: 1, Stride: 1, Data: []byte{9, 1, 8, 2}}, To: 4, Queries: []BoundQuery{{Code: []byte{1}, Scale: 1, K: 2}},
		Scale: []float32{1, 1, 1, 1}, Error: []float32{nan, .5, .5, nan}}
	got, err := BoundScans(context.Background(), job, 1)
	if err != nil || len(got[0]) != 4 {
		t.Errorf("got %v, %v", got, err)
	}
	// Nor is it passed over for its low product, when others are known to be high.
	const rows, unknown = 4 * boundRows, 3*boundRows + 5
	job = BoundJob{Values: Values{Dims: 1, Stride: 1, Data: make([]byte, rows)}, To: rows, Queries: []BoundQuery{{Code: []byte{1}, Scale: 1, K: 1}},
		Scale: slices.Repeat([]float32{1}, rows), Error: slices.Repeat([]float32{.5}, rows)}
	job.Values.Data[0] = 9
	for what, row := range map[string]struct {
		scale, err float32
		code       byte
	}{"error": {1, nan, 0}, "scale": {nan, .5, 0}, "negative scale": {-1, .5, 0xf7}, "high error": {1, 20, 0}, "high scale": {9, .5, 1}} {
		job.Scale[unknown], job.Error[unknown], job.Values.Data[unknown] = row.scale, row.err, row.code
		got, err := BoundScans(context.Background(), job, 1)
		if err != nil || len(got[0]) != 2 || got[0][0].Row != 0 || got[0][1].Row != unknown {
			t.Errorf("%s: got %v, %v", what, got, err)
		}
	}
}

func TestBoundScanRefusesAndEnds(t *testing.T) {
	one := BoundQuery{Code: make([]byte, 2), K: 1}
	good := func() BoundJob {
		return BoundJob{Values: Values{Dims: 2, Stride: 2, Data: make([]byte, 8)}, To: 4, Queries: []BoundQuery{one}, Scale: make([]float32, 4), Error: make([]float32, 4)}
	}
	for name, spoil := range map[string]func(*BoundJob){
		"components":  func(j *BoundJob) { j.Values.Dims = 0 },
		"range":       func(j *BoundJob) { j.To = 5 },
		"live":        func(j *BoundJob) { j.Live = Live{} },
		"scale":       func(j *BoundJob) { j.Scale = nil },
		"error":       func(j *BoundJob) { j.Error = nil },
		"path":        func(j *BoundJob) { j.Path = NEON + 1 },
		"range order": func(j *BoundJob) { j.From = 5 },
	} {
		job := good()
		spoil(&job)
		var field *memory.FieldError
		if _, err := BoundScans(context.Background(), job, 1); !errors.As(err, &field) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for name, queries := range map[string][]BoundQuery{
		"no queries":       nil,
		"too many queries": slices.Repeat([]BoundQuery{one}, MaxQueries+1),
		"no code":          {{K: 1}},
		"a short query":    {one, {Code: make([]byte, 1), K: 1}},
		"a query's k":      {one, {Code: one.Code}},
	} {
		job := good()
		job.Queries = queries
		var field *memory.FieldError
		if _, err := BoundScans(context.Background(), job, 1); !errors.As(err, &field) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if got, err := BoundScans(ctx, good(), 2); !errors.Is(err, context.Canceled) || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
}
