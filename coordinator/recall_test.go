package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"recalld/coordinator/admission"
	"recalld/memory"
	"recalld/sqlite"
)

// days are facts of a week, one a day, in three languages.
func days() []StoreItem {
	var items []StoreItem
	for i, text := range []string{
		"The staging database moved to db-7 on 3 March.",
		"Mia takes the 7:40 train to Kyoto on Fridays.",
		"会議は毎週火曜日の朝にあります。",
		"ケンは猫を二匹飼っています。",
		"数据库备份在凌晨三点自动开始。",
		"The deploy failed because the disk was full.",
		"Ken's guitar lesson is on Thursday evening.",
		"The staging server runs Debian and listens on port 8443.",
	} {
		items = append(items, StoreItem{Content: text, Time: start.Add(time.Duration(i-8) * 24 * time.Hour).Format(time.RFC3339)})
	}
	return items
}

// RR-071, RR-066, RR-064: the number of rows asked for changes neither what any
// arm returns nor what fusion considers, only where the answer ends.
func TestCountNeverReachesAnArm(t *testing.T) {
	b := open(t, nil)
	l := newLanguage(5)
	for range 3 {
		items := make([]StoreItem, 60)
		for i := range items {
			items[i] = say(l.sentence(12))
		}
		b.put("mia", items...)
	}
	for _, query := range []string{"what did they have", "the", "for", l.sentence(6)} {
		var arms, gate string
		var longest []string
		for _, count := range []int{100, 1, 5, 37} {
			answer := b.recall(RecallRequest{Agent: "mia", Query: query, Count: count, Explain: true})
			if got := encode(t, answer.Explain.Arms); arms == "" {
				arms, gate, longest = got, encode(t, answer.Explain.Gate), refsIn(answer.Rows)
			} else if got != arms || encode(t, answer.Explain.Gate) != gate {
				t.Errorf("%q: count %d changed what was considered", query, count)
			}
			if got, want := refsIn(answer.Rows), longest[:min(count, len(longest))]; !slices.Equal(got, want) {
				t.Errorf("%q: count %d gave %v, want %v", query, count, got, want)
			}
			plain := b.recall(RecallRequest{Agent: "mia", Query: query, Count: count})
			if !slices.Equal(refsIn(plain.Rows), refsIn(answer.Rows)) {
				t.Errorf("%q: explaining changed the rows", query)
			}
		}
	}
	answer := b.recall(RecallRequest{Agent: "mia", Query: "the and was for that", Count: 1, Gate: "off", Explain: true})
	if n := len(answer.Explain.Arms[0].Candidates); n != answer.Explain.Depth || !answer.Explain.Arms[0].Truncated {
		t.Errorf("the vector arm handed over %d candidates of a depth of %d", n, answer.Explain.Depth)
	}
}

// RR-397, RR-402, RR-456, DECISIONS 16: three arms; a literal search, newest
// first, stands in for the memory arm when it finds nothing, and is no fourth
// arm. The compatibility arms answer only who names them.
func TestArmMembership(t *testing.T) {
	b := open(t, nil)
	refs := b.put("mia", say("100% sure_thing"), say("the cat 猫"), say("猫が好き"), say("100x sureXthing"), StoreItem{Type: "episode", Summary: "a staging episode about 猫"})
	arms := func(query string, names ...string) (found []string) {
		for _, a := range b.recall(RecallRequest{Agent: "mia", Query: query, Arms: names, Gate: "off", Explain: true}).Explain.Arms {
			found = append(found, a.Arm)
		}
		return found
	}
	for _, c := range []struct {
		query string
		asked []string
		want  []string
	}{
		{"staging cat", nil, []string{"vector", "lexical_memory", "lexical_episode"}},
		{"staging cat", []string{"all"}, []string{"vector", "lexical_memory", "lexical_episode"}},
		{"staging cat", []string{"vector", "fts"}, []string{"vector", "fts_memory", "fts_episode"}},
		{"staging cat", []string{"fts"}, []string{"fts_memory", "fts_episode"}},
		{"staging cat", []string{"vector"}, []string{"vector"}},
		{"猫", nil, []string{"vector", "lexical_memory", "lexical_episode"}},
		{"猫", []string{"fts"}, []string{"keyword", "fts_episode"}},
		{"0%", []string{"lexical"}, []string{"keyword", "lexical_episode"}},
		{"_", []string{"lexical"}, []string{"keyword", "lexical_episode"}},
		{"ure_thi", []string{"lexical"}, []string{"keyword", "lexical_episode"}},
		{"猫", []string{"fts_episode"}, []string{"fts_episode"}},
	} {
		if got := arms(c.query, c.asked...); !slices.Equal(got, c.want) {
			t.Errorf("%q with %v: arms %v, want %v", c.query, c.asked, got, c.want)
		}
	}
	rows := func(query string) []string {
		return refsIn(b.recall(RecallRequest{Agent: "mia", Query: query, Arms: []string{"fts_memory"}, Gate: "off"}).Rows)
	}
	if got := rows("猫"); !slices.Equal(got, []string{refs[2], refs[1]}) {
		t.Errorf("one character: %v, want the newest first", got)
	}
	if got := rows("0%"); !slices.Equal(got, []string{refs[0]}) {
		t.Errorf("%%: %v, want it literal", got)
	}
	if got := rows("e_"); !slices.Equal(got, []string{refs[0]}) {
		t.Errorf("_: %v, want it literal", got)
	}
}

