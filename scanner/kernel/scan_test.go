package kernel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"recalld/memory"
)

// answer scans with one path and compares nothing.
func answer(t interface {
	Helper()
	Fatal(...any)
}, job Job, threads, tileRows int) []Answer {
	t.Helper()
	s, err := New(job)
	if err != nil {
		t.Fatal(err)
	}
	if tileRows > 0 {
		s.tileRows = tileRows
	}
	if err := s.Run(context.Background(), threads); err != nil {
		t.Fatal(err)
	}
	return s.Answers()
}

func same(a, b Answer) bool {
	return slices.Equal(a.Rows, b.Rows) && slices.Equal(a.Parents, b.Parents)
}

// BR-032, DECISIONS 2: every path, width, tail and pattern of ties.
func TestEveryPathEqualsTheOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const k = 200
	lengths := []int{0, 1, 7, 8, 9, 63, 64, 65, k - 1, k, k + 1, 255, 256, 257, 1100}
	for _, width := range widths {
		query := Query{Code: random(r, width/8), Rows: k}
		check := func(name string, m Matrix, from int) {
			q := question{matrix: m, from: from, to: m.Rows(), query: query, starts: Starts{0, uint32(m.Rows())}}
			want := oracle(q)
			for _, path := range Paths() {
				got := answer(t, Job{Matrix: m, From: from, To: q.to, Queries: []Query{query}, Path: path}, 1, 0)
				if !same(got[0], want) {
					t.Fatalf("%s: %d bits, %s, %d rows from %d: got %v, want %v", path, width, name, m.Rows(), from, got[0].Rows, want.Rows)
				}
			}
		}
		for _, n := range lengths {
			check("random", Matrix{Bits: width, Codes: random(r, n*width/8)}, n/3)
			check("few levels", patterned(r, width, n, query.Code, patterns["few levels"]), 0)
		}
		for name, distance := range patterns {
			check(name, patterned(r, width, 1500, query.Code, distance), 0)
		}
	}
}

// BR-032: so do all queries of one pass, of any number, width and length.
func TestSeveralQueriesEqualTheOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for _, width := range widths {
		m := Matrix{Bits: width, Codes: random(r, 1031*width/8)}
		var queries []Query
		for i := range MaxQueries {
			queries = append(queries, Query{Code: random(r, width/8), Rows: 1 + 30*i})
			copy(m.Codes[(100*i+i)*width/8:], queries[i].Code) // a distance of 0
		}
		for n := 1; n <= MaxQueries; n++ {
			to := m.Rows() - n
			for _, path := range Paths() {
				got := answer(t, Job{Matrix: m, From: n, To: to, Queries: queries[:n], Path: path}, 1, 0)
				for i, query := range queries[:n] {
					want := oracle(question{matrix: m, from: n, to: to, query: query, starts: Starts{0, uint32(m.Rows())}})
					if !same(got[i], want) {
						t.Errorf("%s, %d bits, query %d of %d: got %v, want %v", path, width, i, n, got[i], want)
					}
				}
			}
		}
	}
}

