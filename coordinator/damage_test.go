package coordinator

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"recalld/memory"
)

// ARCHITECTURE 4.7: a record whose bytes are not those that were stored is in no
// answer, the answers that lack it say so, and the others stand.
func TestDamagedRowIsSaid(t *testing.T) {
	for name, damage := range map[string]string{"another text": "password is hunter3", "no UTF-8": "password is hunter\xff"} {
		t.Run(name, func(t *testing.T) {
			b := open(t, nil)
			refs := b.put("mia", say("The staging password is kept by Ken."), say("The staging password is hunter2."), say("暗証番号の会議は火曜日。"))
			b.put("ken", say("Another agent's password."))
			b.down()
			contents, err := os.ReadFile(b.path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(b.path, []byte(strings.ReplaceAll(string(contents), "password is hunter2", damage)), 0o600); err != nil {
				t.Fatal(err)
			}
			b.up()
			for _, query := range []string{"staging password", ""} {
				a := b.recall(RecallRequest{Agent: "mia", Query: query, Gate: "off"})
				if got := refsIn(a.Rows); slices.Contains(got, refs[1]) || !slices.Contains(got, refs[0]) {
					t.Errorf("%q: rows %v", query, got)
				}
				if i := slices.IndexFunc(a.Degraded, func(d Degradation) bool { return d.Reason == "damaged_row" }); i < 0 || a.Coverage.Full ||
					!strings.Contains(a.Degraded[i].Detail, refs[1]) || !strings.Contains(a.Degraded[i].Detail, "recalld restore") {
					t.Errorf("%q: %+v, %+v", query, a.Degraded, a.Coverage)
				}
			}
			if a := b.recall(RecallRequest{Agent: "ken", Query: "password", Gate: "off"}); len(a.Degraded) != 0 || !a.Coverage.Full {
				t.Errorf("another agent hears of it: %+v", a)
			}
			a, err := b.GetContents(t.Context(), ContentsRequest{Agent: "mia", Refs: refs})
			if err != nil || len(a.Rows) != 2 || !slices.Equal(a.Unresolved, refs[1:2]) || len(a.Missing) != 0 {
				t.Errorf("contents: %+v, %v", a, err)
			}
			page, err := b.List(t.Context(), ListRequest{Agent: "mia", Limit: 1})
			if err != nil || len(page.Rows) != 1 || page.Cursor == "" {
				t.Fatalf("%+v, %v", page, err)
			}
			if page, err = b.List(t.Context(), ListRequest{Agent: "mia", Limit: 1, Cursor: page.Cursor}); err != nil || !slices.Equal(refsIn(page.Rows), refs[:1]) || page.Cursor != "" {
				t.Errorf("%+v, %v", page, err)
			}
			lines := 0
			err = b.Export(t.Context(), ExportRequest{Agent: "mia"}, func(json.RawMessage) error { lines++; return nil })
			if lines != 2 || !errors.Is(err, memory.ErrCorrupt) || !strings.Contains(err.Error(), refs[1]) {
				t.Errorf("export: %d lines, %v", lines, err)
			}
		})
	}
}

// RR-447: a profile that is no UTF-8 any more is left out, and the answer says so.
func TestDamagedProfileIsSaid(t *testing.T) {
	b := open(t, map[string]string{"profile.min_pool": "0"})
	b.put("mia", say("The staging password is kept by Ken."),
		StoreItem{Type: "profile", UserID: "lin", Content: "喜欢简短的回答"}, StoreItem{Type: "profile", UserID: "ken", Content: "Prefers short answers."})
	b.down()
	contents, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.path, []byte(strings.ReplaceAll(string(contents), "Prefers short", "Prefers\xffshort")), 0o600); err != nil {
		t.Fatal(err)
	}
	b.up()
	a := b.recall(RecallRequest{Agent: "mia", Query: "password"})
	if len(a.Profile) != 1 || a.Profile[0].UserID != "lin" || len(a.Degraded) == 0 || !strings.Contains(a.Degraded[len(a.Degraded)-1].Detail, "profile 2") {
		t.Errorf("%+v, %+v", a.Profile, a.Degraded)
	}
	lines := 0
	err = b.Export(t.Context(), ExportRequest{Agent: "mia"}, func(json.RawMessage) error { lines++; return nil })
	if lines != 2 || !errors.Is(err, memory.ErrCorrupt) || !strings.Contains(err.Error(), "profile 2") {
		t.Errorf("export: %d lines, %v", lines, err)
	}
}