// RR-401 to RR-403, issue: every query is answered, and a short one by what it
// says, not by what is new.
func TestEveryQueryIsAnswered(t *testing.T) {
	b := open(t, nil)
	refs := b.put("mia", append(days(), say("ok 👍 great"), say("C++ or C#?"))...)
	for query, want := range map[string]string{
		"猫":                        refs[3],
		"会議":                       refs[2],
		"备份":                       refs[4],
		"👍":                        refs[8],
		"C#":                       refs[9],
		"+":                        refs[9],
		"7":                        refs[1],
		`staging AND "database"`:   refs[0],
		`"staging database`:        refs[0],
		"NEAR(staging database, 2": refs[0],
		"staging* -server ^deploy": refs[0],
		"content:staging OR":       refs[0],
		"数据库备份什么时候开始":              refs[4],
		strings.Repeat("noise ", 17_000) + " staging database": "",
		"' ; DROP TABLE memory --":                             "",
		"?!…。、":                                                "",
		"\t \n":                                                refs[9],
		"":                                                     refs[9],
	} {
		answer := b.recall(RecallRequest{Agent: "mia", Query: query, Gate: "off"})
		if answer.Rows == nil || answer.Coverage.Records != 10 {
			t.Errorf("%.40q: no proper answer: %+v", query, answer)
		}
		if want != "" && (len(answer.Rows) == 0 || !slices.Contains(refsIn(answer.Rows)[:min(3, len(answer.Rows))], want)) {
			t.Errorf("%.40q: %v does not begin with %s", query, refsIn(answer.Rows), want)
		}
	}
	if rows := b.recall(RecallRequest{Agent: "mia", Query: "猫"}).Rows; len(rows) == 0 || rows[0].Ref != refs[3] {
		t.Errorf("one character with the gate on: %v", refsIn(rows))
	}
}

// RR-403, RR-423: an empty query lists the newest rows of both kinds, unscored,
// and no gate stands in the way.
func TestEmptyQueryListsTheNewest(t *testing.T) {
	b := open(t, nil)
	var want []string
	for i := range 5 {
		b.pass(time.Minute)
		if i == 2 {
			want = append(want, b.put("mia", StoreItem{Type: "episode", Summary: "planning"})...)
			continue
		}
		want = append(want, b.put("mia", say(fmt.Sprint("note ", i)))...)
	}
	slices.Reverse(want)
	answer := b.recall(RecallRequest{Agent: "mia", Query: "  ", Count: 4, Explain: true})
	if got := refsIn(answer.Rows); !slices.Equal(got, want[:4]) {
		t.Errorf("got %v, want %v", got, want[:4])
	}
	for _, row := range answer.Rows {
		if row.Score != nil || row.MatchReason.Signal != "recency" {
			t.Errorf("%s: score %v, signal %s", row.Ref, row.Score, row.MatchReason.Signal)
		}
	}
	if len(answer.Explain.Arms) != 0 || !answer.Coverage.Full {
		t.Errorf("a listing asks no arm: %s", encode(t, answer.Explain))
	}
}

// inOrder reports whether scores never rise.
func inOrder(rows []Row) bool {
	return slices.IsSortedFunc(rows, func(a, b Row) int {
		switch {
		case *a.Score > *b.Score:
			return -1
		case *a.Score < *b.Score:
			return 1
		}
		return 0
	})
}