// BR-032, BR-035, BR-037, DECISIONS 2, DECISIONS 22: rows and parents, of any
// number of queries, threads and tiles, under any bitmap, limit and order.
func TestScanEqualsTheOracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 3))
		width := rapid.SampledFrom(widths).Draw(rt, "bits")
		rows := rapid.IntRange(0, 3000).Draw(rt, "rows")
		starts := runs(r, rows, rapid.SampledFrom([]int{1, 3, 40, 700}).Draw(rt, "blocks"))
		q := question{starts: starts, to: rows}
		if rapid.Bool().Draw(rt, "part") && rows > 0 {
			i := r.IntN(len(starts))
			j := i + r.IntN(len(starts)-i)
			q.from, q.to = int(starts[i]), int(starts[j])
		}
		first := random(r, width/8)
		names := []string{"random", "equal", "ascending", "descending", "sawtooth", "few levels", "extremes"}
		if name := rapid.SampledFrom(names).Draw(rt, "pattern"); name == "random" {
			q.matrix = Matrix{Bits: width, Codes: random(r, rows*width/8)}
		} else {
			q.matrix = patterned(r, width, rows, first, patterns[name])
		}
		if share := rapid.SampledFrom([]int{0, 2, 3, 50, 5000}).Draw(rt, "live"); share > 0 {
			q.live = NewLive(rows)
			for row := range rows {
				if r.IntN(share) > 0 != (share > 3) {
					q.live.Clear(row)
				}
			}
			q.live.Cap(q.from, q.to, starts, rapid.SampledFrom([]int{0, 1, 64}).Draw(rt, "cap"))
		}
		if rapid.Bool().Draw(rt, "precedes") {
			q.precedes = shuffled(r, starts)
		}
		queries := make([]Query, rapid.IntRange(1, MaxQueries).Draw(rt, "queries"))
		k := rapid.SampledFrom([]int{0, 1, 5, 200, 5000})
		for i := range queries {
			queries[i] = Query{Code: first, Rows: k.Draw(rt, "rows wanted"), Parents: k.Draw(rt, "parents wanted"), Limit: rapid.SampledFrom([]int{0, 1, width / 2, width + 9}).Draw(rt, "limit")}
			if i > 0 {
				queries[i].Code = random(r, width/8)
			}
		}
		job := Job{Matrix: q.matrix, From: q.from, To: q.to, Queries: queries, Live: q.live, Parents: starts, Precedes: q.precedes}
		threads := rapid.IntRange(1, 3).Draw(rt, "threads")
		tileRows := rapid.SampledFrom([]int{1, 63, 300, TileRows}).Draw(rt, "tile")
		for _, job.Path = range Paths() {
			for i, got := range answer(rt, job, threads, tileRows) {
				q.query = queries[i]
				if want := oracle(q); !same(got, want) {
					rt.Fatalf("%s: query %d: got %v, want %v", job.Path, i, got, want)
				}
			}
		}
	})
}

// DECISIONS 2: two workers, in a fixed order of tiles, where the second holds rows
// that tie with the first one's last but precede it.
func TestLimitOfAnotherWorkerAdmitsEquals(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	code := random(r, 128)
	queries := []Query{{Code: code, Rows: 10}, {Code: code, Parents: 10}}
	m := patterned(r, 1024, 600, code, patterns["equal"])
	starts := make(Starts, 601)
	for i := range starts {
		starts[i] = uint32(i)
	}
	for _, path := range Paths() {
		s, err := New(Job{Matrix: m, To: 600, Queries: queries, Parents: starts, Path: path})
		if err != nil {
			t.Fatal(err)
		}
		s.tileRows = 300
		late, early := s.Worker(), s.Worker()
		s.next.Store(1)
		late.Step()
		s.next.Store(0)
		early.Step()
		for i, got := range s.Answers() {
			if want := oracle(question{matrix: m, to: 600, query: queries[i], starts: starts}); !same(got, want) {
				t.Errorf("%s: got %v, want %v", path, got, want)
			}
		}
	}
}

// DECISIONS 2: more rows tie with the k-th than a buffer holds, nearer ones come
// late, and the order is not that of the ordinals.
func TestManyTiesInAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	query := Query{Code: random(r, 32), Rows: 300}
	m := patterned(r, 256, 9000, query.Code, func(i, n, _ int, r *rand.Rand) int {
		if i > n/2 && r.IntN(40) == 0 {
			return 90
		}
		return 100
	})
	starts := runs(r, 9000, 20)
	precedes := shuffled(r, starts)
	want := oracle(question{matrix: m, to: 9000, query: query, starts: starts, precedes: precedes})
	for _, path := range Paths() {
		got := answer(t, Job{Matrix: m, To: 9000, Queries: []Query{query}, Precedes: precedes, Path: path}, 1, 0)
		if !slices.Equal(got[0].Rows, want.Rows) {
			t.Errorf("%s: got %v, want %v", path, got[0].Rows, want.Rows)
		}
	}
}

// BR-035: tiles that would cut parents.
func TestTilesEndWhereParentsDo(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	query := Query{Code: random(r, 32), Parents: 4}
	m := patterned(r, 256, 900, query.Code, patterns["few levels"])
	starts := Starts{0, 10, 250, 260, 700, 701, 900}
	want := oracle(question{matrix: m, to: 900, query: query, starts: starts})
	for _, tileRows := range []int{1, 64, 255, 300} {
		if got := answer(t, Job{Matrix: m, To: 900, Queries: []Query{query}, Parents: starts, Path: Best()}, 2, tileRows); !same(got[0], want) {
			t.Errorf("tiles of %d rows: got %v, want %v", tileRows, got[0], want)
		}
	}
}

