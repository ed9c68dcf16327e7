package coordinator

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"recalld/coordinator/admission"
	"recalld/lexical"
	"recalld/memory"
	"recalld/sqlite"
)

// below names the files of a folder that contain a text.
func below(t testing.TB, folder, text string) (in []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte(text)) {
			in = append(in, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return in
}

// DECISIONS 14: when a delete or a change of text returns, the former words are
// in no derived file. Terms stand in it without the beginning that they share
// with the term before.
func TestDeletedWordsAreInNoDerivedFile(t *testing.T) {
	b := open(t, nil)
	derived := filepath.Join(filepath.Dir(b.path), "derived")
	l := newLanguage(4)
	for range 50 {
		b.put("mia", say(l.sentence(12)))
	}
	refs := b.put("mia", say("the zanzibarite was deleted"), say("the quixotrope was changed"))
	b.put("ken", say("the umbrellium left with its agent"), StoreItem{Type: "episode", Summary: "an episode about ferrolite", Keywords: []string{"galvanodon"}})
	for _, step := range []struct {
		words []string
		do    func() error
	}{
		{[]string{"zibarit"}, func() error {
			_, err := b.Delete(t.Context(), DeleteRequest{Agent: "mia", Refs: refs[:1]})
			return err
		}},
		{[]string{"xotrop"}, func() error {
			_, err := b.Update(t.Context(), UpdateRequest{Agent: "mia", Ref: refs[1], Content: pointer("another wording")})
			return err
		}},
		{[]string{"brellium", "rrolit", "vanodon"}, func() error {
			_, err := b.Delete(t.Context(), DeleteRequest{Agent: "ken", All: true})
			return err
		}},
	} {
		if err := b.words.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, word := range step.words {
			if len(below(t, derived, word)) == 0 {
				t.Fatalf("%s is in no file to begin with", word)
			}
		}
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		for _, word := range step.words {
			if in := below(t, derived, word); len(in) > 0 {
				t.Errorf("%s is still in %v", word, in)
			}
		}
	}
}

// RR-439, DECISIONS 1: a record that moved is found where it is and nowhere
// else, before and after it was sealed, and counts there alone.
func TestMovedRecordIsFoundWhereItIs(t *testing.T) {
	b := open(t, nil)
	refs := b.put("mia", StoreItem{Content: "the heliotrope key", Project: "atlas"}, StoreItem{Content: "the spare key", Project: "atlas"}, StoreItem{Content: "a key of the boat", Project: "borealis"})
	if err := b.words.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Update(t.Context(), UpdateRequest{Agent: "mia", Ref: refs[0], Project: pointer("borealis")}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for project, want := range map[string][]string{"atlas": {refs[1]}, "borealis": {refs[0], refs[2]}} {
			answer := b.recall(RecallRequest{Agent: "mia", Project: pointer(project), Query: "heliotrope key", Arms: []string{"lexical"}, Gate: "off", Explain: true})
			if ranked := answer.Explain.Arms[0].Candidates; len(ranked) != len(want) {
				t.Errorf("%s: the arm ranked %v", project, ranked)
			}
			if got := refsIn(answer.Rows); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", project, got, want)
			}
			if project == "atlas" && len(answer.Rows[0].MatchReason.Terms) != 1 {
				t.Errorf("%s: found by %v", project, answer.Rows[0].MatchReason.Terms)
			}
		}
		b.restart()
	}
}

// DECISIONS 16, 17: a record whose time or source is changed is found by the new
// ones at once, and after a restart.
func TestChangedTimeAndSourceAreFound(t *testing.T) {
	b := open(t, nil)
	refs := b.put("mia", StoreItem{Content: "we met by the harbour", Time: "2026-03-05T10:00:00+09:00"}, StoreItem{Content: "they left early", Time: "2026-03-06T10:00:00+09:00"})
	if err := b.words.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Update(t.Context(), UpdateRequest{Agent: "mia", Ref: refs[1], Time: pointer("2026-08-17T10:00:00+09:00")}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for query, want := range map[string][]string{"August 17": {refs[1]}, "8月17日": {refs[1]}, "March 6": nil} {
			answer := b.recall(RecallRequest{Agent: "mia", Query: query, Arms: []string{"lexical_memory"}, Gate: "off", Count: 1})
			if got := refsIn(answer.Rows); want != nil && !slices.Equal(got, want) || want == nil && slices.Contains(got, refs[1]) {
				t.Errorf("%s: %v, want %v", query, got, want)
			}
		}
		b.restart()
	}
}

// DECISIONS 16, RR-401: words of two characters, which a trigram index cannot
// hold, are found and named in the reason.
func TestWordsOfTwoCharacters(t *testing.T) {
	b := open(t, nil)
	refs := b.put("mia", say("来週の会議は火曜日です。"), say("预算会议改到星期四下午。"), say("The budget meeting is on Thursday."))
	for query, want := range map[string]string{"会議": refs[0], "预算": refs[1], "budgets": refs[2]} {
		rows := b.recall(RecallRequest{Agent: "mia", Query: query, Arms: []string{"lexical"}, Gate: "off"}).Rows
		if len(rows) != 1 || rows[0].Ref != want || len(rows[0].MatchReason.Terms) != 1 || rows[0].MatchReason.Terms[0] != query {
			t.Errorf("%s: %s", query, encode(t, rows))
		}
	}
}