// RR-412, DECISIONS 23: the boundary weighs a row before the one sort, so an old
// fact falls behind a newer one that matched less; without episodes nothing is
// weighed.
func TestBoundaryWeighsBeforeTheSort(t *testing.T) {
	b := open(t, nil)
	if _, err := b.SetSetting(t.Context(), "prior.episode", "true"); err != nil {
		t.Fatal(err)
	}
	old := StoreItem{Content: "staging database moved", Time: start.Add(-10_000 * time.Hour).Format(time.RFC3339)}
	fresh := StoreItem{Content: "staging database moved today", Time: start.Add(time.Hour).Format(time.RFC3339)}
	refs := b.put("mia", old, fresh, say("lunch was soup, and the database of all recipes is on the shelf beside it"))
	ask := func() *RecallResponse {
		return b.recall(RecallRequest{Agent: "mia", Query: "staging database moved", Gate: "off"})
	}
	before := ask()
	if got := refsIn(before.Rows); got[0] != refs[0] || before.Rows[0].MatchReason.Prior != nil {
		t.Fatalf("without episodes: %s", encode(t, before.Rows))
	}
	b.put("mia", StoreItem{Type: "episode", Summary: "unrelated gardening"})
	after := ask()
	if got := refsIn(after.Rows); slices.Index(got, refs[1]) > slices.Index(got, refs[0]) {
		t.Errorf("the old row still leads: %v", got)
	}
	if !inOrder(after.Rows) {
		t.Errorf("scores rise: %s", encode(t, after.Rows))
	}
	for _, row := range after.Rows {
		if row.Ref == refs[0] && (row.MatchReason.Prior == nil || *row.MatchReason.Prior != .5) {
			t.Errorf("the factor is not reported: %s", encode(t, row.MatchReason))
		}
	}
	// The prior orders and never removes: the gate reads the score before it.
	if err := b.store.PutCalibration(t.Context(), sqlite.Calibration{Agent: "mia", Model: 1, Dims: 512, Signal: "rsf", Method: "separation", Precision: "balanced", Threshold: .9, ScoringVersion: admission.ScoringVersion}); err != nil {
		t.Fatal(err)
	}
	gated := b.recall(RecallRequest{Agent: "mia", Query: "staging database moved", Explain: true})
	if got := refsIn(gated.Rows); gated.Explain.Gate.Threshold != .9 || !slices.Contains(got, refs[0]) {
		t.Errorf("the prior pushed the best row under the gate: %v", got)
	}
	if _, err := b.SetSetting(t.Context(), "prior.episode", "false"); err != nil {
		t.Fatal(err)
	}
	if got := refsIn(ask().Rows); got[0] != refs[0] {
		t.Errorf("switched off: %v", got)
	}
}

// RR-062, RR-413, DECISIONS 23: the scorer reports a confidence and gates by it;
// the order is that of the fused score, with and without it.
func TestConfidenceNeverSorts(t *testing.T) {
	b := open(t, nil)
	b.put("mia", days()...)
	ask := func(gate string) *RecallResponse {
		return b.recall(RecallRequest{Agent: "mia", Query: "staging database db-7 moved, the disk, the deploy, the server, port and Debian", Gate: gate})
	}
	off := ask("off")
	if _, err := b.SetSetting(t.Context(), "confidence.enabled", "true"); err != nil {
		t.Fatal(err)
	}
	on := ask("off")
	if !slices.Equal(refsIn(on.Rows), refsIn(off.Rows)) {
		t.Errorf("order with the scorer %v, without %v", refsIn(on.Rows), refsIn(off.Rows))
	}
	falls := true
	for i, row := range on.Rows {
		if row.Confidence == nil || row.MatchReason.Signal != "confidence" || *row.MatchReason.Score != row.Confidence.Score {
			t.Fatalf("row without its confidence: %s", encode(t, row))
		}
		if *row.Score != *off.Rows[i].Score {
			t.Errorf("%s: the scorer changed the ranking signal", row.Ref)
		}
		falls = falls && (i == 0 || row.Confidence.Score <= on.Rows[i-1].Confidence.Score)
	}
	if falls {
		t.Errorf("confidences happen to fall with the score: this fixture proves nothing: %s", encode(t, on.Rows))
	}
	gated := ask("on")
	for _, row := range gated.Rows {
		if row.Confidence.Score < admission.NewGate(admission.GateInput{Pool: 8}).Threshold && !gated.GateFallback {
			t.Errorf("%s passed with %v", row.Ref, row.Confidence.Score)
		}
	}
}

