package bench

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"recalld/embed"
	"recalld/memory"
)

// Hyperplanes at even steps of half a degree part two vectors of a plane as often
// as the angle has steps, give or take the one that either may touch.
//
// BR-024, BR-196
func TestEvenHyperplanesMeasureAngles(t *testing.T) {
	const steps = 360
	even := make([][]float32, steps)
	for i := range even {
		sin, cos := math.Sincos(float64(i) * math.Pi / steps)
		even[i] = []float32{float32(cos), float32(sin)}
	}
	at := func(degree float64) forms {
		sin, cos := math.Sincos(degree * math.Pi / 180)
		return formsOf(even, []float32{float32(cos), float32(sin)})
	}
	out := make([]float32, 1)
	for angle := 0.25; angle < 180; angle += 1.25 {
		c := &signCode{width: steps, turned: true}
		c.add(at(17.6))
		c.angles(at(17.6+angle), out)
		if off := math.Abs(float64(out[0]) - angle); off > 180./steps {
			t.Errorf("%v degrees: guessed %v", angle, out[0])
		}
	}
}

// Pairs at a known angle that differ in two coordinates alone. One random rotation
// guesses the angle within one standard deviation of a single pair; the signs of the
// coordinates themselves, which are no random draw, miss it by far.
//
// BR-196
func TestRandomHyperplanesGuessAngles(t *testing.T) {
	const dims, pairs, degree = 64, 400, 40.0
	r := rand.New(rand.NewPCG(5, 5))
	turn := directions(dims, dims, 7)
	turned, plain := &signCode{width: dims, turned: true}, &signCode{width: dims}
	var sum, sumPlain float64
	out := make([]float32, 1)
	for range pairs {
		// Turning about axes 0 and 1 moves little else than their signs.
		v := make([]float64, dims)
		norm := 0.0
		for i := range v {
			v[i] = r.NormFloat64()
			if i < 2 {
				v[i] *= 40
			}
			norm += float64(v[i] * v[i])
		}
		a, b := make([]float32, dims), make([]float32, dims)
		sin, cos := math.Sincos(degree * math.Pi / 180)
		for i := range v {
			v[i] /= math.Sqrt(norm)
			a[i], b[i] = float32(v[i]), float32(v[i])
		}
		b[0] = float32(float64(v[0]*cos) - float64(v[1]*sin))
		b[1] = float32(float64(v[0]*sin) + float64(v[1]*cos))
		angle := float64(degrees(dot(a, b)))
		for _, c := range []*signCode{turned, plain} {
			c.words = nil
			c.add(formsOf(turn, a))
			c.angles(formsOf(turn, b), out)
			if c.turned {
				sum += float64(out[0]) - angle
			} else {
				sumPlain += float64(out[0]) - angle
			}
		}
	}
	// One rotation serves all pairs, so what it does to the plane of the two axes
	// stays in the mean.
	p := degree / 180
	if off := sum / pairs; math.Abs(off) > 180*math.Sqrt(p*(1-p)/dims) {
		t.Errorf("rotated signs are %.2f degrees off", off)
	}
	if off := sumPlain / pairs; off > -30 {
		t.Errorf("coordinate signs are %.2f degrees off; the set no longer tells them apart", off)
	}
}

func TestDirectionsAreOrthogonalInTurns(t *testing.T) {
	const dims = 48
	turn := directions(dims, 2*dims+5, 3)
	for i, a := range turn {
		for j, b := range turn {
			want := 0.0
			if i == j {
				want = 1
			} else if i/dims != j/dims {
				continue
			}
			if got := dot(a, b); math.Abs(got-want) > 1e-6 {
				t.Fatalf("directions %d and %d: %v, want %v", i, j, got, want)
			}
		}
	}
	if !slices.EqualFunc(turn, directions(dims, 2*dims+5, 3), slices.Equal) {
		t.Error("one seed gives different directions")
	}
	if slices.Equal(turn[0], turn[dims]) || slices.Equal(turn[0], directions(dims, 1, 4)[0]) {
		t.Error("directions repeat")
	}
}

func randomUnit(r *rand.Rand, dims int) []float32 {
	v := make([]float32, dims)
	norm := 0.0
	for i := range v {
		v[i] = float32(r.NormFloat64())
		norm += float64(float64(v[i]) * float64(v[i]))
	}
	for i := range v {
		v[i] = float32(float64(v[i]) / math.Sqrt(norm))
	}
	return v
}

// The table reads the levels that were written; a row's guess of its own angle is
// none; guesses scatter less with every bit; int8 keeps the order of clear cosines.
//
// BR-046, BR-172
func TestLevelsComeBack(t *testing.T) {
	for _, dims := range []int{31, 64} {
		r := rand.New(rand.NewPCG(1, uint64(dims)))
		turn := directions(dims, dims, 1)
		query := formsOf(turn, randomUnit(r, dims))
		var rows []forms
		for range 200 {
			rows = append(rows, formsOf(turn, randomUnit(r, dims)))
		}
		last := math.Inf(1)
		for _, width := range []int{1, 2, 4, 8} {
			var c code = &byteCode{}
			if width < 8 {
				c = &levelCode{width: width}
			}
			for _, f := range rows {
				c.add(f)
			}
			guess := make([]float32, len(rows))
			c.angles(query, guess)
			if l, ok := c.(*levelCode); ok {
				dots := make([]float32, len(rows))
				l.dots(l.table(query.stored), dots)
				for i, f := range rows {
					want := 0
					for j, level := range l.levels(f.stored) {
						if most := 1<<width - 1; level&1 == 0 || level > most || level < -most {
							t.Fatalf("%d bits: level %d", width, level)
						}
						want += level * int(query.stored[j])
					}
					if int(dots[i]) != want {
						t.Fatalf("%d bits, row %d: dot %v, want %d", width, i, dots[i], want)
					}
				}
				if want := (dims*width+7)/8 + 4; c.bytes() != want || len(l.packed) != len(rows)*(want-4) {
					t.Errorf("%d bits: %d bytes a row, %d in all", width, c.bytes(), len(l.packed))
				}
			}
			squares := 0.0
			for i, f := range rows {
				off := float64(guess[i] - degrees(dot(query.plain, f.plain)))
				squares += float64(off * off)
				own := make([]float32, i+1)
				c.angles(f, own)
				if own[i] > .1 {
					t.Fatalf("%d bits, row %d: %v degrees from itself", width, i, own[i])
				}
			}
			if off := math.Sqrt(squares / float64(len(rows))); off > last*.75 {
				t.Errorf("%d bits, %d dimensions: %.3f degrees off, with fewer bits %.3f", width, dims, off, last)
			} else {
				last = off
			}
		}
		if last > .5 {
			t.Errorf("int8 is %.3f degrees off", last)
		}
	}
}

