package lexical

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"recalld/memory"
)

// at is a time for rows of tests.
func at(s string) memory.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return memory.TimeOf(t)
}

func mem(id int64) memory.Ref { return memory.Ref{Kind: memory.KindMemory, ID: id} }

// each yields docs.
func each(docs []Doc) iter.Seq2[Doc, error] {
	return func(yield func(Doc, error) bool) {
		for _, d := range docs {
			if !yield(d, nil) {
				return
			}
		}
	}
}

// seal returns docs as an opened file.
func seal(t testing.TB, docs ...Doc) *File {
	t.Helper()
	b := NewBuilder()
	for _, d := range docs {
		b.Add(d)
	}
	coded, err := b.Seal()
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(coded)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func mustSearch(t testing.TB, x *Index, q Query) Result {
	t.Helper()
	res, err := x.Search(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// genText draws words of three languages, dates and identifiers from a small
// vocabulary, so that rows share words and scores tie.
func genText(t *rapid.T) string {
	words := []string{"deploy", "deploys", "kettle", "Kyoto", "cfg.MaxRetries", "retries", "2026-11-30", "Nov 30",
		"会議", "会议", "東京の会議", "会", "議会の会", "cat", "cat cat cat", "I", "was", "☕", "v1.2.3", "11月30日", "Monday"}
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 6).Draw(t, "words"), " ")
}

// genDoc draws a row. Its id settles its cell: a record stands in one cell, and
// a tie of two rows is broken by the record alone.
func genDoc(t *rapid.T) Doc {
	id := rapid.Int64Range(1, 40).Draw(t, "id")
	return Doc{
		Cell:    Cell(1 + id%3),
		Ref:     memory.Ref{Kind: memory.Kind(rapid.IntRange(1, 2).Draw(t, "kind")), ID: id},
		Session: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "session"),
		Time:    rapid.SampledFrom([]memory.Time{{}, at("2026-11-30T23:30:00-08:00"), at("2025-11-03T01:00:00Z")}).Draw(t, "time"),
		Text:    genText(t),
	}
}

func genQuery(t *rapid.T) Query {
	return Query{
		Text:    genText(t) + " " + genText(t),
		Cells:   rapid.SampledFrom([][]Cell{{1}, {2, 1}, {1, 2, 3}, {3, 3, 9}}).Draw(t, "cells"),
		Kind:    memory.Kind(rapid.IntRange(1, 2).Draw(t, "of kind")),
		K:       rapid.IntRange(1, 12).Draw(t, "k"),
		Explain: true,
	}
}

// world is an index beside the plain list of rows that it should be equal to.
type world struct {
	x     *Index
	files []*File
	live  map[Cell]map[memory.Ref]Doc
}

func (w *world) docs() []Doc {
	var docs []Doc
	for _, rows := range w.live {
		for _, d := range rows {
			docs = append(docs, d)
		}
	}
	slices.SortFunc(docs, func(a, b Doc) int { return memory.CompareRefs(a.Ref, b.Ref) })
	return docs
}

func (w *world) put(d Doc) {
	if w.live[d.Cell] == nil {
		w.live[d.Cell] = map[memory.Ref]Doc{}
	}
	w.live[d.Cell][d.Ref] = d
}

