package portable

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// places is the distance of two values in units of the last place.
func places(a, b float64) uint64 {
	order := func(x float64) int64 {
		bits := int64(math.Float64bits(x))
		if bits < 0 {
			return math.MinInt64 - bits
		}
		return bits
	}
	d := order(a) - order(b)
	return uint64(max(d, -d))
}

func TestWithinTwoPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-700, 700).Draw(t, "exponent")
		if got, want := Exp(x), math.Exp(x); places(got, want) > 2 {
			t.Fatalf("Exp(%v) = %v, want %v", x, got, want)
		}
		y := rapid.OneOf(
			rapid.Float64Range(0x1p-1022, math.MaxFloat64),
			rapid.Float64Range(.5, 2),
		).Draw(t, "x")
		if got, want := Log(y), math.Log(y); places(got, want) > 2 {
			t.Fatalf("Log(%v) = %v, want %v", y, got, want)
		}
	})
}

func TestEdges(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		name string
		f    func(float64) float64
		x    float64
		want float64
	}{
		{"Exp", Exp, 0, 1},
		{"Exp", Exp, math.Copysign(0, -1), 1},
		{"Exp", Exp, -inf, 0},
		{"Exp", Exp, inf, inf},
		{"Exp", Exp, nan, nan},
		{"Exp", Exp, -1e300, 0},
		{"Exp", Exp, 709.8, inf},
		{"Exp", Exp, -746, 0},
		{"Log", Log, 1, 0},
		{"Log", Log, 0, -inf},
		{"Log", Log, inf, inf},
		{"Log", Log, -1, nan},
		{"Log", Log, nan, nan},
		// math.Log of subnormal numbers is wrong on amd64.
		{"Log", Log, math.SmallestNonzeroFloat64, -744.4400719213812},
	} {
		if got := c.f(c.x); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%s(%v) = %v, want %v", c.name, c.x, got, c.want)
		}
	}
}

// DECISIONS 6: these digests are the same on every processor.
func TestBitsAreFixed(t *testing.T) {
	add := func(h hash.Hash, x float64) {
		h.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)))
	}
	exps, logs := sha256.New(), sha256.New()
	for i := range 200_000 {
		add(exps, Exp(-float64(i)/27_000))
		add(exps, Exp(float64(i-100_000)/143))
		add(logs, Log(float64(i+1)))
		add(logs, Log(1+float64(i-100_000)/300_000))
	}
	for _, c := range []struct {
		name string
		hash hash.Hash
		want string
	}{
		{"Exp", exps, "595fd066bf190318879ba04dbfbcee27dc73cb4986b896eb234d6579d7e13dbc"},
		{"Log", logs, "831c7381383990b743670aa246bc0e9db5791a39a65c67c76c7fcddf087d9141"},
	} {
		if got := hex.EncodeToString(c.hash.Sum(nil)); got != c.want {
			t.Errorf("%s: digest %s, want %s", c.name, got, c.want)
		}
	}
}