func TestRanksAndDepths(t *testing.T) {
	angles := []float32{5, 3, 9, 3, 1, 5}
	if got := nearest(angles, 4); !slices.Equal(got, []int{4, 1, 3, 0}) {
		t.Errorf("nearest %v", got)
	}
	if got := ranksOf(angles, []int{0, 1, 2, 3, 4, 5}); !slices.Equal(got, []int{4, 2, 6, 3, 1, 5}) {
		t.Errorf("ranks %v", got)
	}
	var ranks []int
	for i := range 100 {
		ranks = append(ranks, 300-3*i) // 3, 6, … 300
	}
	want := FidelityDepth{Rows: 7, Keep90: 270, Keep95: 285, Keep99: 297, At50: .16, At200: .66}
	if got := depthOf(7, ranks); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for rows, want := range map[int][]int{900: {900}, 1_000: {1_000}, 30_000: {1_000, 3_000, 10_000, 30_000}, 40_000: {1_000, 3_000, 10_000, 30_000, 40_000}} {
		if got := fidelitySizes(rows); !slices.Equal(got, want) {
			t.Errorf("%d rows: sizes %v", rows, got)
		}
	}
	if got := fidelityWidths(256); !slices.Equal(got, []int{256, 512, 1_024}) {
		t.Errorf("widths %v", got)
	}
}

// A whole run at a small scale, over texts of three languages.
//
// BR-024, BR-197
func TestFidelityAtASmallScale(t *testing.T) {
	m, err := embed.Open(embed.Config{Backend: "static"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "jsts"), 0o700); err != nil {
		t.Fatal(err)
	}
	pairs := `{"a":"山の上に牛が二頭います。","b":"牛が草を食べています。","score":3}
{"a":"数据库在凌晨三点备份。","b":"什么时候备份数据库?","score":4}
{"a":"The boiler was repaired on Tuesday.","b":"When was the boiler repaired?","score":4}
{"a":"The boiler was repaired on Tuesday.","b":"Who mended it?","score":1}
`
	if err := os.WriteFile(filepath.Join(folder, "jsts", "pairs.jsonl"), []byte(pairs), 0o600); err != nil {
		t.Fatal(err)
	}
	o := FidelityOptions{Folder: folder, Rows: 300, Queries: 12, Scan: 100, Repeat: 1, Clock: time.Now}
	run := func() *FidelityReport {
		report, err := Fidelity(t.Context(), m, o)
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	report := run()
	if report.Rows != 300 || report.Read != 3 || report.Queries != 12 || report.Dims != 256 {
		t.Errorf("%d rows, %d read, %d queries, %d dimensions", report.Rows, report.Read, report.Queries, report.Dims)
	}
	kept := map[string]float64{}
	for _, c := range report.Codes {
		last := c.Depths[len(c.Depths)-1]
		kept[c.Name] = last.At50
		if last.Keep90 < 9 || last.Keep90 > last.Keep95 || last.Keep95 > last.Keep99 || last.Keep99 > 300 || last.At50 > last.At200 || c.Scan == nil {
			t.Errorf("%s: %+v", c.Name, last)
		}
		var counted int64
		for _, b := range c.Bins {
			counted += b.Pairs
		}
		if counted != 300*12 {
			t.Errorf("%s: %d pairs in bins", c.Name, counted)
		}
	}
	if kept["int8"] < kept["4 bits of int8"] || kept["4 bits of int8"] < kept["1 bits of int8"] || kept["hyperplanes 1024"] < kept["rotated signs 256"] || kept["int8"] != 1 {
		t.Errorf("kept at 50: %v", kept)
	}
	o.Scan = 0
	again, first := run(), *report
	first.Codes = slices.Clone(report.Codes)
	for i := range first.Codes {
		first.Codes[i].Scan = nil
	}
	a, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := json.Marshal(again); err != nil || string(a) != string(b) {
		t.Errorf("two runs differ: %v\n%s\n%s", err, a, b)
	}
}

func TestImpossibleFidelityIsRefused(t *testing.T) {
	m, err := embed.Open(embed.Config{Backend: "hash"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for field, o := range map[string]FidelityOptions{
		"rows":    {Rows: 0, Queries: 1},
		"queries": {Rows: 20, Queries: 0},
		"path":    {Rows: 20, Queries: 1, Folder: t.TempDir()},
	} {
		var refused *memory.FieldError
		if _, err := Fidelity(t.Context(), m, o); !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	var refused *memory.FieldError
	if _, err := Fidelity(t.Context(), m, FidelityOptions{Rows: fidelityTop, Queries: 1}); !errors.As(err, &refused) || refused.Field != "rows" {
		t.Errorf("as many rows as are looked for: %v", err)
	}
}