// RR-411: with the scorer on, a row that only words found is scored on the
// cosine of its stored vector; without it, it has none.
func TestWordsOnlyRowsGetTheirCosine(t *testing.T) {
	b := open(t, map[string]string{"vector.threshold": "1", "vector.threshold_factor": "1"})
	b.put("mia", days()...)
	ask := func() Row {
		answer := b.recall(RecallRequest{Agent: "mia", Query: "staging database", Gate: "off"})
		return answer.Rows[0]
	}
	if _, err := b.SetSetting(t.Context(), "confidence.enabled", "true"); err != nil {
		t.Fatal(err)
	}
	// gate off opens the vector arm's threshold too, so ask the arm of words alone
	// beside a vector that nothing reaches.
	answer := b.recall(RecallRequest{Agent: "mia", Query: "staging database", Deep: true})
	if len(answer.Rows) == 0 {
		t.Fatal("nothing found")
	}
	row := answer.Rows[0]
	if len(row.MatchReason.Arms) != 1 || row.MatchReason.Arms[0].Arm != "lexical_memory" {
		t.Fatalf("the fixture is not found by words alone: %s", encode(t, row.MatchReason))
	}
	if row.Confidence.Cosine == nil || *row.Confidence.Cosine <= 0 || *row.Confidence.Cosine >= 1 {
		t.Errorf("no cosine from the stored vector: %s", encode(t, row.Confidence))
	}
	if _, err := b.SetSetting(t.Context(), "confidence.enabled", ""); err != nil {
		t.Fatal(err)
	}
	if row := ask(); row.Confidence != nil {
		t.Errorf("a confidence without the scorer: %s", encode(t, row))
	}
}

// RR-425: when every row is below the gate and the scorer is on, rows whose
// cosine was filled in come back and the answer says so; with the scorer off
// nothing does.
func TestGateFallback(t *testing.T) {
	b := open(t, map[string]string{"vector.threshold": "1", "vector.threshold_factor": "1"})
	refs := b.put("mia", days()...)
	set := func(name, value string) {
		t.Helper()
		if _, err := b.SetSetting(t.Context(), name, value); err != nil {
			t.Fatal(err)
		}
	}
	set("confidence.cosine_ceil", "0.99")
	set("confidence.cosine_floor", "0.97")
	ask := func() *RecallResponse {
		return b.recall(RecallRequest{Agent: "mia", Query: "staging database", Explain: true})
	}
	set("confidence.enabled", "true")
	answer := ask()
	if !answer.GateFallback || len(answer.Rows) == 0 || answer.Rows[0].Ref != refs[0] {
		t.Errorf("no rescue: %s", encode(t, answer))
	}
	for _, row := range answer.Rows {
		for _, e := range answer.Explain.Exclusions {
			if e.Ref == row.Ref {
				t.Errorf("%s is both returned and excluded", row.Ref)
			}
		}
	}
	if err := b.counters.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.record(refs[0]).RecallCount; n != 0 {
		t.Errorf("a rescued row was counted %d times", n)
	}
	// A row that passes ends the rescue: those below the gate stay away.
	set("confidence.cosine_floor", "0.26")
	set("confidence.cosine_ceil", "0.62")
	rescued := refsIn(answer.Rows)
	answer = ask()
	passed := refsIn(answer.Rows)
	if answer.GateFallback || !slices.Equal(passed, rescued[:1]) || len(rescued) < 2 {
		t.Errorf("rescued %v beside a row that passes: %s", rescued, encode(t, answer))
	}
	for _, row := range answer.Rows {
		if row.Confidence.Score < answer.Explain.Gate.Threshold {
			t.Errorf("%s is below the threshold", row.Ref)
		}
	}
	set("confidence.enabled", "false")
	if answer := b.recall(RecallRequest{Agent: "mia", Query: "staging database", Arms: []string{"vector"}}); answer.GateFallback || len(answer.Rows) != 0 {
		t.Errorf("a rescue without the scorer: %s", encode(t, answer))
	}
}