// TestEveryCutGivesEqualBytes changes an index at random, seals and merges it at
// random, and after each step compares it with direct reading, with the plain
// ranking, and with a file built from nothing.
//
// RR-224, RT-098: one order, one answer, whatever the cut into files, memory and
// deletions; statistics of the scope alone.
func TestEveryCutGivesEqualBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{x: NewIndex(), live: map[Cell]map[memory.Ref]Doc{}}
		merge := func(files []*File, recent bool) {
			coded, err := w.x.Merge(files, recent)
			if err != nil {
				t.Fatal(err)
			}
			f, err := Open(coded)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Verify(); err != nil {
				t.Fatal(err)
			}
			if err := w.x.Replace(files, recent, f); err != nil {
				t.Fatal(err)
			}
			w.files = append(slices.DeleteFunc(slices.Clone(w.files), func(f *File) bool { return slices.Contains(files, f) }), f)
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				docs := rapid.SliceOfN(rapid.Custom(genDoc), 1, 12).Draw(t, "docs")
				if err := w.x.Put(docs...); err != nil {
					t.Fatal(err)
				}
				for _, d := range docs {
					w.put(d)
				}
			},
			"delete": func(t *rapid.T) {
				d := genDoc(t)
				if err := w.x.Delete(d.Cell, d.Ref); err != nil {
					t.Fatal(err)
				}
				delete(w.live[d.Cell], d.Ref)
			},
			"seal": func(t *rapid.T) { merge(nil, true) },
			"compact": func(t *rapid.T) {
				n := rapid.IntRange(0, len(w.files)).Draw(t, "files")
				merge(slices.Clone(w.files[:n]), rapid.Bool().Draw(t, "recent"))
			},
			"": func(t *rapid.T) {
				q := genQuery(t)
				docs := w.docs()
				want := plainSearch(docs, q)
				got, err := w.x.Search(context.Background(), q)
				if err != nil {
					t.Fatal(err)
				}
				if !equalHits(got.Hits, want) {
					t.Fatalf("index:\n%v\nplain:\n%v", got.Hits, want)
				}
				direct, err := Scan(context.Background(), each(docs), q)
				if err != nil {
					t.Fatal(err)
				}
				direct.PostingsTouched = got.PostingsTouched
				if !reflect.DeepEqual(direct, got) {
					t.Fatalf("direct:\n%+v\nindex:\n%+v", direct, got)
				}
				all, err := w.x.Merge(w.files, true)
				if err != nil {
					t.Fatal(err)
				}
				b := NewBuilder()
				for _, d := range docs {
					b.Add(d)
				}
				anew, err := b.Seal()
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(all, anew) {
					t.Fatal("merging gives other bytes than building from the live rows")
				}
			},
		})
	})
}

func equalHits(a, b []Hit) bool {
	return slices.EqualFunc(a, b, func(a, b Hit) bool {
		return a.Ref == b.Ref && a.Score == b.Score && slices.Equal(a.Matches, b.Matches)
	})
}

// corpus returns n rows of words whose frequencies fall like a language's, in
// sessions of about twenty rows.
func corpus(seed uint64, n int, cell Cell) []Doc {
	r := rand.New(rand.NewPCG(seed, 7))
	zipf := rand.NewZipf(r, 1.1, 3, 4000)
	docs := make([]Doc, n)
	for i := range docs {
		var b strings.Builder
		fmt.Fprintf(&b, "speaker%d:", i%2)
		for range 1 + r.IntN(12) {
			fmt.Fprintf(&b, " w%dx", zipf.Uint64())
		}
		docs[i] = Doc{Cell: cell, Ref: mem(int64(i + 1)), Session: fmt.Sprint("session ", i/20), Text: b.String(),
			Time: memory.Time{Milli: 1_700_000_000_000 + int64(i)*600_000, Known: true}}
	}
	return docs
}

