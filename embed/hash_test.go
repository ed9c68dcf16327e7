package embed

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The rotation keeps cosines: on integers it is exactly orthogonal up to its scale.
func TestHashRotationIsOrthogonal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a, b gramSketch
		var before, after int64
		for range rapid.IntRange(1, 20).Draw(t, "entries") {
			a.sum[rapid.IntRange(0, hashDims-1).Draw(t, "i")] += int64(rapid.IntRange(-50, 50).Draw(t, "x"))
			b.sum[rapid.IntRange(0, hashDims-1).Draw(t, "j")] += int64(rapid.IntRange(-50, 50).Draw(t, "y"))
		}
		for i := range a.sum {
			before += a.sum[i] * b.sum[i]
		}
		a.rotate()
		b.rotate()
		for i := range a.sum {
			after += a.sum[i] * b.sum[i]
		}
		if after != before*hashDims*hashDims {
			t.Fatalf("dot product %d became %d", before, after)
		}
	})
}

// DECISIONS 21: signs of coordinates are the coarse code, so that few may be zero
// even for two characters.
func TestHashSpreadsShortTexts(t *testing.T) {
	for _, text := range []string{"ok", "はい", "没有", "DB"} {
		zeros := 0
		for _, x := range vectorsOf(t, newHashing(), Document, text)[0] {
			if x == 0 {
				zeros++
			}
		}
		if zeros > hashDims/4 {
			t.Errorf("%q has %d zero coordinates of %d", text, zeros, hashDims)
		}
	}
}

// No allocation per gram: a text a thousand times longer allocates as often.
func TestHashAllocatesPerTextOnly(t *testing.T) {
	var sketch gramSketch
	long := strings.Repeat("日本語 and English 中文。", 1000)
	sketch.embed(long)
	if n := testing.AllocsPerRun(5, func() { sketch.embed(long) }); n > 2 {
		t.Errorf("%v allocations for one text", n)
	}
}

// Width, case and spacing are spelling, not content.
func TestHashIgnoresWidthCaseAndSpacing(t *testing.T) {
	m := newHashing()
	for _, pair := range [][2]string{
		{"Kubernetes Cluster", "ｋｕｂｅｒｎｅｔｅｓ　ｃｌｕｓｔｅｒ"},
		{"カタカナ", "ｶﾀｶﾅ"},
		{"two  words\n", "two words"},
	} {
		v := vectorsOf(t, m, Document, pair[0], pair[1])
		if digest(v[:1]) != digest(v[1:]) {
			t.Errorf("%q and %q differ", pair[0], pair[1])
		}
	}
}
