package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"recalld/coordinator"
	"recalld/ingest"
)

//go:embed sample/questions.jsonl
var sampleQuestions []byte

var rewriteHits = flag.Bool("rewrite-hits", false, "write testdata/hits.txt anew")

// question is a line of sample/questions.jsonl.
type question struct {
	Agent, Project string
	Channel        *string
	Question       string
	Lang           string
	Expect         []string
	Kind           string
}

func questions(t *testing.T) []question {
	t.Helper()
	var all []question
	for line := range bytes.Lines(sampleQuestions) {
		var q question
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&q); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, q)
	}
	return all
}

// answeredBy reports whether the row is an answer, as sample/README.md says.
func (q question) answeredBy(r coordinator.Row) bool {
	return slices.ContainsFunc(q.Expect, func(e string) bool {
		return r.MessageID == e || strings.Contains(r.Content, e)
	})
}

// sampled opens a folder that is filled with the sample corpus.
func sampled(t *testing.T) *session {
	t.Helper()
	a := newApp(t.TempDir())
	s, err := a.openToServe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := a.fill(t.Context(), s, sampleCorpus); err != nil {
		t.Fatal(err)
	}
	return s
}

// Every question of the sample is asked in its scope, by default settings. The
// share of answers among the first five rows must not fall below what is
// recorded, for any kind of question; -rewrite-hits records it anew. No row
// comes from another agent or from a project that was not asked.
//
// RR-439, RR-440
func TestSampleQuestions(t *testing.T) {
	s := sampled(t)
	agentOf := map[string]string{}
	reader := ingest.NewReader(bytes.NewReader(sampleCorpus))
	for item, _, err := reader.Next(); err == nil; item, _, err = reader.Next() {
		agentOf[item.Content+item.Summary] = item.Agent
	}
	const top = 5
	hits, asked := map[string]int{}, map[string]int{}
	for _, q := range questions(t) {
		answer, err := s.Recall(t.Context(), coordinator.RecallRequest{Agent: q.Agent, Project: &q.Project, Channel: q.Channel, Query: q.Question, FullContent: true})
		if err != nil {
			t.Fatalf("%s: %v", q.Question, err)
		}
		found := 0
		for i, row := range answer.Rows {
			if row.Project != "" && row.Project != q.Project || agentOf[row.Content] != q.Agent {
				t.Errorf("%s, asked by %s in %q: %s is of %s, %q", q.Question, q.Agent, q.Project, row.Ref, agentOf[row.Content], row.Project)
			}
			if found == 0 && q.answeredBy(row) {
				found = i + 1
			}
		}
		asked[q.Kind]++
		if found > 0 && found <= top {
			hits[q.Kind]++
		} else {
			t.Logf("%s, %s: %s (the answer is row %d of %d)", q.Kind, q.Lang, q.Question, found, len(answer.Rows))
		}
	}
	const golden = "testdata/hits.txt"
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(asked)) {
		fmt.Fprintf(&b, "%s %d of %d\n", kind, hits[kind], asked[kind])
	}
	t.Logf("answers among the first %d rows:\n%s", top, b.String())
	if *rewriteHits {
		if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	recorded, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(recorded)) {
		var kind string
		var n, of int
		if _, err := fmt.Sscanf(line, "%s %d of %d", &kind, &n, &of); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if asked[kind] != of {
			t.Errorf("%s: %d questions, %d recorded", kind, asked[kind], of)
		}
		if hits[kind] < n {
			t.Errorf("%s: %d answers among the first %d rows, %d recorded", kind, hits[kind], top, n)
		}
		delete(asked, kind)
	}
	for kind := range asked {
		t.Errorf("%s is not recorded", kind)
	}
}