// TestPruningGivesTheExhaustiveAnswer searches a cell of many windows and blocks
// with and without pruning.
//
// DECISIONS 2: pruning is exact.
func TestPruningGivesTheExhaustiveAnswer(t *testing.T) {
	docs := corpus(1, 12_000, 1)
	x := NewIndex(seal(t, docs[:9_000]...))
	if err := x.Put(docs[9_000:]...); err != nil {
		t.Fatal(err)
	}
	var live []Doc
	for _, d := range docs {
		if d.Ref.ID < 9_000 && d.Ref.ID%97 == 5 {
			if err := x.Delete(1, d.Ref); err != nil {
				t.Fatal(err)
			}
			continue
		}
		live = append(live, d)
	}
	r := rand.New(rand.NewPCG(2, 2))
	zipf := rand.NewZipf(r, 1.05, 20, 4000)
	saved := int64(0)
	for i := range 300 {
		text := "speaker1 2023"
		for range 1 + r.IntN(6) {
			text += fmt.Sprintf(" w%dx", zipf.Uint64())
		}
		q := Query{Text: text, Cells: []Cell{1}, Kind: memory.KindMemory, K: 1 + r.IntN(50)}
		pruned := mustSearch(t, x, q)
		whole := exhaustive(t, x, q)
		if i < 5 && !equalHits(whole.Hits, plainSearch(live, q)) {
			t.Fatalf("query %q: the exhaustive answer is not that of the plain ranking", q.Text)
		}
		if !equalHits(pruned.Hits, whole.Hits) {
			t.Fatalf("query %q, k %d: pruned\n%v\nexhaustive\n%v", q.Text, q.K, pruned.Hits, whole.Hits)
		}
		saved += whole.PostingsTouched - pruned.PostingsTouched
	}
	if saved <= 0 {
		t.Error("pruning never saved a posting: the test says nothing")
	}
}

// exhaustive answers a query without pruning.
func exhaustive(t testing.TB, x *Index, q Query) Result {
	t.Helper()
	terms, _ := Terms(q.Text)
	s := search{kind: q.Kind, terms: terms, keep: q.Keep, top: top{k: q.K}, exhaust: true}
	for _, c := range q.Cells {
		v, err := x.view(place{c, q.Kind})
		if err != nil {
			t.Fatal(err)
		}
		if v != nil {
			s.views = append(s.views, *v)
		}
	}
	res, err := s.run(context.Background(), q.Explain)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestOtherCellsChangeNothing asks one cell alone and beside fifty thousand
// foreign words, in every arrangement.
//
// RR-439, DECISIONS 1: an agent's scope is all that an answer is made of.
func TestOtherCellsChangeNothing(t *testing.T) {
	own := corpus(3, 500, 7)
	foreign := append(corpus(4, 3_000, 6), corpus(5, 3_000, 8)...)
	alone := NewIndex(seal(t, own...))
	beside := NewIndex(seal(t, append(slices.Clone(foreign), own...)...))
	between := NewIndex(seal(t, own...), seal(t, foreign[:4_000]...))
	if err := between.Put(foreign[4_000:]...); err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		q := Query{Text: own[i*8].Text, Cells: []Cell{7}, Kind: memory.KindMemory, K: 20, Explain: true}
		want := mustSearch(t, alone, q)
		if len(want.Hits) == 0 || want.Rows != 500 {
			t.Fatalf("a row's own text finds %d of %d rows", len(want.Hits), want.Rows)
		}
		for name, x := range map[string]*Index{"in one file": beside, "in two files and memory": between} {
			if got := mustSearch(t, x, q); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: %+v\nalone: %+v", name, got, want)
			}
		}
	}
}

// TestTiesFallToTheOrder gives many rows one score.
//
// RR-224: ties end in the written order, id ascending.
func TestTiesFallToTheOrder(t *testing.T) {
	var docs []Doc
	for _, id := range rand.New(rand.NewPCG(1, 1)).Perm(300) {
		docs = append(docs, Doc{Cell: Cell(1 + id%3), Ref: mem(int64(id + 1)), Text: "kettle"})
	}
	x := NewIndex(seal(t, docs[:200]...))
	if err := x.Put(docs[200:]...); err != nil {
		t.Fatal(err)
	}
	res := mustSearch(t, x, Query{Text: "kettle", Cells: []Cell{3, 1, 2}, Kind: memory.KindMemory, K: 40})
	for i, h := range res.Hits {
		if h.Ref != mem(int64(i+1)) || h.Score != res.Hits[0].Score {
			t.Fatalf("hit %d is %v with %d, best %d", i, h.Ref, h.Score, res.Hits[0].Score)
		}
	}
	if len(res.Hits) != 40 {
		t.Fatalf("%d hits", len(res.Hits))
	}
}

