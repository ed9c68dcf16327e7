package coordinator

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"recalld/memory"
	"recalld/sqlite"
)

// RR-444, DECISIONS 11: what becomes of an item is said, with the record that
// made it a duplicate; profiles have no reference.
func TestStoreOutcomes(t *testing.T) {
	b := open(t, nil)
	items := []StoreItem{
		{Content: "one", MessageID: "m1"},
		{Content: "one"},
		{Content: "two", MessageID: "m1"},
		{Content: "two", MessageID: "m1", OnConflict: "version"},
		{Type: "episode", Summary: "an episode", Keywords: []string{"k"}, Start: "2026-03-01T09:30:00+09:00", End: "2026-03-01T10:00:00+09:00"},
		{Type: "profile", UserID: "u", Content: "likes tea"},
		{Content: ""},
	}
	a, err := b.Store(t.Context(), StoreRequest{Agent: "mia", Items: items})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range a.Results {
		got = append(got, strings.TrimSpace(r.Outcome+" "+r.Ref+" "+r.Embed))
	}
	want := []string{"stored mem:1 done", "skipped mem:1", "skipped mem:1", "versioned mem:2 done", "stored ep:1 done", "stored", "rejected"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !strings.Contains(a.Results[6].Error, "content") {
		t.Errorf("the refusal names no field: %q", a.Results[6].Error)
	}
}

// Issue, Bad input; RR-445: each bad field is refused with its name and a next
// step, and nothing of the item is stored; the others of the request are.
func TestBadItemsChangeNothing(t *testing.T) {
	b := open(t, nil)
	long := func(n int) string { return strings.Repeat("記", n) }
	for _, c := range []struct {
		field string
		item  StoreItem
	}{
		{"content", StoreItem{}},
		{"content", StoreItem{Content: " \n\t　"}},
		{"content", StoreItem{Content: long(16_001)}},
		{"content", StoreItem{Content: strings.Repeat("x", 1<<20)}},
		{"content", StoreItem{Content: "a\x00b"}},
		{"content", StoreItem{Content: "a\xffb"}},
		{"content", StoreItem{Content: "x\xed\xa0\x80"}}, // a surrogate in UTF-8
		{"type", StoreItem{Type: "note", Content: "x"}},
		{"agent", StoreItem{Agent: "ken", Content: "x"}},
		{"project", StoreItem{Content: "x", Project: "a\u202Eb"}},
		{"project", StoreItem{Content: "x", Project: long(201)}},
		{"channel", StoreItem{Content: "x", Channel: "a\nb"}},
		{"message_id", StoreItem{Content: "x", MessageID: long(501)}},
		{"on_conflict", StoreItem{Content: "x", MessageID: "m", OnConflict: "replace"}},
		{"on_conflict", StoreItem{Content: "x", OnConflict: "version"}},
		{"source", StoreItem{Content: "x", Source: memory.Source{ID: long(4_001), Name: long(4_000)}}},
		{"source.name", StoreItem{Content: "x", Source: memory.Source{Name: "\xff"}}},
		{"metadata", StoreItem{Content: "x", Metadata: json.RawMessage(`[1]`)}},
		{"metadata", StoreItem{Content: "x", Metadata: json.RawMessage(`{"a":`)}},
		{"metadata", StoreItem{Content: "x", Metadata: json.RawMessage(`{"a":"\ud83d"}`)}},
		{"metadata", StoreItem{Content: "x", Metadata: json.RawMessage(`{"\udc00":1}`)}},
		{"metadata", StoreItem{Content: "x", Metadata: json.RawMessage(`{"a":"\u0000"}`)}},
		{"metadata", StoreItem{Content: "x", Metadata: json.RawMessage(`{"a":"` + long(8_000) + `"}`)}},
		{"time", StoreItem{Content: "x", Time: "2026-03-01T09:30:00"}},
		{"time", StoreItem{Content: "x", Time: "0000-01-01T00:00:00Z"}},
		{"time", StoreItem{Content: "x", Time: "10000-01-01T00:00:00Z"}},
		{"time", StoreItem{Content: "x", Time: "2016-12-31T23:59:60Z"}},
		{"user_id", StoreItem{Content: "x", UserID: "u"}},
		{"keywords", StoreItem{Content: "x", Keywords: []string{"k"}}},
		{"content", StoreItem{Type: "episode", Summary: "x", Content: "x"}},
		{"summary", StoreItem{Type: "episode"}},
		{"end", StoreItem{Type: "episode", Summary: "x", Start: "2026-03-02T00:00:00Z", End: "2026-03-01T00:00:00Z"}},
		{"keywords", StoreItem{Type: "episode", Summary: "x", Keywords: make([]string, 65)}},
		{"keywords[1]", StoreItem{Type: "episode", Summary: "x", Keywords: []string{"k", ""}}},
		{"content", StoreItem{Type: "profile", UserID: "u", Content: long(2_001)}},
		{"user_id", StoreItem{Type: "profile", UserID: "a\x7f", Content: "x"}},
	} {
		a, err := b.Store(t.Context(), StoreRequest{Agent: "mia", Items: []StoreItem{c.item}})
		if err != nil {
			t.Fatalf("%s: %v", c.field, err)
		}
		r := a.Results[0]
		if r.Outcome != "rejected" || !strings.HasPrefix(r.Error, c.field+":") || !strings.Contains(r.Error, ";") || len(r.Error) > 600 {
			t.Errorf("%s: %+v", c.field, r)
		}
	}
	if s := b.status(); s.Memories+s.Episodes != 0 {
		t.Errorf("refused items left %d records", s.Memories+s.Episodes)
	}
	if a, err := b.Store(t.Context(), StoreRequest{Agent: "mia", Items: []StoreItem{{Content: "good"}, {}, {Content: "also good"}}}); err != nil || a.Results[0].Outcome != "stored" || a.Results[2].Outcome != "stored" {
		t.Errorf("%+v, %v", a, err)
	}
	exact := StoreItem{Content: long(16_000), Metadata: json.RawMessage(` { "emoji" : "\ud83d\ude00", "plain" : "\\ud83d" } `)}
	ref := b.put("mia", exact)[0]
	if r := b.record(ref); r.Content != exact.Content || string(r.Metadata) != `{"emoji":"\ud83d\ude00","plain":"\\ud83d"}` {
		t.Errorf("stored %d code points, metadata %s", memory.Len(r.Content), r.Metadata)
	}
}

func (b *bench) status() *Status {
	b.t.Helper()
	s, err := b.Status(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// Issue, Bad input: a malformed request is an error that names the field, the
// limit and the next step.
func TestBadRequests(t *testing.T) {
	b := open(t, nil)
	ref := b.put("mia", say("x"))[0]
	ctx := t.Context()
	ask := func(change func(*RecallRequest)) error {
		r := RecallRequest{Agent: "mia", Query: "x"}
		change(&r)
		_, err := b.Recall(ctx, r)
		return err
	}
	update := func(change func(*UpdateRequest)) error {
		r := UpdateRequest{Agent: "mia", Ref: ref}
		change(&r)
		_, err := b.Update(ctx, r)
		return err
	}
	for field, err := range map[string]error{
		"agent":                   ask(func(r *RecallRequest) { r.Agent = "" }),
		"agent ":                  ask(func(r *RecallRequest) { r.Agent = "a\u2067b" }),
		"project":                 ask(func(r *RecallRequest) { r.Project = pointer(" x") }),
		"channel":                 ask(func(r *RecallRequest) { r.Channel = pointer("x\x00") }),
		"query":                   ask(func(r *RecallRequest) { r.Query = "\xff" }),
		"query ":                  ask(func(r *RecallRequest) { r.Query = strings.Repeat("x", memory.MaxQuery+1) }),
		"count":                   ask(func(r *RecallRequest) { r.Count = -1 }),
		"count ":                  ask(func(r *RecallRequest) { r.Count = 101 }),
		"arms":                    ask(func(r *RecallRequest) { r.Arms = []string{"magic"} }),
		"fusion":                  ask(func(r *RecallRequest) { r.Fusion = "adaptive" }),
		"gate":                    ask(func(r *RecallRequest) { r.Gate = "maybe" }),
		"order":                   ask(func(r *RecallRequest) { r.Order = "random" }),
		"exclude_contents":        ask(func(r *RecallRequest) { r.Exclude = make([]string, 201) }),
		"exclude_contents ":       ask(func(r *RecallRequest) { r.Exclude = slices.Repeat([]string{strings.Repeat("記", 1_000_000)}, 5) }),
		"exclude_contents[1]":     ask(func(r *RecallRequest) { r.Exclude = []string{"", "\x00"} }),
		"source_id":               ask(func(r *RecallRequest) { r.SourceID = "\x00" }),
		"user_id":                 ask(func(r *RecallRequest) { r.UserID = pointer("\n") }),
		"update":                  update(func(*UpdateRequest) {}),
		"content":                 update(func(r *UpdateRequest) { r.Content = pointer("") }),
		"time":                    update(func(r *UpdateRequest) { r.Time = pointer("yesterday") }),
		"metadata":                update(func(r *UpdateRequest) { r.Metadata = json.RawMessage("7") }),
		"keywords":                update(func(r *UpdateRequest) { r.Keywords = []string{"k"} }),
		"ref":                     update(func(r *UpdateRequest) { r.Ref, r.Content = "mem:01", pointer("y") }),
		"items":                   second(b.Store(ctx, StoreRequest{Agent: "mia"})),
		"items ":                  second(b.Store(ctx, StoreRequest{Agent: "mia", Items: make([]StoreItem, MaxStoreBatch+1)})),
		"refs":                    second(b.Delete(ctx, DeleteRequest{Agent: "mia"})),
		"refs ":                   second(b.Delete(ctx, DeleteRequest{Agent: "mia", All: true, Refs: []string{ref}})),
		"refs  ":                  second(b.Lock(ctx, LockRequest{Agent: "mia"})),
		"cursor":                  second(b.List(ctx, ListRequest{Agent: "mia", Cursor: "ep:1"})),
		"limit":                   second(b.List(ctx, ListRequest{Agent: "mia", Limit: 501})),
		"type":                    second(b.List(ctx, ListRequest{Agent: "mia", Type: "profile"})),
		"setting":                 second(b.SetSetting(ctx, "no.such", "1")),
		"recall.depth":            second(b.SetSetting(ctx, "recall.depth", "9")),
		"recall.depth ":           second(b.SetSetting(ctx, "recall.depth", "1e3")),
		"fusion.rrf_k":            second(b.SetSetting(ctx, "fusion.rrf_k", "NaN")),
		"fusion.mode":             second(b.SetSetting(ctx, "fusion.mode", "adaptive")),
		"gate.fused":              second(b.SetSetting(ctx, "gate.fused", "yes")),
		"recall.arms":             second(b.SetSetting(ctx, "recall.arms", "vector,,fts")),
		"confidence.cosine_floor": second(b.SetSetting(ctx, "confidence.cosine_floor", "0.9")),
		"method":                  second(b.Calibrate(ctx, CalibrateRequest{Agent: "mia", Method: "guess"})),
		"precision":               second(b.Calibrate(ctx, CalibrateRequest{Agent: "mia", Precision: "odd"})),
		"action":                  second(b.ChangeModel(ctx, ModelRequest{Action: "melt"})),
		"action ":                 second(b.ChangeModel(ctx, ModelRequest{})),
		"model":                   second(b.ChangeModel(ctx, ModelRequest{Action: "retire", Model: "9"})),
		"checks":                  second(b.Doctor(ctx, DoctorRequest{Checks: []string{"luck"}})),
		"path":                    b.Backup(ctx, "", nil),
	} {
		var refused *memory.FieldError
		if !errors.As(err, &refused) || refused.Field != strings.TrimSpace(field) || refused.Next == "" || refused.Problem == "" || len(err.Error()) > 700 {
			t.Errorf("%s: %v", field, err)
		}
	}
	if r := b.record(ref); r.Content != "x" {
		t.Errorf("the record changed: %+v", r)
	}
}

// Issue, Bad input: the refusal of a text setting says what is wrong with it.
func TestTextSettingSaysWhatIsWrong(t *testing.T) {
	b := open(t, nil)
	for value, want := range map[string]string{"\x00": "contains NUL at byte 0", "a\xff": "is not valid UTF-8 at byte 1", strings.Repeat("語", 201): "has 201 code points (limit: at most 200 code points)"} {
		_, err := b.SetSetting(t.Context(), "embedding.name", value)
		if err == nil || !strings.Contains(err.Error(), "embedding.name: "+want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// DECISIONS 11, RR-444: update edits in place and embeds the new text at once;
// a lock refuses update and delete until it is lifted; an empty deletion is
// refused; deleted rows leave every read.
func TestUpdateLockDelete(t *testing.T) {
	b := open(t, nil)
	ctx := t.Context()
	refs := b.put("mia", say("the staging port is 8080"), say("lunch was soup"))
	if _, err := b.Lock(ctx, LockRequest{Agent: "mia", Refs: refs[:1], Locked: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Update(ctx, UpdateRequest{Agent: "mia", Ref: refs[0], Content: pointer("changed")}); !errors.Is(err, memory.ErrLocked) {
		t.Errorf("update of a locked record: %v", err)
	}
	if d, err := b.Delete(ctx, DeleteRequest{Agent: "mia", Refs: refs[:1]}); err != nil || !slices.Equal(d.Locked, refs[:1]) {
		t.Errorf("delete of a locked record: %+v, %v", d, err)
	}
	if l, err := b.Lock(ctx, LockRequest{Agent: "mia", Refs: []string{refs[0], "mem:77", "junk"}}); err != nil || !slices.Equal(l.Done, refs[:1]) || len(l.Missing) != 2 {
		t.Errorf("unlock: %+v, %v", l, err)
	}
	row, err := b.Update(ctx, UpdateRequest{Agent: "mia", Ref: refs[0], Content: pointer("猫は台所にいます"), Project: pointer("home")})
	if err != nil || row.Content != "猫は台所にいます" || row.Project != "home" || row.Revision != memory.Revision(row.Content) {
		t.Fatalf("%s, %v", encode(t, row), err)
	}
	a := b.recall(RecallRequest{Agent: "mia", Query: "台所の猫", Arms: []string{"vector"}})
	if len(a.Rows) == 0 || a.Rows[0].Ref != refs[0] || !a.Coverage.Full {
		t.Errorf("the new text is not found by its vector: %s", encode(t, a))
	}
	d, err := b.Delete(ctx, DeleteRequest{Agent: "mia", Refs: append(refs, "mem:55")})
	if err != nil || !slices.Equal(d.Deleted, refs) || d.Memories != 2 || !slices.Equal(d.Missing, []string{"mem:55"}) {
		t.Errorf("%+v, %v", d, err)
	}
	if a := b.recall(RecallRequest{Agent: "mia", Query: "台所の猫", Gate: "off"}); len(a.Rows) != 0 {
		t.Errorf("deleted rows come back: %v", refsIn(a.Rows))
	}
}

// Issue 2.3: deleting everything takes records, profiles and thresholds of the
// agent alone, and leaves what is locked.
func TestDeleteAll(t *testing.T) {
	b := open(t, nil)
	b.put("ken", days()...)
	refs := b.put("mia", append(days(), StoreItem{Type: "episode", Summary: "e"}, StoreItem{Type: "profile", UserID: "u", Content: "p"}, StoreItem{Content: "kept", Locked: true})...)
	d, err := b.Delete(t.Context(), DeleteRequest{Agent: "mia", All: true})
	if err != nil || d.Memories != 8 || d.Episodes != 1 || d.Profiles != 1 || !slices.Equal(d.Locked, refs[len(refs)-1:]) {
		t.Errorf("%+v, %v", d, err)
	}
	if s := b.status(); s.Memories != 9 {
		t.Errorf("%d memories are left, want ken's 8 and the locked one", s.Memories)
	}
}

// Formats: what is exported and stored again gives the same export: versions,
// locks, sources, metadata, times with their offsets.
func TestExportStoresTheSameAgain(t *testing.T) {
	b := open(t, nil)
	b.put("mia", StoreItem{Content: "v1", MessageID: "m", Time: "2026-03-01T09:30:00+09:00"}, StoreItem{Content: "v2", MessageID: "m", OnConflict: "version"},
		StoreItem{Content: "会議", Project: "atlas", Channel: "chat", Source: memory.Source{Type: "chat", ID: "s", Name: "Ken"}, Metadata: json.RawMessage(`{"k":[1,2]}`), Locked: true},
		StoreItem{Type: "episode", Summary: "e", Keywords: []string{"a", "b"}, Start: "2026-03-01T00:00:00Z", Resolved: true},
		StoreItem{Type: "profile", UserID: "u", Content: "p"})
	export := func(b *bench) (items []StoreItem, text string) {
		err := b.Export(t.Context(), ExportRequest{Agent: "mia"}, func(line json.RawMessage) error {
			var item StoreItem
			if err := json.Unmarshal(line, &item); err != nil {
				return err
			}
			items, text = append(items, item), text+string(line)+"\n"
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return items, text
	}
	items, text := export(b)
	again := open(t, nil)
	again.put("mia", items...)
	if _, got := export(again); got != text || len(items) != 5 {
		t.Errorf("exported\n%s\nand again\n%s", text, got)
	}
	stop := errors.New("the reader is gone")
	if err := b.Export(t.Context(), ExportRequest{Agent: "mia"}, func(json.RawMessage) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a reader's error is lost: %v", err)
	}
}

// Issue 2.3: settings live in the file, flags win over them, an empty value is
// the default again, and each is refused outside its range.
func TestSettings(t *testing.T) {
	b := open(t, map[string]string{"fusion.rrf_k": "30"})
	ctx := t.Context()
	if s, err := b.SetSetting(ctx, "recall.depth", "50"); err != nil || s.Value != "50" || !s.Stored || s.Default != "100" {
		t.Fatalf("%+v, %v", s, err)
	}
	if s, err := b.SetSetting(ctx, "fusion.rrf_k", "90"); err != nil || s.Value != "30" {
		t.Errorf("a flag gives way to a stored value: %+v, %v", s, err)
	}
	b.restart()
	if p := b.policy(); p.Depth != 50 || p.RRFK != 30 {
		t.Errorf("after a restart depth %d, k %v", p.Depth, p.RRFK)
	}
	if _, err := b.SetSetting(ctx, "recall.depth", ""); err != nil || b.policy().Depth != 100 {
		t.Errorf("back to the default: %d, %v", b.policy().Depth, err)
	}
	all, err := b.Settings(ctx)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, s := range all {
		if seen[s.Name] || s.Doc == "" || s.Range == "" {
			t.Errorf("%+v", s)
		}
		seen[s.Name] = true
	}
	for _, name := range []string{"recall.depth", "embedding.backend", "embedding.url", "previous.backend", "answer.preview_chars"} {
		if !seen[name] {
			t.Errorf("no setting %s", name)
		}
	}
	bad := b.cfg
	bad.Overrides = map[string]string{"no.such": "1"}
	if _, err := New(ctx, bad); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("an unknown flag: %v", err)
	}
}

// Every default of the registry is inside its own range and is what the policy
// holds.
func TestDefaultsAreValid(t *testing.T) {
	p, err := policyOf(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p.Depth != 100 || p.Fusion != "rsf" || p.RRFK != 60 || p.PreviewChars != 500 || p.FullBudget != 200_000 || p.ContentsBudget != 40_000 || p.MaxContent != 16_000 || p.ConfidenceOn || !p.GateFused || !p.Autocut {
		t.Errorf("%+v", p)
	}
}

// Issue 2.3: named checks side by side; a finding carries evidence and a fix and
// makes the whole not OK.
func TestDoctor(t *testing.T) {
	b := open(t, nil)
	b.put("mia", days()...)
	a, err := b.Doctor(t.Context(), DoctorRequest{})
	if err != nil || !a.OK || len(a.Checks) < 4 || !slices.IsSortedFunc(a.Checks, func(a, b CheckResult) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("%s, %v", encode(t, a), err)
	}
	if err := b.store.PutCalibration(t.Context(), sqlite.Calibration{Agent: "mia", Model: 1, Signal: "rsf", Threshold: .5, ScoringVersion: 99}); err != nil {
		t.Fatal(err)
	}
	a, err = b.Doctor(t.Context(), DoctorRequest{Checks: []string{"calibration"}})
	if err != nil || a.OK || len(a.Checks) != 1 || len(a.Checks[0].Evidence) != 1 || a.Checks[0].Fix == "" {
		t.Errorf("a stale threshold: %s, %v", encode(t, a), err)
	}
}

// RR-427 to RR-433: calibration measures the agent's own rows, says what it
// could not, stores under the active model, and is the same beside others.
func TestCalibrate(t *testing.T) {
	alone, beside := open(t, nil), open(t, nil)
	for i, b := range []*bench{alone, beside} {
		l, others := newLanguage(9), newLanguage(10)
		for n := range 40 {
			if i == 1 {
				b.put("ken", say(others.sentence(9)))
			}
			b.put("mia", StoreItem{Content: l.sentence(9), Time: start.Add(-time.Duration(n/4*120+n%4) * time.Minute).Format(time.RFC3339)})
		}
	}
	measure := func(b *bench, r CalibrateRequest) *CalibrateResponse {
		t.Helper()
		r.Agent = "mia"
		a, err := b.Calibrate(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	dry := measure(alone, CalibrateRequest{DryRun: true})
	if stored, err := alone.store.Calibrations(t.Context(), "mia"); err != nil || len(stored) != 0 {
		t.Errorf("a dry run stored %v, %v", stored, err)
	}
	a := measure(alone, CalibrateRequest{})
	if encode(t, a) != encode(t, dry) {
		t.Errorf("measured twice:\n%s\n%s", encode(t, dry), encode(t, a))
	}
	found := map[string]Calibration{}
	for _, r := range a.Results {
		found[r.Signal] = r
		if r.Threshold < .05 || r.Threshold > 1 || r.Model == "" || r.Dims != 512 || r.Positives < 5 || r.Negatives < 10 {
			t.Errorf("%+v", r)
		}
	}
	if len(found) != 2 || found["cosine"].Negatives != 40*39/2 {
		t.Errorf("%s", encode(t, a))
	}
	if stored, err := alone.store.Calibrations(t.Context(), "mia"); err != nil || len(stored) != 2 {
		t.Errorf("stored %v, %v", stored, err)
	}
	if got, want := encode(t, measure(beside, CalibrateRequest{})), encode(t, measure(alone, CalibrateRequest{})); got != want {
		t.Errorf("beside another agent\n%s\nalone\n%s", got, want)
	}
	strict, lenient := measure(alone, CalibrateRequest{Precision: "strict"}), measure(alone, CalibrateRequest{Precision: "lenient"})
	if strict.Results[0].Threshold < lenient.Results[0].Threshold {
		t.Errorf("strict %v is below lenient %v", strict.Results[0].Threshold, lenient.Results[0].Threshold)
	}
	p95 := measure(alone, CalibrateRequest{Method: "percentile", Parameter: 95})
	if q := measure(alone, CalibrateRequest{Method: "percentile", Parameter: .95}); encode(t, p95) != encode(t, q) || p95.Results[0].Method != "percentile" {
		t.Errorf("95 and 0.95 differ: %s, %s", encode(t, p95), encode(t, q))
	}
	for _, parameter := range []float64{.95, -1} {
		var refused *memory.FieldError
		if _, err := alone.Calibrate(t.Context(), CalibrateRequest{Agent: "mia", Parameter: parameter}); !errors.As(err, &refused) || refused.Field != "parameter" {
			t.Errorf("a method without a parameter takes %v: %v", parameter, err)
		}
	}
	b := open(t, nil)
	b.put("mia", days()[:5]...)
	if a := measure(b, CalibrateRequest{}); len(a.Results) != 0 || len(a.Skipped) != 3 {
		t.Errorf("five rows: %s", encode(t, a))
	}
}