// BR-035: of a parent's rows that are equally near, the first stands for it.
func TestFirstOfEqualRowsStandsForTheParent(t *testing.T) {
	m := Matrix{Bits: 64, Codes: make([]byte, 8*6)}
	for row, b := range []byte{3, 1, 2, 0, 7, 0} {
		m.Codes[8*row] = b
	}
	got := answer(t, Job{Matrix: m, To: 6, Queries: []Query{{Code: make([]byte, 8), Parents: 2}}, Parents: Starts{0, 3, 6}, Path: Best()}, 1, 0)
	if want := []Hit{{3, 0}, {1, 1}}; !slices.Equal(got[0].Parents, want) {
		t.Errorf("got %v, want %v", got[0].Parents, want)
	}
}

// BR-037, BR-038: the first rows of each parent in the range stay.
func TestCapKeepsTheFirstRowsOfEachParent(t *testing.T) {
	starts := Starts{0, 3, 70, 71, 200}
	live := NewLive(200)
	live.Cap(3, 71, starts, 64)
	for row := range 200 {
		if want := row < 67 || row >= 70; live.Has(row) != want {
			t.Errorf("row %d: live is %v", row, live.Has(row))
		}
	}
	lifted := NewLive(200)
	lifted.Cap(0, 200, starts, 0)
	if !slices.Equal(lifted, NewLive(200)) {
		t.Error("a cap of 0 takes rows out")
	}
}

func TestScanEndsWithTheContext(t *testing.T) {
	m := Matrix{Bits: 64, Codes: make([]byte, 8*1000)}
	s, err := New(Job{Matrix: m, To: 1000, Queries: []Query{{Code: make([]byte, 8), Rows: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Run(ctx, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := s.Answers()[0].Rows; len(got) != 0 {
		t.Errorf("rows were read: %v", got)
	}
}

func TestWhatDoesNotFitIsRefused(t *testing.T) {
	good := func() Job {
		return Job{Matrix: Matrix{Bits: 128, Codes: make([]byte, 16*70)}, To: 70, Queries: []Query{{Code: make([]byte, 16), Rows: 1}}}
	}
	for name, spoil := range map[string]func(*Job){
		"bits: no multiple of 64":  func(j *Job) { j.Matrix.Bits = 100 },
		"bits: none":               func(j *Job) { j.Matrix.Bits = 0 },
		"bits: too many":           func(j *Job) { j.Matrix.Bits = MaxBits + 64 },
		"codes: part of a row":     func(j *Job) { j.Matrix.Codes = j.Matrix.Codes[1:] },
		"range: behind the end":    func(j *Job) { j.To = 71 },
		"range: before the start":  func(j *Job) { j.From = -1 },
		"range: in reverse":        func(j *Job) { j.From, j.To = 2, 1 },
		"live: too short":          func(j *Job) { j.Live = make(Live, 1) },
		"queries: none":            func(j *Job) { j.Queries = nil },
		"queries: too many":        func(j *Job) { j.Queries = slices.Repeat(j.Queries, MaxQueries+1) },
		"queries[0]: short":        func(j *Job) { j.Queries[0].Code = make([]byte, 15) },
		"queries[0]: negative":     func(j *Job) { j.Queries[0].Rows = -1 },
		"queries[0]: no parents":   func(j *Job) { j.Queries[0].Parents = 1 },
		"path: of nothing we know": func(j *Job) { j.Path = NEON + 1 },
	} {
		job := good()
		spoil(&job)
		_, err := New(job)
		var field *memory.FieldError
		if !errors.As(err, &field) || fmt.Sprintf("%.4s", name) != fmt.Sprintf("%.4s", field.Field) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := New(good()); err != nil {
		t.Error(err)
	}
}

func TestPathsAreNamed(t *testing.T) {
	for _, p := range Paths() {
		if got, err := ChoosePath(p.String()); err != nil || got != p {
			t.Errorf("%s: got %v, %v", p, got, err)
		}
	}
	if got, err := ChoosePath(""); err != nil || got != Best() {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := ChoosePath("mmx"); err == nil {
		t.Error("an unknown path is taken")
	}
}

func TestReadIsTheSameOnEveryPath(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, n := range []int{0, 1, 8, 255, 256, 257, 5003} {
		data := random(r, n)
		var want [8]byte
		for i, b := range data[:n&^7] {
			want[i%8] ^= b
		}
		for _, b := range data[n&^7:] {
			want[0] ^= b
		}
		for _, p := range Paths() {
			if got := Read(p, data); got != readGo(want[:]) {
				t.Errorf("%s, %d bytes: got %x", p, n, got)
			}
		}
	}
}
