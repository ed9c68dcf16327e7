package blocks

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"recalld/memory"
)

// The texts of Example 6: adopted, limited, withdrawn, and something else.
const (
	adoptedEnglish  = "We adopted plan A for the cache. However, only the read path uses it. But on the write path it was withdrawn. Parking moved to the north lot."
	adoptedJapanese = "キャッシュには案Aを採用した。ただし、読み込み経路に限る。もっとも、書き込み経路では撤回した。駐車場は北側へ移った。"
	adoptedChinese  = "缓存采用了方案A。不过，仅限读取路径。但是写入路径已经撤回。停车场搬到了北侧。"
)

// Example 6.
//
// BR-074, BR-077, BR-078, BR-079, BR-080, BR-081, BR-145
func TestContextFollowsQualifiers(t *testing.T) {
	for _, c := range []struct {
		text       string
		spans      []memory.Span
		tight      int
		whole      memory.Span
		withdrawal string
	}{
		{adoptedEnglish, []memory.Span{span(0, 33), span(33, 70), span(70, 110), span(110, 141)}, 80, span(0, 110), "withdrawn"},
		{adoptedJapanese, []memory.Span{span(0, 15), span(15, 29), span(29, 47), span(47, 58)}, 35, span(0, 47), "撤回"},
		{adoptedChinese, []memory.Span{span(0, 9), span(9, 19), span(19, 30), span(30, 39)}, 20, span(0, 30), "撤回"},
	} {
		all := mustSplit(t, c.text)
		for i, b := range all {
			if b.Span != c.spans[i] {
				t.Fatalf("block %d is %v, expected %v", i, b.Span, c.spans[i])
			}
		}
		for hit := range 3 {
			q := Context(c.text, all, hit, QuoteLimit)
			if q != (Quote{Span: c.whole, Complete: true}) {
				t.Errorf("hit %d: %+v", hit, q)
			}
			if part, _ := q.Slice(c.text); !strings.Contains(part, c.withdrawal) {
				t.Errorf("hit %d is quoted without the withdrawal: %q", hit, part)
			}
		}
		tight := Context(c.text, all, 0, c.tight)
		if want := (Quote{Span: span(0, c.spans[1].End), Read: c.whole}); tight != want {
			t.Errorf("limit %d: %+v, expected %+v", c.tight, tight, want)
		}
		alone := Context(c.text, all, 3, QuoteLimit)
		if alone != (Quote{Span: c.spans[3], Complete: true}) {
			t.Errorf("the last block: %+v", alone)
		}
	}
}

// The control of Example 6: two independent sentences are quoted apart.
//
// BR-085
func TestIndependentSentencesApart(t *testing.T) {
	for _, c := range []struct {
		text string
		want []memory.Span
	}{
		{"The office opens at nine. Invoices are printed in green.", []memory.Span{span(0, 26), span(26, 56)}},
		{"事務所は九時に開く。請求書は緑で刷る。", []memory.Span{span(0, 10), span(10, 19)}},
		{"办公室九点开门。发票用绿色打印。", []memory.Span{span(0, 8), span(8, 16)}},
	} {
		all := mustSplit(t, c.text)
		for hit, want := range c.want {
			if q := Context(c.text, all, hit, QuoteLimit); q != (Quote{Span: want, Complete: true}) {
				t.Errorf("independent_sentences_apart: hit %d is quoted as %+v, expected %v", hit, q, want)
			}
		}
	}
}

// A forced cut and an undecided boundary end no sentence.
//
// BR-075, BR-076
func TestContextFinishesTheSentence(t *testing.T) {
	forced := "Before. X" + strings.Repeat("x", 999) + " end. After."
	undecided := "Before. Y" + strings.Repeat("y", 699) + ". " + strings.Repeat("z", 700) + ". After."
	for name, text := range map[string]string{"forced": forced, "undecided": undecided} {
		all := mustSplit(t, text)
		if len(all) != 4 {
			t.Fatalf("%s: %d blocks", name, len(all))
		}
		for _, hit := range []int{1, 2} {
			want := Quote{Span: span(all[1].Start, all[2].End), Complete: true}
			if q := Context(text, all, hit, QuoteLimit); q != want {
				t.Errorf("%s, hit %d: %+v, expected %+v", name, hit, q, want)
			}
		}
		q := Context(text, all, 1, 800)
		if q.Complete || q.Span != all[1].Span || q.Read != span(all[1].Start, all[2].End) {
			t.Errorf("%s, limit 800: %+v", name, q)
		}
	}
}

// A quotation that the payload's budget cuts is reported like one that the limit
// stops; without a limit it is whole.
//
// BR-082, BR-080
func TestContextLimit(t *testing.T) {
	all := mustSplit(t, adoptedEnglish)
	for _, c := range []struct {
		hit, limit int
		want       Quote
	}{
		{2, 80, Quote{Span: span(33, 110), Read: span(0, 110)}},
		{1, 38, Quote{Span: span(33, 70), Read: span(0, 110)}},
		{1, 10, Quote{Span: span(33, 43), Read: span(0, 110)}},
		{3, 31, Quote{Span: span(110, 141), Complete: true}},
		{3, 30, Quote{Span: span(110, 140), Read: span(110, 141)}},
		{0, 110, Quote{Span: span(0, 110), Complete: true}},
		{0, 109, Quote{Span: span(0, 70), Read: span(0, 110)}},
		{0, 0, Quote{Span: span(0, 110), Complete: true}},
		{0, -1, Quote{Span: span(0, 110), Complete: true}},
		{4, 80, Quote{}},
		{-1, 80, Quote{}},
	} {
		if q := Context(adoptedEnglish, all, c.hit, c.limit); q != c.want {
			t.Errorf("hit %d, limit %d: %+v, expected %+v", c.hit, c.limit, q, c.want)
		}
	}
}

