package embed

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func hashIdentity(t testing.TB) Identity {
	t.Helper()
	id, err := newHashing().Identity(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func cloneIdentity(id Identity) Identity {
	id.Probes = slices.Clone(id.Probes)
	for i := range id.Probes {
		id.Probes[i] = slices.Clone(id.Probes[i])
	}
	return id
}

// turned returns id with its first probe turned so that the cosine to the original
// is c.
func turned(id Identity, c float64) Identity {
	id = cloneIdentity(id)
	v := id.Probes[0]
	// A direction orthogonal to v: a coordinate axis less its part along v.
	axis := make([]float32, len(v))
	for i := range v {
		axis[i] = -v[0] * v[i]
	}
	axis[0]++
	unit(axis)
	for i := range v {
		v[i] = float32(c*float64(v[i]) + math.Sqrt(1-c*c)*float64(axis[i]))
	}
	return id
}

// DECISIONS 10: same model iff every probe's cosine is at least .999; below .98
// mixing stops. One probe decides.
func TestCompareThresholds(t *testing.T) {
	id := hashIdentity(t)
	for _, c := range []struct {
		cosine float64
		want   Verdict
	}{{1, Same}, {0.9992, Same}, {0.9988, Drifted}, {0.9802, Drifted}, {0.9798, Different}, {0, Different}, {-1, Different}} {
		if got := Compare(id, turned(id, c.cosine)); got != c.want {
			t.Errorf("cosine %v: %v, want %v", c.cosine, got, c.want)
		}
	}
}

// DECISIONS 10: what cannot be compared is not the same.
func TestCompareRefusesTheIncomparable(t *testing.T) {
	id := hashIdentity(t)
	for name, change := range map[string]func(*Identity){
		"dims":          func(id *Identity) { id.Dims++ },
		"policy":        func(id *Identity) { id.PromptPolicy = "x" },
		"probe version": func(id *Identity) { id.ProbeVersion++ },
		"fewer probes":  func(id *Identity) { id.Probes = id.Probes[1:] },
		"empty probe":   func(id *Identity) { id.Probes[3] = nil },
		"not a number":  func(id *Identity) { id.Probes[0][0] = float32(math.NaN()) },
	} {
		other := cloneIdentity(id)
		change(&other)
		if got := Compare(id, other); got != Different {
			t.Errorf("%s: %v", name, got)
		}
	}
	if Compare(Identity{}, Identity{}) != Different {
		t.Error("two identities without probes are the same")
	}
	renamed := cloneIdentity(id)
	renamed.Name = "another name"
	if Compare(id, renamed) != Same {
		t.Error("a renamed model is another one")
	}
}

// Keys are equal exactly when identities are.
func TestIdentityKey(t *testing.T) {
	id := hashIdentity(t)
	if id.Key() != cloneIdentity(id).Key() {
		t.Error("equal identities have unequal keys")
	}
	keys := map[string]bool{id.Key(): true}
	for _, change := range []func(*Identity){
		func(id *Identity) { id.Backend = "x" },
		func(id *Identity) { id.Name = "x" },
		func(id *Identity) { id.Name, id.PromptPolicy = "hash-", "v1" },
		func(id *Identity) { id.Dims++ },
		func(id *Identity) { id.Probes[11][7] += 1e-7 },
	} {
		other := cloneIdentity(id)
		change(&other)
		if keys[other.Key()] {
			t.Errorf("key of a changed identity is not new: %s %s", other.Name, other.PromptPolicy)
		}
		keys[other.Key()] = true
	}
}

// Every vector comes out with length one or not at all (RR-399).
func TestUnit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float32(), 1, 64).Draw(t, "v")
		sum := 0.0
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		ok := unit(v)
		if ok != (sum > 0) {
			t.Fatalf("unit says %v for a squared length of %v", ok, sum)
		}
		if c := cosine(v, v); ok && math.Abs(c-1) > 1e-5 {
			t.Fatalf("squared length %v", c)
		}
	})
	for _, v := range [][]float32{{}, {0, 0}, {float32(math.NaN()), 1}, {float32(math.Inf(1)), 1}} {
		if unit(v) {
			t.Errorf("%v has a direction", v)
		}
	}
}

func TestNone(t *testing.T) {
	m, err := Open(Config{Backend: "none"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Embed(context.Background(), Query, []string{"x"}); !errors.Is(err, ErrNoModel) {
		t.Errorf("Embed: %v", err)
	}
	if _, err := m.Identity(context.Background()); !errors.Is(err, ErrNoModel) {
		t.Errorf("Identity: %v", err)
	}
	if m.Window().Known {
		t.Error("no model has a window")
	}
}