// DECISIONS 18: the stored share decides between words and vectors, under the
// model that it was measured for and no other.
func TestStoredShareWeighsTheArms(t *testing.T) {
	b := open(t, map[string]string{"prior.episode": "false"})
	l := newLanguage(3)
	for range 60 {
		b.put("mia", say(l.sentence(10)))
	}
	query := l.sentence(14)
	ask := func(arms ...string) []string {
		return refsIn(b.recall(RecallRequest{Agent: "mia", Query: query, Arms: arms, Gate: "off", Count: 10}).Rows)
	}
	model, ok, err := b.store.ActiveModel(t.Context(), "mia")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	put := func(id int64, share float64) {
		t.Helper()
		if err := b.store.PutCalibration(t.Context(), sqlite.Calibration{Agent: "mia", Model: id, Dims: model.Dims, Signal: "vector_share", Threshold: share, ScoringVersion: admission.ScoringVersion}); err != nil {
			t.Fatal(err)
		}
	}
	words, vectors, prior := ask("lexical_memory"), ask("vector"), ask("vector", "lexical_memory")
	if slices.Equal(words, vectors) || slices.Equal(prior, vectors) {
		t.Fatal("the arms agree: this fixture proves nothing")
	}
	put(model.ID+1, 1)
	if got := ask("vector", "lexical_memory"); !slices.Equal(got, prior) {
		t.Errorf("another model's share is used: %v, want %v", got, prior)
	}
	put(model.ID, 1)
	if got := ask("vector", "lexical_memory"); !slices.Equal(got[:5], vectors[:5]) {
		t.Errorf("share 1: %v, want %v", got, vectors)
	}
	put(model.ID, .5)
	if got := ask("vector", "lexical_memory"); slices.Equal(got[:4], words[:4]) {
		t.Fatal("half and half ranks like words alone: this fixture proves nothing")
	}
	put(model.ID, 0)
	if got := ask("vector", "lexical_memory"); !slices.Equal(got[:4], words[:4]) { // the last ones are worth 0 on either side
		t.Errorf("share 0: %v, want %v", got, words)
	}
}

// shareOf measures a pool of sessions, ten rows each.
func shareOf(t *testing.T, text func(session, row int) string, vector func(session, row int) []float32) float64 {
	t.Helper()
	p := pool{vectors: make(map[memory.Ref][]float32)}
	var chosen []int
	for i := range 300 {
		ref := memory.Ref{Kind: memory.KindMemory, ID: int64(i + 1)}
		p.docs = append(p.docs, lexical.Doc{Cell: 1, Ref: ref, Session: fmt.Sprint(i / 10), Text: text(i/10, i%10)})
		p.vectors[ref] = vector(i/10, i%10)
		chosen = append(chosen, i)
	}
	var gains [2][shareSteps + 1]float64
	asked, err := p.ask(t.Context(), chosen, 0, &gains)
	if err != nil || asked != 300 {
		t.Fatal(asked, err)
	}
	return float64(best(gains[0][:])+best(gains[1][:])) / (2 * shareSteps)
}

// DECISIONS 18: the share goes to the arm that knows which rows belong together,
// and is shared when each knows a part.
func TestShareGoesToTheArmThatKnows(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	l := newLanguage(5)
	noise := func(int, int) string { return l.sentence(8) }
	topic := func(session, row int) string { return fmt.Sprintf("topic%d %s", session, l.sentence(6)) }
	random := func(int, int) []float32 {
		v := make([]float32, 30)
		for i := range v {
			v[i] = float32(r.NormFloat64()) / 6
		}
		return v
	}
	near := func(session, row int) []float32 {
		v := random(session, row)
		v[session%30] += 1
		return v
	}
	if share := shareOf(t, topic, random); share > .2 {
		t.Errorf("words know, vectors do not: share %v", share)
	}
	if share := shareOf(t, noise, near); share < .6 {
		t.Errorf("vectors know, words do not: share %v", share)
	}
	half := func(session, row int) string {
		if session%2 == 0 {
			return topic(session, row)
		}
		return noise(session, row)
	}
	other := func(session, row int) []float32 {
		if session%2 == 1 {
			return near(session, row)
		}
		return random(session, row)
	}
	if share := shareOf(t, half, other); share < .1 || share > .9 {
		t.Errorf("each knows half: share %v", share)
	}
}