// A qualifier counts as a whole word, with the marks of lists and quotations before
// it, across paragraphs too.
//
// BR-077, BR-078
func TestQualifiersAreWords(t *testing.T) {
	for _, c := range []struct {
		text  string
		grows bool
	}{
		{"It is on. But not today.", true},
		{"It is on. Butter is out.", false},
		{"It is on. Only's a typo.", true},
		{"It is on. Notes follow.", false},
		{"It is on. Édité.", false},
		{"It is on.\n\n- **However** it stopped.", true},
		{"It is on. \"Except on Sunday.\"", true},
		{"動いている。もっとも重要な点は別だ。", false},
		{"動いている。もっとも、日曜は休む。", true},
		{"動いている。「ただし日曜は休む。」", true},
		{"動いている。駐車場は北。", false},
		{"正在运行。然而周日停止。", true},
		{"正在运行。然后吃饭。", false},
		// A correction that only its content tells is a known gap.
		// BR-199
		{"It is on. It was switched off at noon.", false},
		{"動いている。昼に止めた。", false},
	} {
		all := mustSplit(t, c.text)
		if len(all) != 2 {
			t.Fatalf("%q: %d blocks", c.text, len(all))
		}
		if q := Context(c.text, all, 0, QuoteLimit); (q.End == all[1].End) != c.grows || !q.Complete {
			t.Errorf("%q: quoted to %d", c.text, q.End)
		}
	}
}

// Whole blocks around the hit, within the limit; complete exactly when no rule wants
// more; what is to be read instead is what no limit would give; a larger limit never
// shows less, and growing the result again changes nothing.
//
// BR-079, BR-080, BR-081, BR-139, BR-145
func TestContextProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := texts(40).Draw(t, "text")
		nodes := layouts(memory.Len(text)).Draw(t, "nodes")
		all, err := Split(text, nodes)
		if err != nil {
			t.Fatal(err)
		}
		if len(all) == 0 {
			return
		}
		hit := rapid.IntRange(0, len(all)-1).Draw(t, "hit")
		limit := rapid.IntRange(1, 2*MaxLen).Draw(t, "limit")
		checkQuote(t, text, all, hit, limit)
	})
}

type fataler interface{ Fatalf(string, ...any) }

func checkQuote(t fataler, text string, all []Block, hit, limit int) {
	q, free := Context(text, all, hit, limit), Context(text, all, hit, 0)
	if q != Context(text, all, hit, limit) {
		t.Fatalf("not deterministic")
	}
	if !free.Complete || free.Start > all[hit].Start || free.End < all[hit].End {
		t.Fatalf("without a limit: %+v for %v", free, all[hit])
	}
	if q.Len() > limit || q.Start < free.Start || q.End > free.End {
		t.Fatalf("%+v is outside of limit %d or of %+v", q, limit, free)
	}
	if q.Complete != (free.Len() <= limit) || q.Complete && (q.Span != free.Span || q.Read != (memory.Span{})) || !q.Complete && q.Read != free.Span {
		t.Fatalf("%+v, without a limit %+v", q, free)
	}
	first, last := -1, -1
	for i, b := range all {
		if b.Start == q.Start {
			first = i
		}
		if b.End == q.End {
			last = i
		}
	}
	if all[hit].Len() <= limit && (first < 0 || last < first || first > hit || last < hit) {
		t.Fatalf("%+v is not made of whole blocks around %d", q, hit)
	}
	if q.Complete {
		g := grower{text: text, all: all, scanner: newScanner(text)}
		if g.wantsBefore(first) || g.wantsAfter(last) {
			t.Fatalf("%+v is called complete", q)
		}
	}
	if more := Context(text, all, hit, limit+1+limit/3); more.Len() < q.Len() && all[hit].Len() <= limit {
		t.Fatalf("limit %d shows %+v, a larger one %+v", limit, q, more)
	}
}

// A quotation scans its text no further than it must: what is known by then are the
// boundaries of the whole text up to there.
//
// BR-076
func TestScanGoesAsFarAsAsked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := texts(40).Draw(t, "text")
		whole := edges(text)
		at := rapid.SliceOfN(rapid.IntRange(0, memory.Len(text)), 1, 4).Draw(t, "at")
		s := newScanner(text)
		for _, to := range at {
			s.scan(to)
			n := len(s.edges)
			if n == 0 || s.edges[n-1].end < to || !slices.Equal(s.edges, whole[:n]) {
				t.Fatalf("as far as %d: %v, of %v", to, s.edges, whole)
			}
		}
	})
	text := strings.Repeat("The log is short. ", 100)
	s := newScanner(text)
	if s.scan(20); s.i > 60 {
		t.Errorf("scanned %d bytes for what the first 40 say", s.i)
	}
}

// BR-145
func TestTenThousandQuotes(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 145))
	incomplete := 0
	for n := 0; n < 10_000; {
		text := document(r, 1+r.IntN(60))
		all := mustSplit(t, text, layout(r, memory.Len(text))...)
		for range min(len(all), 6) {
			hit, limit := r.IntN(len(all)), 1+r.IntN(MaxLen)
			checkQuote(t, text, all, hit, limit)
			if !Context(text, all, hit, limit).Complete {
				incomplete++
			}
			n++
		}
	}
	if incomplete < 500 {
		t.Errorf("%d of ten thousand quotations are incomplete: the limit is hardly tested", incomplete)
	}
}