// record reads one record past every rule of recall.
func (b *bench) record(ref string) memory.Record {
	b.t.Helper()
	parsed, err := memory.ParseRef(ref)
	if err != nil {
		b.t.Fatal(err)
	}
	view, err := b.store.View(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	defer view.Close()
	for _, agent := range []string{"mia", "ken"} {
		records, err := view.Hydrate(memory.Scope{Agent: agent}, []memory.Ref{parsed})
		if err != nil {
			b.t.Fatal(err)
		}
		if len(records) == 1 {
			return records[0]
		}
	}
	b.t.Fatalf("no record %s", ref)
	return memory.Record{}
}

// RR-420: counts are written only with the scorer on, for returned memories,
// and not by a deep recall; off the path of the answer.
func TestRecallCounters(t *testing.T) {
	b := open(t, nil)
	refs := b.put("mia", append(days(), StoreItem{Type: "episode", Summary: "staging database episode"})...)
	ask := func(r RecallRequest) []string {
		r.Agent, r.Query, r.Gate = "mia", "staging database", "off"
		rows := refsIn(b.recall(r).Rows)
		if err := b.counters.flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		return rows
	}
	counted := func() (n int64) {
		for _, ref := range refs {
			n += b.record(ref).RecallCount
		}
		return n
	}
	ask(RecallRequest{})
	if n := counted(); n != 0 {
		t.Errorf("the default configuration counted %d", n)
	}
	if _, err := b.SetSetting(t.Context(), "confidence.enabled", "true"); err != nil {
		t.Fatal(err)
	}
	ask(RecallRequest{Deep: true})
	if n := counted(); n != 0 {
		t.Errorf("a deep recall counted %d", n)
	}
	b.pass(time.Hour)
	returned := ask(RecallRequest{Count: 2})
	want := int64(0)
	for _, ref := range returned {
		if strings.HasPrefix(ref, "mem:") {
			want++
		}
	}
	if n := counted(); n != want || want == 0 {
		t.Errorf("counted %d, returned %v", n, returned)
	}
	for _, ref := range returned {
		if r := b.record(ref); strings.HasPrefix(ref, "mem:") && r.LastRecalled.Milli != b.now.Load() {
			t.Errorf("%s: last recalled %s, want now", ref, r.LastRecalled)
		}
	}
}

// RR-424, RR-433, DECISIONS 1: a calibrated threshold gates only the agent, the
// signal, the model, the width and the scoring version that it was measured
// for; another agent's never does.
func TestCalibratedGateOfTheAgentAlone(t *testing.T) {
	b := open(t, nil)
	if _, err := b.SetSetting(t.Context(), "gate.relative", "true"); err != nil {
		t.Fatal(err)
	}
	b.put("mia", days()...)
	gate := func(r RecallRequest) GateReport {
		r.Agent, r.Query, r.Explain = "mia", "staging database", true
		return b.recall(r).Explain.Gate
	}
	heuristic := gate(RecallRequest{})
	if heuristic.Source != admission.SourceHeuristic {
		t.Fatalf("%+v", heuristic)
	}
	fits := sqlite.Calibration{Agent: "mia", Model: 1, Dims: 512, Signal: "rsf", Method: "separation", Precision: "balanced", Threshold: .123, ScoringVersion: admission.ScoringVersion}
	spoil := func(change func(*sqlite.Calibration)) sqlite.Calibration { s := fits; change(&s); return s }
	for _, c := range []struct {
		whose string
		sqlite.Calibration
	}{
		{"another agent's", spoil(func(s *sqlite.Calibration) { s.Agent = "ken" })}, // first: mia has none of her own yet
		{"another signal's", spoil(func(s *sqlite.Calibration) { s.Signal = "rrf" })},
		{"another model's", spoil(func(s *sqlite.Calibration) { s.Model = 7 })},
		{"another width's", spoil(func(s *sqlite.Calibration) { s.Dims = 256 })},
		{"another scoring version's", spoil(func(s *sqlite.Calibration) { s.ScoringVersion++ })},
	} {
		if err := b.store.PutCalibration(t.Context(), c.Calibration); err != nil {
			t.Fatal(err)
		}
		if got := gate(RecallRequest{}); got != heuristic {
			t.Errorf("%s threshold was used: %+v", c.whose, got)
		}
	}
	if err := b.store.PutCalibration(t.Context(), fits); err != nil {
		t.Fatal(err)
	}
	if got := gate(RecallRequest{}); got.Source != admission.SourceCalibrated || got.Threshold != .123 {
		t.Errorf("the agent's own threshold: %+v", got)
	}
	if got := gate(RecallRequest{Deep: true}); got.Threshold != .0615 {
		t.Errorf("deep halves it: %+v", got)
	}
	if got := gate(RecallRequest{Arms: []string{"fts"}}); got.Source != admission.SourceHeuristic {
		t.Errorf("it was measured with other arms: %+v", got)
	}
	if got := gate(RecallRequest{Gate: "off"}); got.Source != admission.SourceOff {
		t.Errorf("off: %+v", got)
	}
	if _, err := b.SetSetting(t.Context(), "gate.fused", "false"); err != nil {
		t.Fatal(err)
	}
	if got := gate(RecallRequest{}); got != heuristic {
		t.Errorf("switched off: %+v", got)
	}
}

// RR-400: the vector arm admits by the agent's cosine times the factor.
func TestVectorAdmission(t *testing.T) {
	b := open(t, nil)
	b.put("mia", days()...)
	lowest := func() float64 {
		a := b.recall(RecallRequest{Agent: "mia", Query: "the staging database", Arms: []string{"vector"}, Explain: true}).Explain.Arms[0].Candidates
		return a[len(a)-1].Score
	}
	all := len(b.recall(RecallRequest{Agent: "mia", Query: "the staging database", Arms: []string{"vector"}, Gate: "off", Explain: true}).Explain.Arms[0].Candidates)
	if all != 8 {
		t.Errorf("with the gate off %d of 8 rows are ranked", all)
	}
	if x := lowest(); x < .15 {
		t.Errorf("%v was admitted below 0.3 × 0.5", x)
	}
	if err := b.store.PutCalibration(t.Context(), sqlite.Calibration{Agent: "mia", Model: 1, Dims: 512, Signal: "cosine", Method: "separation", Precision: "balanced", Threshold: .8, ScoringVersion: admission.ScoringVersion}); err != nil {
		t.Fatal(err)
	}
	if x := lowest(); x < .4 {
		t.Errorf("%v was admitted below the calibrated 0.8 × 0.5", x)
	}
}

// RR-426, RR-451: autocut works on confidence alone, keeps the order, and is off
// with the gate; a fused list is never cut by a gap.
func TestAutocutOnConfidence(t *testing.T) {
	b := open(t, map[string]string{"gate.autocut_ratio": "0.01", "confidence.decay_floor": "0.01"})
	b.put("mia", days()...)
	ask := func(gate string) *RecallResponse {
		return b.recall(RecallRequest{Agent: "mia", Query: "staging database server deploy train guitar lesson disk", Gate: gate, Explain: true})
	}
	// A low threshold lets enough rows through for a gap to cut.
	if err := b.store.PutCalibration(t.Context(), sqlite.Calibration{Agent: "mia", Model: 1, Dims: 512, Signal: "rsf", Method: "separation", Precision: "balanced", Threshold: .01, ScoringVersion: admission.ScoringVersion}); err != nil {
		t.Fatal(err)
	}
	stage := func(a *RecallResponse) (n int) {
		for _, e := range a.Explain.Exclusions {
			if e.Stage == "autocut" {
				n++
			}
		}
		return n
	}
	if fused := ask("on"); stage(fused) != 0 || len(fused.Rows) < 3 {
		t.Errorf("a fused list of %d lost %d rows to autocut", len(fused.Rows), stage(fused))
	}
	if _, err := b.SetSetting(t.Context(), "confidence.enabled", "true"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.SetSetting(t.Context(), "confidence.cosine_floor", "0"); err != nil {
		t.Fatal(err)
	}
	cut := ask("on")
	if stage(cut) == 0 || len(cut.Rows) < 2 {
		t.Errorf("nothing was cut: %s", encode(t, cut))
	}
	if !inOrder(cut.Rows) {
		t.Error("autocut changed the order")
	}
	if n := stage(ask("off")); n != 0 {
		t.Errorf("with the gate off autocut took %d rows", n)
	}
}

// RR-434, BR-086, RR-437: previews are pure prefixes in code points and say what
// they are; whole rows come under a budget, strongest first.
func TestPreviewsAndFullContent(t *testing.T) {
	b := open(t, map[string]string{"answer.full_budget": "1000"})
	long := strings.Repeat("記憶の試験。", 100) // 600 code points
	refs := b.put("mia", say(long), say(strings.Repeat("記", 500)), say(long+"二番目の長い記憶です"))
	rows := func(full bool) (map[string]Row, *RecallResponse) {
		a := b.recall(RecallRequest{Agent: "mia", Query: "記憶の試験", FullContent: full, Gate: "off"})
		m := map[string]Row{}
		for _, r := range a.Rows {
			m[r.Ref] = r
		}
		return m, a
	}
	m, _ := rows(false)
	cut := m[refs[0]]
	if memory.Len(cut.Content) != 500 || !strings.HasPrefix(long, cut.Content) || !cut.ContentTruncated || cut.ContentLen != 600 || cut.Revision != memory.Revision(long) {
		t.Errorf("preview of 600: %s", encode(t, cut))
	}
	if whole, ok := m[refs[1]]; ok && (whole.ContentTruncated || whole.ContentLen != 0) {
		t.Errorf("500 code points are not cut: %s", encode(t, whole))
	}
	_, a := rows(true)
	if a.Rows[0].ContentTruncated || !a.Rows[1].ContentTruncated || a.FullContentBudget != 1000 {
		t.Errorf("budget: %s", encode(t, a))
	}
	if _, err := b.SetSetting(t.Context(), "answer.preview_chars", "0"); err != nil {
		t.Fatal(err)
	}
	if m, _ := rows(false); m[refs[0]].ContentTruncated {
		t.Error("0 switches previews off")
	}
}

// RR-442: source_id is a prefix; episodes are left out unless a channel is
// given. In every arm and in a listing.
func TestSourceFilter(t *testing.T) {
	b := open(t, nil)
	item := func(source, text string) StoreItem {
		return StoreItem{Content: text, Channel: "chat", Source: memory.Source{Type: "chat", ID: source}}
	}
	refs := b.put("mia", item("session-1", "staging database one"), item("session-10", "staging database ten"), item("session-2", "staging database two"), item("", "staging database none"),
		StoreItem{Type: "episode", Channel: "chat", Summary: "staging database episode"}, item("session-1%", "staging database odd 猫"))
	for _, c := range []struct {
		source  string
		channel *string
		query   string
		want    []string
	}{
		{"session-1", nil, "staging database", []string{refs[0], refs[1], refs[5]}},
		{"session-1", pointer("chat"), "staging database", []string{refs[0], refs[1], refs[4], refs[5]}},
		{"session-1%", nil, "staging database", []string{refs[5]}},
		{"session-9", nil, "staging database", nil},
		{"session-1", nil, "", []string{refs[0], refs[1], refs[5]}},
		{"session-1", nil, "猫", []string{refs[5]}},
	} {
		for _, arms := range [][]string{nil, {"vector"}, {"lexical"}, {"fts"}} {
			if c.query == "猫" && len(arms) == 1 && arms[0] == "vector" {
				continue
			}
			answer := b.recall(RecallRequest{Agent: "mia", Channel: c.channel, Query: c.query, SourceID: c.source, Arms: arms, Gate: "off"})
			got := refsIn(answer.Rows)
			if c.query == "猫" {
				got = got[:min(1, len(got))]
			}
			slices.Sort(got)
			want := slices.Clone(c.want)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("source %q, channel %v, query %q, arms %v: got %v, want %v", c.source, c.channel, c.query, arms, got, want)
			}
		}
	}
}

// RR-443: rows that the caller already holds make room for others.
func TestExcludedContents(t *testing.T) {
	b := open(t, nil)
	refs := b.put("mia", days()...)
	all := b.recall(RecallRequest{Agent: "mia", Query: "staging database server", Gate: "off", Count: 2})
	answer := b.recall(RecallRequest{Agent: "mia", Query: "staging database server", Gate: "off", Count: 2, Explain: true, Exclude: []string{strings.ToUpper(all.Rows[0].Content)}})
	if got := refsIn(answer.Rows); slices.Contains(got, all.Rows[0].Ref) || len(got) != 2 || got[0] != all.Rows[1].Ref {
		t.Errorf("got %v after %v", got, refsIn(all.Rows))
	}
	if !slices.ContainsFunc(answer.Explain.Exclusions, func(e Exclusion) bool { return e.Ref == all.Rows[0].Ref && e.Stage == "filter" }) {
		t.Errorf("the exclusion is not explained: %s", encode(t, answer.Explain.Exclusions))
	}
	listing := b.recall(RecallRequest{Agent: "mia", Exclude: []string{days()[7].Content}})
	if got := refsIn(listing.Rows); slices.Contains(got, refs[7]) || len(got) != 7 {
		t.Errorf("listing: %v", got)
	}
}

// RR-447, RR-436: profile rows stand apart from the ranking, newest first, from
// a pool of 50 on, and take no place of a row.
func TestProfileRows(t *testing.T) {
	b := open(t, nil)
	for i := range 5 {
		b.pass(time.Minute)
		b.put("mia", StoreItem{Type: "profile", UserID: fmt.Sprint("user-", i), Content: fmt.Sprint("likes tea ", i)})
	}
	b.put("ken", StoreItem{Type: "profile", UserID: "user-1", Content: "someone else's"})
	for i := range 49 {
		b.put("mia", say(fmt.Sprint("a note about tea number ", i)))
	}
	if a := b.recall(RecallRequest{Agent: "mia", Query: "tea", Count: 50}); len(a.Profile) != 0 {
		t.Errorf("a pool of 49 has %d profile rows", len(a.Profile))
	}
	b.put("mia", say("the fiftieth note"))
	a := b.recall(RecallRequest{Agent: "mia", Query: "tea", Count: 5, Gate: "off"})
	var users []string
	for _, p := range a.Profile {
		users = append(users, p.UserID)
	}
	if !slices.Equal(users, []string{"user-4", "user-3", "user-2"}) || len(a.Rows) != 5 {
		t.Errorf("profiles %v, %d rows", users, len(a.Rows))
	}
	if a := b.recall(RecallRequest{Agent: "mia", Query: "tea", UserID: pointer("user-1")}); len(a.Profile) != 1 || a.Profile[0].Content != "likes tea 1" {
		t.Errorf("one user: %+v", a.Profile)
	}
}

// RR-410, DECISIONS 27: best first by default; best last is the same rows
// reversed and says so; RR-405: rrf on request.
func TestOrderAndFusionOfOneRequest(t *testing.T) {
	b := open(t, nil)
	b.put("mia", days()...)
	first := b.recall(RecallRequest{Agent: "mia", Query: "staging database server", Gate: "off"})
	last := b.recall(RecallRequest{Agent: "mia", Query: "staging database server", Gate: "off", Order: "best_last"})
	reversed := refsIn(last.Rows)
	slices.Reverse(reversed)
	if first.Order != "best_first" || last.Order != "best_last" || !slices.Equal(reversed, refsIn(first.Rows)) || !inOrder(first.Rows) || len(reversed) < 3 {
		t.Errorf("%s %v, %s %v", first.Order, refsIn(first.Rows), last.Order, refsIn(last.Rows))
	}
	rrf := b.recall(RecallRequest{Agent: "mia", Query: "staging database server", Gate: "off", Fusion: "rrf", Explain: true})
	if rrf.Explain.Fusion != "rrf" || rrf.Rows[0].MatchReason.Signal != "rrf" || *rrf.Rows[0].Score > 3.0/61 {
		t.Errorf("rrf: %s", encode(t, rrf.Rows[0]))
	}
}

// RR-435, DECISIONS 11: the two id spaces are apart; every version stays
// retrievable and points to its successor.
func TestVersionsAndIdSpaces(t *testing.T) {
	b := open(t, nil)
	v1 := b.put("mia", StoreItem{Content: "the staging port is 8080", MessageID: "port"})[0]
	v2 := b.put("mia", StoreItem{Content: "the staging port is 8443", MessageID: "port", OnConflict: "version"})[0]
	ep := b.put("mia", StoreItem{Type: "episode", Summary: "the staging port was changed"})[0]
	if v1 != "mem:1" || v2 != "mem:2" || ep != "ep:1" {
		t.Fatalf("refs %s %s %s", v1, v2, ep)
	}
	answer := b.recall(RecallRequest{Agent: "mia", Query: "staging port", Gate: "off"})
	rows := map[string]Row{}
	for _, r := range answer.Rows {
		rows[r.Ref] = r
	}
	if len(rows) != 3 || rows[v1].SupersededBy != v2 || rows[v2].SupersededBy != "" || rows[v2].Version != 2 || rows[v1].Version != 0 {
		t.Errorf("%s", encode(t, answer.Rows))
	}
}