// TestNeighboursLendWordsInsideTheirSession holds the gate of the neighbour
// field: session, cell and kind.
//
// DECISIONS 17, RR-439
func TestNeighboursLendWordsInsideTheirSession(t *testing.T) {
	docs := []Doc{
		{Cell: 1, Ref: mem(1), Session: "s", Text: "Did you repair the kettle?"},
		{Cell: 1, Ref: mem(2), Session: "s", Text: "Yesterday, yes."},
		{Cell: 1, Ref: mem(3), Session: "s", Text: "Good morning."},
		{Cell: 1, Ref: mem(4), Session: "s", Text: "Welcome."},
		{Cell: 1, Ref: mem(5), Session: "s", Text: "Four rows away."},
		{Cell: 1, Ref: mem(6), Session: "other", Text: "Yesterday, yes."},
		{Cell: 1, Ref: mem(7), Text: "Yesterday, yes."},
		{Cell: 2, Ref: mem(8), Session: "s", Text: "Yesterday, yes."},
		{Cell: 1, Ref: memory.Ref{Kind: memory.KindEpisode, ID: 2}, Session: "s", Text: "Yesterday, yes."},
	}
	recent := NewIndex()
	if err := recent.Put(docs...); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]*Index{"sealed": NewIndex(seal(t, docs...)), "recent": recent} {
		res := mustSearch(t, x, Query{Text: "kettle", Cells: []Cell{1, 2}, Kind: memory.KindMemory, K: 10})
		var got []int64
		for _, h := range res.Hits {
			got = append(got, h.Ref.ID)
		}
		if want := []int64{1, 2, 3, 4}; !slices.Equal(got, want) {
			t.Errorf("%s: hits %v, want %v: nearer rows first, none of another session, cell or kind", name, got, want)
		}
		if res := mustSearch(t, x, Query{Text: "kettle", Cells: []Cell{1}, Kind: memory.KindEpisode, K: 10}); len(res.Hits) != 0 {
			t.Errorf("%s: an episode was found by a memory's word: %v", name, res.Hits)
		}
	}
}

// TestDeletedRowLendsNothing deletes a row and looks for its words in its
// neighbours and in the bytes written afterwards.
//
// DECISIONS 14
func TestDeletedRowLendsNothing(t *testing.T) {
	docs := []Doc{
		{Cell: 1, Ref: mem(1), Session: "s", Text: "Good morning."},
		{Cell: 1, Ref: mem(2), Session: "s", Text: "The zyzzyva password is plugh."},
		{Cell: 1, Ref: mem(3), Session: "s", Text: "Thanks."},
		{Cell: 2, Ref: mem(4), Session: "s", Text: "Nothing here."},
	}
	for _, where := range []string{"sealed", "recent"} {
		f := seal(t, docs...)
		x := NewIndex(f)
		if where == "recent" {
			x = NewIndex()
			if err := x.Put(docs...); err != nil {
				t.Fatal(err)
			}
		}
		q := Query{Text: "zyzzyva plugh", Cells: []Cell{1}, Kind: memory.KindMemory, K: 10}
		if n := len(mustSearch(t, x, q).Hits); n != 3 {
			t.Fatalf("%s: %d hits before the deletion, want the row and its neighbours", where, n)
		}
		if err := x.Delete(1, mem(2)); err != nil {
			t.Fatal(err)
		}
		if res := mustSearch(t, x, q); len(res.Hits) != 0 || len(res.Terms) != 0 || res.Rows != 2 {
			t.Errorf("%s: after the deletion %+v", where, res)
		}
		var files []*File
		if where == "sealed" {
			files = []*File{f}
		}
		coded, err := x.Merge(files, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"zyzzyva", "plugh", "password", "zyz"} {
			if bytes.Contains(coded, []byte(word)) {
				t.Errorf("%s: the merged file contains %q", where, word)
			}
		}
	}
}

