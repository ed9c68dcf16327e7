package sqlite_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cockroachdb/datadriven"

	"recalld/memory"
	"recalld/sqlite"
)

// TestFTS runs testdata/fts: stores are texts, queries are matched against them.
// RR-401, RR-402, RR-442
func TestFTS(t *testing.T) {
	datadriven.Walk(t, "testdata/fts", func(t *testing.T, path string) {
		s, _ := openStore(t, sqlite.Options{Clock: fixed})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			source := ""
			if d.HasArg("source") {
				d.ScanArgs(t, "source", &source)
			}
			depth := 10
			if d.HasArg("depth") {
				d.ScanArgs(t, "depth", &depth)
			}
			scope := memory.Scope{Agent: "a"}
			var b strings.Builder
			show := func(found []memory.Candidate, truncated bool, err error) string {
				if err != nil {
					return err.Error() + "\n"
				}
				for _, c := range found {
					r := recall(t, s, "a", c.Ref)
					fmt.Fprintf(&b, "%s %s\n", c.Ref, r[0].Content)
				}
				if truncated {
					b.WriteString("truncated\n")
				}
				return b.String()
			}
			input := strings.NewReplacer(`\t`, "\t", `\n`, "\n").Replace(d.Input)
			switch d.Cmd {
			case "store":
				for _, line := range strings.Split(d.Input, "\n") {
					r := store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: line, Source: memory.Source{ID: source}})
					fmt.Fprintf(&b, "%s %s\n", r[0].Outcome, r[0].Ref)
				}
				return b.String()
			case "query":
				q := sqlite.BuildFTSQuery(input)
				fmt.Fprintf(&b, "%s\n", q.Match)
				if q.Truncated {
					b.WriteString("truncated\n")
				}
				return b.String()
			case "match":
				v := view(t, s)
				defer v.Close()
				return show(v.MatchFTS(scope, memory.KindMemory, sqlite.BuildFTSQuery(input), depth, source))
			case "substring":
				v := view(t, s)
				defer v.Close()
				return show(v.Substring(scope, input, depth, source))
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

// FuzzFTSQuery: any text makes a query that FTS5 accepts and that stays in
// bounds, and no text upsets the substring search.
// RR-401
func FuzzFTSQuery(f *testing.F) {
	for _, seed := range []string{"", "a", "NEAR(x y)", `"" OR AND NOT *^:{}`, "東京都 タワー", "🍣🍣🍣", "%_\\", "a-b.c/d", strings.Repeat("long", 300), "x\x00y", "\xff\xfe"} {
		f.Add(seed)
	}
	s, _ := openStore(f, sqlite.Options{Clock: fixed})
	store(f, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "the quick brown fox 東京タワー"})
	f.Fuzz(func(t *testing.T, text string) {
		q := sqlite.BuildFTSQuery(text)
		if q.Terms > 64 || (q.Match == "") != (q.Terms == 0) || len(q.Match) > 64*(2*4*256+6) {
			t.Fatalf("%d terms, %d bytes", q.Terms, len(q.Match))
		}
		v := view(t, s)
		defer v.Close()
		if _, _, err := v.MatchFTS(memory.Scope{Agent: "a"}, memory.KindMemory, q, 5, ""); err != nil {
			t.Fatalf("%q: %v", q.Match, err)
		}
		if _, _, err := v.Substring(memory.Scope{Agent: "a"}, text, 5, ""); err != nil && utf8.ValidString(text) {
			t.Fatal(err)
		}
	})
}

// A substring is found through the trigram index as it is by reading every text: of
// what waits for the index as well, in every scope, and beside a damaged index.
// RR-402
func TestSubstringByIndexIsSubstringByReading(t *testing.T) {
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	pieces := []string{"kettle", "Kettle ", "KETTLE", "やかん", "が鳴る", "水壶", "响了", " ", "\"", "'", "*", "AND ", "%_", "é", "É", "☕", "x", "-", "\n"}
	r := rand.New(rand.NewPCG(4, 2))
	text := func(n int) (text string) {
		for range n {
			text += pieces[r.IntN(len(pieces))]
		}
		return text
	}
	put := func(n int) {
		t.Helper()
		for range n {
			store(t, s, sqlite.NewMemory{Cell: cell([]string{"a", "b"}[r.IntN(2)], []string{"", "p", "q"}[r.IntN(3)], ""), Content: "." + text(1+r.IntN(8)) + "."})
		}
	}
	put(300)
	if err := view(t, s).Close(); err != nil { // the index holds all of them
		t.Fatal(err)
	}
	foreign(t, path, "DELETE FROM memory WHERE id % 17 = 0")
	put(5)
	v, err := s.ViewRecords(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { v.Close() }()
	if n, err := v.Unindexed(); n == 0 || err != nil {
		t.Fatalf("%d records wait for the index, %v", n, err)
	}
	project, some := "p", 0
	compare := func(query string) {
		t.Helper()
		for _, scope := range []memory.Scope{{Agent: "a"}, {Agent: "b"}, {Agent: "a", Project: &project}, {Agent: "nobody"}} {
			for _, depth := range []int{3, 1000} {
				s.ScanAtMost(1 << 40)
				want, cut, err := v.Substring(scope, query, depth, "")
				if err != nil {
					t.Fatal(err)
				}
				s.ScanAtMost(0)
				got, gotCut, err := v.Substring(scope, query, depth, "")
				if err != nil || !slices.Equal(got, want) || gotCut != cut {
					t.Fatalf("%q in %+v: got %v, %v, %v, want %v, %v", query, scope, got, gotCut, err, want, cut)
				}
				some += len(want)
			}
		}
	}
	for range 300 {
		query := []rune(text(1 + r.IntN(3)))
		compare(string(query[r.IntN(len(query)):]))
	}
	if some < 1000 {
		t.Errorf("only %d records were found", some)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	foreign(t, path, "UPDATE memory_fts_data SET block = x'00000000' WHERE id > 10")
	if v, err = s.ViewRecords(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := v.MatchFTS(memory.Scope{Agent: "a"}, memory.KindMemory, sqlite.BuildFTSQuery("kettle"), 5, ""); !errors.Is(err, memory.ErrCorrupt) {
		t.Fatalf("the index is not damaged: %v", err)
	}
	compare("Kettle")
	compare("やかん")
}

// TestPendingRecordsAreFound: a snapshot finds what was stored the moment before
// it, though the full-text index is written in batches; one that did not wait
// says how much is missing.
func TestPendingRecordsAreFound(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Clock: fixed})
	for i := range 3 {
		store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: fmt.Sprint("needle number ", i)})
		v := view(t, s)
		found, _, err := v.MatchFTS(memory.Scope{Agent: "a"}, memory.KindMemory, sqlite.BuildFTSQuery("needle"), 10, "")
		if n, _ := v.Unindexed(); err != nil || len(found) != i+1 || n != 0 {
			t.Errorf("found %v, %v, %d waiting", found, err, n)
		}
		v.Close()
	}
	r := make([]sqlite.NewMemory, 200)
	for i := range r {
		r[i] = sqlite.NewMemory{Cell: cell("a", "", ""), Content: fmt.Sprint("more ", i)}
	}
	store(t, s, r...)
	v, err := s.ViewRecords(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if n, err := v.Unindexed(); err != nil || n >= 64 {
		t.Errorf("%d records wait, %v", n, err)
	}
}
