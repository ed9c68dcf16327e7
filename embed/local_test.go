package embed

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

func locals(t testing.TB) map[string]Model {
	t.Helper()
	models := make(map[string]Model)
	for _, backend := range []string{"static", "hash"} {
		m, err := Open(Config{Backend: backend})
		if err != nil {
			t.Fatal(err)
		}
		if !m.Local() {
			t.Errorf("%s is not local", backend)
		}
		models[backend] = m
	}
	return models
}

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

// The bits of the probe vectors are a model's name: whoever changes them renames
// the model. DECISIONS 6 and 10.
func TestLocalBitsAreFixed(t *testing.T) {
	want := map[string]string{"static": "4f9812681a79bebf", "hash": "4eabfdd39f0115df"}
	for backend, m := range locals(t) {
		id, err := m.Identity(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if got := digest(id.Probes); got != want[backend] {
			t.Errorf("%s: digest %s, want %s: give the changed model a new name", id.Name, got, want[backend])
		}
		if id.Backend != backend || len(id.Probes) != len(probes()) || Compare(id, id) != Same {
			t.Errorf("%s: identity of %q with %d probes", backend, id.Backend, len(id.Probes))
		}
		if verdict, err := Recheck(context.Background(), m); verdict != Same || err != nil {
			t.Errorf("%s: %v %v", backend, verdict, err)
		}
	}
}

// DECISIONS 26: only the empty text has no vector; every other one has length one
// and the same vector as query and as document, whatever stands beside it.
func TestLocalEmbedsEveryText(t *testing.T) {
	for backend, m := range locals(t) {
		id, err := m.Identity(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		check := func(t rapid.TB, text string) {
			v := vectorsOf(t, m, Document, text)[0]
			if text == "" {
				if v != nil {
					t.Fatalf("%s: the empty text has a vector", backend)
				}
				return
			}
			if len(v) != id.Dims {
				t.Fatalf("%s: %d dimensions for %q", backend, len(v), text)
			}
			if c := cosine(v, v); math.Abs(c-1) > 1e-6 {
				t.Fatalf("%s: squared length %v for %q", backend, c, text)
			}
			q := vectorsOf(t, m, Query, "neighbour", text, "隣")[1]
			if digest([][]float32{v}) != digest([][]float32{q}) {
				t.Fatalf("%s: %q as a query among others differs", backend, text)
			}
		}
		for _, text := range []string{"", " ", "\n\t", "。", "!?", "a", "あ", "猫", "🙂", "👩\u200d👩\u200d👧", "\x00", "\xff\xfe", "ー", "İ", "ﬀ", "한국어", "สวัสดี", "\u202e", strings.Repeat("長", 350_000)} {
			check(t, text)
		}
		rapid.Check(t, func(t *rapid.T) { check(t, rapid.String().Draw(t, "text")) })
	}
}

// Each line: a text, one that says nearly the same, one that says something else.
// The first pair must be closer in every language.
func TestLocalPrefersTheNearerText(t *testing.T) {
	for backend, m := range locals(t) {
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
				t.Errorf("%s: %q: %.3f to %q, %.3f to %q", backend, line[0], near, line[1], far, line[2])
			}
		}
	}
}

// Meaning, not spelling: no two words of a pair share a letter that the third text
// does not have as well. Hashing cannot know these.
func TestStaticKnowsMeanings(t *testing.T) {
	m := locals(t)["static"]
	for _, line := range [][3]string{
		{"physician", "doctor", "phone"},
		{"automobile", "car", "apple"},
		{"医者", "病院の先生", "電車"},
		{"自動車", "クルマ", "自然"},
		{"电脑", "计算机", "电影"},
		{"dog", "犬", "本"},
		{"backup", "备份", "天气"},
	} {
		v := vectorsOf(t, m, Document, line[0], line[1], line[2])
		if near, far := cosine(v[0], v[1]), cosine(v[0], v[2]); near <= far {
			t.Errorf("%q: %.3f to %q, %.3f to %q", line[0], near, line[1], far, line[2])
		}
	}
}

// Ten sentences in three languages: a Japanese or Chinese one finds the English one
// that says the same before the nine others, at least seven times of ten each.
func TestStaticCrossesLanguages(t *testing.T) {
	texts := translated(t)
	m := locals(t)["static"]
	english := vectorsOf(t, m, Document, texts["en"]...)
	for _, language := range []string{"ja", "zh"} {
		first := 0
		for i, v := range vectorsOf(t, m, Query, texts[language]...) {
			if nearest(v, english) == i {
				first++
			}
		}
		if len(english) != 10 || first < 7 {
			t.Errorf("%s: %d of %d at rank 1", language, first, len(english))
		}
	}
}

// What a text is about counts before its language: among the ten English sentences
// and the nine others of its own language, a Japanese or Chinese one finds the
// English one that says the same, at least eight times of ten each.
func TestStaticPutsMeaningBeforeLanguage(t *testing.T) {
	texts := translated(t)
	m := locals(t)["static"]
	english := vectorsOf(t, m, Document, texts["en"]...)
	for _, language := range []string{"ja", "zh"} {
		own := vectorsOf(t, m, Document, texts[language]...)
		first := 0
		for i, v := range own {
			others := slices.Concat(english, own[:i], own[i+1:])
			if nearest(v, others) == i {
				first++
			}
		}
		if first < 8 {
			t.Errorf("%s: %d of %d at rank 1", language, first, len(own))
		}
	}
}

// translated reads the ten sentences by language.
func translated(t *testing.T) map[string][]string {
	t.Helper()
	f, err := os.Open("testdata/crosslanguage.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	texts := map[string][]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var line map[string]string
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		for language, text := range line {
			texts[language] = append(texts[language], text)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return texts
}

// nearest is the position of the vector that is closest to v.
func nearest(v []float32, among [][]float32) int {
	best := 0
	for j := range among {
		if cosine(v, among[j]) > cosine(v, among[best]) {
			best = j
		}
	}
	return best
}

// DECISIONS 26: windows are counted in code points; one never ends beyond its text.
func TestLocalCountsTokens(t *testing.T) {
	for backend, m := range locals(t) {
		counter := m.(TokenCounter)
		check := func(t rapid.TB, text string) TokenCount {
			counts, err := counter.CountTokens(context.Background(), []string{text})
			if err != nil {
				t.Fatal(err)
			}
			c, length := counts[0], len([]rune(text))
			if c.WindowEnd > length || (c.Tokens <= c.Window) != (c.WindowEnd == length) {
				t.Fatalf("%s: %+v for %d code points", backend, c, length)
			}
			return c
		}
		if c := check(t, strings.Repeat("鱻", 600)); c.Tokens < 600 || c.WindowEnd < 500 || c.WindowEnd > 512 {
			t.Errorf("%s: %+v", backend, c)
		}
		rapid.Check(t, func(t *rapid.T) {
			check(t, strings.Repeat(rapid.StringOfN(rapid.RuneFrom(nil, unicode.Han, unicode.Latin), 1, 20, -1).Draw(t, "text"), rapid.IntRange(1, 200).Draw(t, "times")))
		})
	}
}

func BenchmarkLocal(b *testing.B) {
	for backend, m := range locals(b) {
		b.Run(backend, func(b *testing.B) {
			texts := probes()
			b.ReportAllocs()
			for b.Loop() {
				vectorsOf(b, m, Document, texts...)
			}
			b.ReportMetric(float64(b.N*len(texts))/b.Elapsed().Seconds(), "texts/s")
		})
	}
}
