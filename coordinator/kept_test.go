package coordinator

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"recalld/ingest"
	"recalld/sqlite"
)

const hashDims = 512 // of the backend hash

// keptLines are the items of an export that keeps everything.
func keptLines(t *testing.T, b *bench, agent string) (items []StoreItem) {
	t.Helper()
	if err := b.Export(t.Context(), ExportRequest{Agent: agent, Kept: true}, func(line json.RawMessage) error {
		var item StoreItem
		if err := json.Unmarshal(line, &item); err != nil {
			return err
		}
		items = append(items, item)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return items
}

func storing(t *testing.T, b *bench, r StoreRequest) []StoreResult {
	t.Helper()
	answer, err := b.Store(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Results
}

var threeLanguages = []string{"The staging database moved to db-7.", "障害の原因は接続プールの枯渇だった。", "会议改到星期三。"}

// What one store exports another one keeps: numbers, vectors, times; and answers
// the same. The vectors are compared, not believed.
// DECISIONS 10
func TestVectorsThatComeAlongAreUsedWhereTheyAreTheModels(t *testing.T) {
	a := open(t, map[string]string{"embedding.backend": "hash"})
	for _, text := range threeLanguages {
		a.put("mia", say(text))
	}
	a.put("mia", StoreItem{Type: "episode", Summary: "週次レビュー"})
	items := keptLines(t, a, "mia")
	b := open(t, map[string]string{"embedding.backend": "hash"})
	dry := storing(t, b, StoreRequest{Agent: "mia", Items: items, DryRun: true})
	results := storing(t, b, StoreRequest{Agent: "mia", Items: items})
	for i, r := range results {
		if r.Outcome != OutcomeStored || r.Embed != EmbedKept || dry[i] != r {
			t.Errorf("item %d: %+v, in the dry run %+v", i, r, dry[i])
		}
	}
	for _, query := range []string{"where is the staging database?", "障害の原因", "会议改到哪天?"} {
		one, two := a.recall(RecallRequest{Agent: "mia", Query: query}), b.recall(RecallRequest{Agent: "mia", Query: query})
		if encode(t, one) != encode(t, two) {
			t.Errorf("%s: %s\nand %s", query, encode(t, one), encode(t, two))
		}
	}
	if again := keptLines(t, b, "mia"); encode(t, again) != encode(t, items) {
		t.Errorf("exported again: %s\nwant %s", encode(t, again), encode(t, items))
	}
	for _, r := range storing(t, b, StoreRequest{Agent: "mia", Items: items}) {
		if r.Outcome != sqlite.OutcomeSkipped {
			t.Errorf("again: %+v", r)
		}
	}
}

// A vector that says the model's name and is another's is not used: its model is
// kept beside, and the text is embedded.
// DECISIONS 10
func TestVectorsOfAnotherModelAreKeptBeside(t *testing.T) {
	for _, label := range []string{"", "hash-ngram-v1", "bge-m3"} {
		b := open(t, map[string]string{"embedding.backend": "hash"})
		b.put("mia", say("something first"))
		var items []StoreItem
		for i, text := range threeLanguages {
			vector := make([]float32, hashDims)
			vector[i] = 2
			items = append(items, StoreItem{Content: text, Kept: &ingest.Kept{Vector: writeVector(vector), Model: label}})
		}
		if dry := storing(t, b, StoreRequest{Agent: "mia", Items: items, DryRun: true}); dry[0].Embed == EmbedKept || len(mustModels(t, b)) != 1 {
			t.Errorf("%q: dry run %+v, models %v", label, dry, mustModels(t, b))
		}
		for i, r := range storing(t, b, StoreRequest{Agent: "mia", Items: items}) {
			if r.Outcome != OutcomeStored || r.Embed != EmbedQueued {
				t.Errorf("%q: item %d: %+v", label, i, r)
			}
		}
		name := label
		if name == "" {
			name = "unnamed"
		}
		models := mustModels(t, b)
		if len(models) != 2 || models[1].Backend != BackendImport || models[1].Name != name || models[1].State != sqlite.ModelKept || models[1].Embedded != 3 {
			t.Errorf("%q: models %+v", label, models)
		}
		if answer := b.recall(RecallRequest{Agent: "mia", Query: "staging database"}); answer.Coverage.Records != 4 {
			t.Errorf("%q: coverage %+v", label, answer.Coverage)
		}
	}
}

func mustModels(t *testing.T, b *bench) []ModelState {
	t.Helper()
	all, err := b.Models(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Without a model of its own, a store takes the vectors' model as the active one;
// the operator who configures it says that it is the same.
func TestVectorsComeBeforeTheirModel(t *testing.T) {
	a := open(t, map[string]string{"embedding.backend": "hash"})
	a.put("mia", say(threeLanguages[0]), say(threeLanguages[1]))
	items := keptLines(t, a, "mia")
	b := open(t, map[string]string{"embedding.backend": "none"})
	for _, r := range storing(t, b, StoreRequest{Agent: "mia", Items: items}) {
		if r.Outcome != OutcomeStored {
			t.Errorf("%+v", r)
		}
	}
	if m := mustModels(t, b); len(m) != 1 || m[0].State != sqlite.ModelActive || m[0].Embedded != 2 {
		t.Errorf("models %+v", m)
	}
}

func TestKeptThatDoesNotFitIsRefused(t *testing.T) {
	b := open(t, map[string]string{"embedding.backend": "hash"})
	for want, item := range map[string]StoreItem{
		"kept.id":      {Content: "x", Kept: &ingest.Kept{ID: -1}},
		"kept.recalls": {Content: "x", Kept: &ingest.Kept{Recalls: -1}},
		"kept.created": {Content: "x", Kept: &ingest.Kept{Created: "2026-03-03"}},
		"kept.vector":  {Content: "x", Kept: &ingest.Kept{Vector: "AACA"}},
		"kept.model":   {Content: "x", Kept: &ingest.Kept{Model: strings.Repeat("m", 300)}},
		"version":      {Content: "x", MessageID: "m", Version: 2},
	} {
		for _, dry := range []bool{true, false} {
			r := storing(t, b, StoreRequest{Agent: "mia", Items: []StoreItem{item}, DryRun: dry})[0]
			if r.Outcome != OutcomeRejected || !strings.HasPrefix(r.Error, want+":") {
				t.Errorf("%s: %+v", want, r)
			}
		}
	}
	// A vector without a direction is none.
	r := storing(t, b, StoreRequest{Agent: "mia", Items: []StoreItem{{Content: "x", Kept: &ingest.Kept{Vector: writeVector(make([]float32, hashDims))}}}})[0]
	if r.Embed != EmbedDone {
		t.Errorf("%+v", r)
	}
}

// A profile that is older than what is there changes nothing.
func TestAnOlderProfileChangesNothing(t *testing.T) {
	b := open(t, map[string]string{"embedding.backend": "hash"})
	profile := func(text, updated string) StoreItem {
		return StoreItem{Type: "profile", UserID: "ken", Content: text, Kept: &ingest.Kept{Updated: updated}}
	}
	var got []string
	for _, item := range []StoreItem{profile("短い", "2026-03-02T00:00:00Z"), profile("older", "2026-03-01T00:00:00Z"), profile("newer", "2026-03-03T00:00:00Z")} {
		got = append(got, storing(t, b, StoreRequest{Agent: "mia", Items: []StoreItem{item}})[0].Outcome)
	}
	held, err := b.Profiles(t.Context(), "mia", nil)
	if err != nil || fmt.Sprint(got) != "[stored skipped stored]" || len(held) != 1 || held[0].Content != "newer" || held[0].Updated.String() != "2026-03-03T00:00:00Z" {
		t.Errorf("%v, %+v, %v", got, held, err)
	}
}
