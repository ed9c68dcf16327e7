package lexical

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cockroachdb/datadriven"

	"recalld/memory"
)

// analysed returns the terms of a text from an analyser that has seen nothing.
func analysed(text string) []string {
	a := NewAnalyser()
	return a.texts(a.Append(nil, text))
}

func (a *Analyser) texts(ids []TermID) []string {
	terms := make([]string, len(ids))
	for i, id := range ids {
		terms[i] = a.Term(id)
	}
	return terms
}

func show(terms []string) string {
	return strings.ReplaceAll(strings.Join(terms, " "), "\x01", "@") + "\n"
}

// TestAnalyser shows the terms of many texts; date words begin with @.
//
// RT-100: one tokeniser, three languages, mixed scripts.
func TestAnalyser(t *testing.T) {
	datadriven.RunTest(t, "testdata/analyser", func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "terms":
			return show(analysed(d.Input))
		case "query":
			terms, _ := Terms(d.Input)
			var b strings.Builder
			for _, q := range terms {
				fmt.Fprintf(&b, "%s ", q.Term)
			}
			return strings.TrimSuffix(b.String(), " ") + "\n"
		case "time":
			when, err := memory.ParseTime("time", d.Input)
			if err != nil {
				return err.Error()
			}
			a := NewAnalyser()
			return show(a.texts(a.AppendTime(nil, when)))
		}
		return "unknown command"
	})
}

// TestDatesReachEachOther pairs every form with every other.
//
// RT-100
func TestDatesReachEachOther(t *testing.T) {
	forms := []string{"2026-11-30", "2026/11/30", "Nov 30", "30 November 2026", "November 30th", "11月30日", "2026年11月30日",
		"30th of November", "nov 30", "30.11.2026", "on November 30, 2026 at noon", "十一月三十日", "11 月 30 日", "11月30号"}
	a := NewAnalyser()
	when := a.texts(a.AppendTime(nil, at("2026-11-30T00:10:00+09:00")))
	for _, form := range forms {
		terms := analysed(form)
		for _, want := range []string{"\x01m11", "\x01d30", "\x01a1130"} {
			if n := len(slices.DeleteFunc(slices.Clone(terms), func(s string) bool { return s != want })); n != 1 {
				t.Errorf("%q gives %q %d times", form, want, n)
			}
			if !slices.Contains(when, want) {
				t.Errorf("the time of a record does not give %q", want)
			}
		}
	}
	if slices.Contains(when, "\x01d29") || !slices.Contains(when, "\x01w1") || !slices.Contains(when, "\x01y2026") {
		t.Errorf("the day is not that of the writer's zone: %q", when)
	}
}

// TestMemoryOfChunksChangesNothing analyses texts with one analyser and with a
// fresh one each.
func TestMemoryOfChunksChangesNothing(t *testing.T) {
	texts := []string{"May 5", "may", "Nov", "30", "It was Nov", "30 days", "foo.Bar foo.Bar", "2026年", "5月", "Don't", "don't"}
	a := NewAnalyser()
	for range 2 {
		for _, text := range texts {
			if got, want := a.texts(a.Append(nil, text)), analysed(text); !slices.Equal(got, want) {
				t.Errorf("%q: %q after other texts, %q alone", text, got, want)
			}
		}
	}
}

// TestTermsAreShownAsWritten holds what a reader sees of a match.
func TestTermsAreShownAsWritten(t *testing.T) {
	terms, _ := Terms("Happiest cfg.MaxRetries 会議 on Nov 30, 2026, Monday")
	var got []string
	for _, q := range terms {
		got = append(got, q.Shown)
	}
	want := []string{"Happiest", "cfg.MaxRetries", "cfg", "MaxRetries", "Max", "Retries", "会議", "Nov", "30", "2026", "Monday", "2026", "November", "day 30", "November 30", "Monday"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// FuzzAnalyser holds what is true of the terms of any bytes.
//
// RT-100
func FuzzAnalyser(f *testing.F) {
	for _, s := range []string{"", "Nov 30 2026年11月30日 周一", "a\xff\x00b\u0345ͅ", "ﬀ ǅ İ ẞ ΐ", "'’'s", "..a..b-_/", "١٢٣ 5月5月5月5月5月5月5月5月5月", "☕\u200d☕", strings.Repeat("x", 300), "a1b2c3d4e5"} {
		f.Add(s)
	}
	warm := NewAnalyser()
	f.Fuzz(func(t *testing.T, text string) {
		terms := analysed(text)
		// Every code point is in at most a whole, a segment, a part and a word, or in
		// two bigrams; a date of two code points has four words.
		if most := 4*len(text) + 8; len(terms) > most {
			t.Fatalf("%d terms of %d bytes", len(terms), len(text))
		}
		for _, term := range terms {
			if term == "" || len(term) > MaxTerm || !utf8.ValidString(term) {
				t.Fatalf("term %q", term)
			}
			if i := strings.IndexFunc(term, func(r rune) bool { return r <= ' ' || r == 0x7F }); i > 0 || i == 0 && term[0] != dateMark {
				t.Fatalf("term %q contains a separator", term)
			}
			if IsDateWord(term) {
				continue
			}
			fold := newFolder()
			if again := string(fold.folded(term)); again != term {
				t.Fatalf("folding %q again gives %q", term, again)
			}
		}
		if got := warm.texts(warm.Append(nil, text)); !slices.Equal(got, terms) {
			t.Fatalf("an analyser that has seen other texts gives %q, a fresh one %q", got, terms)
		}
		query, truncated := Terms(text)
		if len(query) > MaxQueryTerms || truncated && len(query) < MaxQueryTerms {
			t.Fatalf("%d query terms, truncated %v", len(query), truncated)
		}
		for _, q := range query {
			if !slices.ContainsFunc(terms, q.matches) {
				t.Fatalf("query term %q is no term of the same text", q.Term)
			}
		}
	})
}

// BenchmarkAnalyser reports the speed of the analyser beside that of a loop that
// only looks at every byte.
func BenchmarkAnalyser(b *testing.B) {
	docs := corpus(1, 2_000, 1)
	size := 0
	for _, d := range docs {
		size += len(d.Text)
	}
	b.SetBytes(int64(size))
	a := NewAnalyser()
	var ids []TermID
	for b.Loop() {
		for _, d := range docs {
			ids = a.Append(ids[:0], d.Text)
		}
	}
}