// TestMatchesExplainTheScore holds that the parts of an explanation add up.
func TestMatchesExplainTheScore(t *testing.T) {
	docs := corpus(9, 3_000, 1)
	x := NewIndex(seal(t, docs...))
	for i := range 40 {
		res := mustSearch(t, x, Query{Text: docs[i*70].Text + " November 2023", Cells: []Cell{1}, Kind: memory.KindMemory, K: 25, Explain: true})
		for _, h := range res.Hits {
			sum := uint32(0)
			for _, m := range h.Matches {
				sum += m.Score
			}
			if sum != h.Score {
				t.Fatalf("%v: matches %v add up to %d, the score is %d", h.Ref, h.Matches, sum, h.Score)
			}
		}
	}
	if got := mustSearch(t, x, Query{Text: "speaker1 in November", Cells: []Cell{1}, Kind: memory.KindMemory, K: 1, Explain: true}); got.Hits[0].Matches == nil || !slices.Contains(got.Terms, "speaker1") {
		t.Errorf("%+v", got)
	}
}

// TestKeepChangesNoScore leaves rows out of an answer.
//
// RR-443: what is left out of an answer still counts in its statistics.
func TestKeepChangesNoScore(t *testing.T) {
	docs := corpus(11, 2_000, 1)
	x := NewIndex(seal(t, docs...))
	q := Query{Text: docs[77].Text, Cells: []Cell{1}, Kind: memory.KindMemory, K: 2_000}
	all := mustSearch(t, x, q)
	q.Keep = func(r memory.Ref) bool { return r.ID%3 != 0 }
	q.K = 10
	kept := mustSearch(t, x, q)
	want := slices.DeleteFunc(all.Hits, func(h Hit) bool { return !q.Keep(h.Ref) })[:10]
	if !equalHits(kept.Hits, want) {
		t.Errorf("got %v, want %v", kept.Hits, want)
	}
}

// TestOddQueriesAreAnswered asks what people and machines also ask.
//
// RR-401, DECISIONS 16: short, odd and huge queries are answered.
func TestOddQueriesAreAnswered(t *testing.T) {
	x := NewIndex(seal(t, Doc{Cell: 1, Ref: mem(1), Text: "hello NEAR(a, b) \"quoted\" 会"}))
	for _, text := range []string{"", " ", "?", "会", "a", "NEAR(\"x\" OR *", "\x00\xff", "☕", strings.Repeat("word ", 20_000), strings.Repeat("漢字", 50_000)} {
		if _, err := x.Search(context.Background(), Query{Text: text, Cells: []Cell{1, 99}, Kind: memory.KindMemory, K: 5}); err != nil {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	for _, q := range []Query{{K: 0, Kind: memory.KindMemory}, {K: MaxHits + 1, Kind: memory.KindMemory}, {K: 1}} {
		if _, err := x.Search(context.Background(), q); err == nil {
			t.Errorf("%+v was accepted", q)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := x.Search(ctx, Query{Text: "hello", Cells: []Cell{1}, Kind: memory.KindMemory, K: 5}); err != context.Canceled {
		t.Errorf("a cancelled search returned %v", err)
	}
}

// TestLongQueriesSayThatTheyWereCut holds the limit of 64 terms.
//
// DECISIONS 16
func TestLongQueriesSayThatTheyWereCut(t *testing.T) {
	var words []string
	for i := range 65 {
		words = append(words, fmt.Sprintf("word%dq", i))
	}
	for n, cut := range map[int]bool{len(words): true, 10: false} {
		text := strings.Join(words[:n], " ")
		terms, truncated := Terms(text)
		if truncated != cut || len(terms) > MaxQueryTerms {
			t.Errorf("%d words: %d terms, truncated %v", n, len(terms), truncated)
		}
	}
}
