package coordinator

import (
	"slices"
	"testing"

	"recalld/coordinator/admission"
	"recalld/sqlite"
)

// DECISIONS 18, RR-074: one word that a question shares with rows by chance does
// not outvote the vectors, every row says how much the words weighed, and the
// setting 0 gives the ranking back that it had; what has the question's words
// keeps its weight.
func TestWordsByChanceDoNotOutvoteVectors(t *testing.T) {
	b := open(t, nil)
	l := newLanguage(12)
	for i := range 60 {
		b.put("mia", say(l.sentence(9)+[]string{"", " kettle"}[i%4/3]))
	}
	b.put("mia", say("the kettle stands on the shelf"))
	model, ok, err := b.store.ActiveModel(t.Context(), "mia")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if err := b.store.PutCalibration(t.Context(), sqlite.Calibration{Agent: "mia", Model: model.ID, Dims: model.Dims, Signal: "vector_share", Threshold: .3, ScoringVersion: admission.ScoringVersion}); err != nil {
		t.Fatal(err)
	}
	meant := b.put("mia", say("glasharmonicas rehearsals, thunderstorms and violins"))[0]
	ask := func(r RecallRequest) []Row {
		t.Helper()
		r.Agent, r.Gate = "mia", "off"
		return b.recall(r).Rows
	}
	other := RecallRequest{Query: "glassharmonica rehersal thunderstormy violinistic kettle"}
	words, vectors := other, other
	words.Arms, vectors.Arms = []string{"lexical"}, []string{"vector"}
	if w, v := ask(words), ask(vectors); len(w) < 10 || v[0].Ref != meant || slices.Contains(refsIn(w), meant) {
		t.Fatalf("words find %v, vectors %v: this fixture proves nothing", refsIn(w), refsIn(v))
	}
	if rows := ask(other); rows[0].Ref != meant {
		t.Errorf("in other words: %s", encode(t, rows[:2]))
	}
	for _, row := range ask(other) {
		if e := row.MatchReason.Evidence; e == nil || *e <= 0 || *e > .5 {
			t.Errorf("%s does not say what the words weighed: %s", row.Ref, encode(t, row.MatchReason))
		}
	}

	exact := RecallRequest{Query: "which kettle stands on the shelf?"}
	ranked := other
	ranked.Fusion = "rrf"
	for name, r := range map[string]RecallRequest{"exact words": exact, "one arm": words, "by rank": ranked} {
		for _, row := range ask(r) {
			if row.MatchReason.Evidence != nil {
				t.Errorf("%s: words lose weight: %s", name, encode(t, row.MatchReason))
			}
		}
	}
	if _, err := b.SetSetting(t.Context(), "fusion.evidence", "0"); err != nil {
		t.Fatal(err)
	}
	if rows := ask(other); rows[0].Ref == meant || rows[0].MatchReason.Evidence != nil {
		t.Errorf("switched off: %s", encode(t, rows[:2]))
	}
}

// DECISIONS 18: the better kind counts, since both are on one scale; words that
// only episodes have are not weighed down because no memory has them.
func TestEvidenceOfTheBetterKind(t *testing.T) {
	b := open(t, nil)
	b.put("mia", say("the harbour office closes at five"), say("soup for lunch"))
	b.put("mia", StoreItem{Type: "episode", Summary: "planning the harbour festival with lanterns and boats"}, StoreItem{Type: "episode", Summary: "gardening"})
	rows := b.recall(RecallRequest{Agent: "mia", Query: "harbour festival lanterns boats", Gate: "off"}).Rows
	if rows[0].Ref != "ep:1" || rows[0].MatchReason.Evidence != nil {
		t.Errorf("%s", encode(t, rows))
	}
}