// DECISIONS 1, 18: the share is measured from the agent's own records, stored,
// the same beside others, and not guessed from too few.
func TestShareIsMeasuredFromOwnRecords(t *testing.T) {
	shares := map[string]string{}
	for _, beside := range []string{"alone", "beside"} {
		b := open(t, nil)
		l := newLanguage(6)
		others := newLanguage(7)
		for i := range 160 {
			if beside == "beside" {
				b.put("ken", StoreItem{Content: others.sentence(9), Source: memory.Source{ID: fmt.Sprint(i / 8)}})
			}
			b.put("mia", StoreItem{Content: l.sentence(9) + strings.Repeat(fmt.Sprintf(" subject%d", i/8), 2), Source: memory.Source{ID: fmt.Sprint(i / 8)}})
		}
		a, err := b.Calibrate(t.Context(), CalibrateRequest{Agent: "mia"})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range a.Results {
			if r.Signal == "vector_share" {
				shares[beside] = fmt.Sprint(r.Threshold, r.Positives, r.Negatives, r.Method)
			}
		}
		if stored, err := b.store.Calibrations(t.Context(), "mia"); err != nil || !slices.ContainsFunc(stored, func(s sqlite.Calibration) bool { return s.Signal == "vector_share" }) {
			t.Errorf("stored: %v, %v", stored, err)
		}
	}
	if shares["alone"] == "" || shares["alone"] != shares["beside"] {
		t.Errorf("%v", shares)
	}
}

// DECISIONS 18: neighbouring turns flatter vectors, so however much these know of
// a session's rows, they do not take the fusion over.
func TestMeasuredShareIsBounded(t *testing.T) {
	b := open(t, nil)
	r := rand.New(rand.NewPCG(3, 3))
	for session := range 20 {
		var stem [3]string
		for i := range stem {
			for range 14 {
				stem[i] += string(rune('a' + r.IntN(26)))
			}
		}
		for range 8 {
			words := []string{fmt.Sprint("room", r.IntN(12))} // leads astray
			for _, s := range stem {                          // no word twice, every word nearly so
				words = append(words, s+string(rune('a'+r.IntN(26)))+string(rune('a'+r.IntN(26))))
			}
			b.put("mia", StoreItem{Content: strings.Join(words, " "), Source: memory.Source{ID: fmt.Sprint(session)}})
		}
	}
	a, err := b.Calibrate(t.Context(), CalibrateRequest{Agent: "mia"})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(a.Results, func(r Calibration) bool { return r.Signal == "vector_share" })
	if at < 0 || a.Results[at].Threshold != .35 {
		t.Errorf("%+v", a.Results)
	}
}

// ARCHITECTURE 6: doctor names a damaged file of postings, and with fix has it
// built again.
func TestDoctorFindsDamagedPostings(t *testing.T) {
	b := open(t, nil)
	refs := b.put("mia", days()...)
	if err := b.words.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask := func(fix bool) CheckResult {
		a, err := b.Doctor(t.Context(), DoctorRequest{Checks: []string{"lexical-index"}, Fix: fix})
		if err != nil || len(a.Checks) != 1 {
			t.Fatal(err)
		}
		return a.Checks[0]
	}
	if r := ask(false); !r.OK {
		t.Fatalf("a whole file: %s", encode(t, r))
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(b.path), "derived", "lexical", "*.postings"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	raw, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)/2] ^= 4
	if err := os.Chmod(files[0], 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(files[0], os.O_WRONLY, 0) // in place: it is mapped
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(raw, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if r := ask(false); r.OK || r.Severity != sqlite.SeverityError || !slices.Equal(r.Evidence, []string{filepath.Base(files[0])}) {
		t.Errorf("damaged: %s", encode(t, r))
	}
	if r := ask(true); r.Fixed != 1 {
		t.Errorf("repaired: %s", encode(t, r))
	}
	answer := b.recall(RecallRequest{Agent: "mia", Query: "staging database", Arms: []string{"lexical"}, Gate: "off"})
	if len(answer.Rows) == 0 || answer.Rows[0].Ref != refs[0] || len(answer.Degraded) > 0 {
		t.Errorf("after the repair: %s", encode(t, answer))
	}
}

// DECISIONS 17, 18: of a question about a date the vectors, which know none, get
// no share, whatever was measured for questions in words.
func TestDatesBelongToWords(t *testing.T) {
	b := open(t, map[string]string{"prior.episode": "false"})
	l := newLanguage(8)
	var want []string
	for day := range 28 {
		for range 3 {
			ref := b.put("mia", StoreItem{Content: l.sentence(9) + " happened", Time: fmt.Sprintf("2026-05-%02dT10:00:00+09:00", day+1)})[0]
			if day == 7 {
				want = append(want, ref)
			}
		}
	}
	model, ok, err := b.store.ActiveModel(t.Context(), "mia")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if err := b.store.PutCalibration(t.Context(), sqlite.Calibration{Agent: "mia", Model: model.ID, Dims: model.Dims, Signal: "vector_share", Threshold: .9, ScoringVersion: admission.ScoringVersion}); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"May 8th?", "5月8日は?", "2026-05-08"} {
		got := refsIn(b.recall(RecallRequest{Agent: "mia", Query: query, Gate: "off", Count: 3}).Rows)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
}
