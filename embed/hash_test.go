package embed

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

func vectorsOf(t rapid.TB, m Model, p Purpose, texts ...string) [][]float32 {
	t.Helper()
	vectors, err := m.Embed(context.Background(), p, texts)
	if err != nil {
		t.Fatal(err)
	}
	if len(vectors) != len(texts) {
		t.Fatalf("%d vectors for %d texts", len(vectors), len(texts))
	}
	return vectors
}

func digest(vectors [][]float32) string {
	h := sha256.New()
	for _, v := range vectors {
		for _, x := range v {
			h.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)))
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// The bits of the probe vectors are the model's name: whoever changes them renames
// the model. DECISIONS 6 and 10.
func TestHashBitsAreFixed(t *testing.T) {
	if got, want := digest(vectorsOf(t, newHashing(), Document, probes()...)), "4eabfdd39f0115df"; got != want {
		t.Errorf("digest %s, want %s: hash-v1 must not change, give the new model a new name", got, want)
	}
}

// DECISIONS 26: only the empty text has no vector; every other one has length one
// and the same vector as query and as document, whatever stands beside it.
func TestHashEmbedsEveryText(t *testing.T) {
	m := newHashing()
	check := func(t rapid.TB, text string) {
		v := vectorsOf(t, m, Document, text)[0]
		if text == "" {
			if v != nil {
				t.Fatal("the empty text has a vector")
			}
			return
		}
		if len(v) != hashDims {
			t.Fatalf("%d dimensions for %q", len(v), text)
		}
		if c := cosine(v, v); math.Abs(c-1) > 1e-6 {
			t.Fatalf("squared length %v for %q", c, text)
		}
		q := vectorsOf(t, m, Query, "neighbour", text, "隣")[1]
		if digest([][]float32{v}) != digest([][]float32{q}) {
			t.Fatalf("%q as a query among others differs", text)
		}
	}
	for _, text := range []string{"", " ", "\n\t", "。", "!?", "a", "あ", "猫", "🙂", "👩‍👩‍👧", "\x00", "\xff\xfe", "ー", "İ", "ﬀ", "한국어", "สวัสดี", "\u202e", strings.Repeat("長", 350_000)} {
		check(t, text)
	}
	rapid.Check(t, func(t *rapid.T) { check(t, rapid.String().Draw(t, "text")) })
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

// Each line: a text, one that says nearly the same, one that says something else.
// The first pair must be closer in every language.
func TestHashPrefersTheNearerText(t *testing.T) {
	m := newHashing()
	for _, line := range [][3]string{
		{"The backup failed again last night", "last night's backup failed", "She planted tomatoes behind the house"},
		{"rotate the database password", "password rotation for the database", "the printer is out of paper"},
		{"駅前のパン屋は火曜日が休みです", "火曜日は駅前のパン屋が休みだ", "弟は来年アメリカに引っ越します"},
		{"サーバーのメモリが不足している", "メモリ不足のサーバーがある", "夕方から雨が降るらしい"},
		{"白い犬が公園を走っている", "公園で白い犬が走る", "彼女は毎晩本を読む"},
		{"会议改到周五下午三点", "周五下午三点开会", "他养了两只猫"},
		{"数据库备份失败了", "昨晚数据库的备份失败", "今天的汤太咸"},
	} {
		v := vectorsOf(t, m, Document, line[0], line[1], line[2])
		if near, far := cosine(v[0], v[1]), cosine(v[0], v[2]); near < far+0.2 {
			t.Errorf("%q: %.3f to %q, %.3f to %q", line[0], near, line[1], far, line[2])
		}
	}
}

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

// BR-020 counts in code points; a window never ends beyond its text.
func TestHashCountsPieces(t *testing.T) {
	m := newHashing().(TokenCounter)
	check := func(t rapid.TB, text string) TokenCount {
		counts, err := m.CountTokens(context.Background(), []string{text})
		if err != nil {
			t.Fatal(err)
		}
		c, length := counts[0], len([]rune(text))
		if c.WindowEnd > length || (c.Tokens <= c.Window) != (c.WindowEnd == length) {
			t.Fatalf("%+v for %d code points", c, length)
		}
		return c
	}
	if c := check(t, strings.Repeat("字", 600)); c.Tokens != 600 || c.WindowEnd != 512 {
		t.Errorf("%+v", c)
	}
	if c := check(t, strings.Repeat("abcd", 513)); c.Tokens != 513 || c.WindowEnd != 2048 {
		t.Errorf("%+v", c)
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, strings.Repeat(rapid.StringOfN(rapid.RuneFrom(nil, unicode.Han, unicode.Latin), 1, 20, -1).Draw(t, "text"), rapid.IntRange(1, 200).Draw(t, "times")))
	})
}

func BenchmarkHash(b *testing.B) {
	m := newHashing()
	texts := probes()
	b.ReportAllocs()
	for b.Loop() {
		vectorsOf(b, m, Document, texts...)
	}
	b.ReportMetric(float64(b.N*len(texts))/b.Elapsed().Seconds(), "texts/s")
}
