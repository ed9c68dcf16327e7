package coordinator

import (
	"encoding/json"
	"testing"

	"recalld/sqlite"
)

// Formats: a record of a project whose message id the global pool knows as well
// is stored again by what was exported, and once.
// RR-444
func TestExportKeepsRecordsBesideTheGlobalPool(t *testing.T) {
	b := open(t, nil)
	b.put("mia", StoreItem{Content: "the whole team meets on Tuesday", MessageID: "m"},
		StoreItem{Content: "atlas meets on Wednesday", MessageID: "m", Project: "atlas", OnConflict: "version"},
		StoreItem{Content: "会议在星期四", MessageID: "m", Project: "atlas", OnConflict: "version", Time: "2026-03-01T09:30:00+09:00"},
		StoreItem{Content: "会議は金曜日", MessageID: "m", Project: "billing", OnConflict: "version"},
		StoreItem{Content: "alone", MessageID: "n", Project: "atlas"})
	export := func(b *bench) (items []StoreItem, text string) {
		t.Helper()
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
	if len(items) != 5 || items[4].OnConflict != "" {
		t.Fatalf("exported\n%s", text)
	}
	again := open(t, nil)
	for _, outcome := range []string{"stored", sqlite.OutcomeSkipped} {
		a, err := again.Store(t.Context(), StoreRequest{Agent: "mia", Items: items[3:]})
		if err != nil || a.Results[0].Outcome != outcome {
			t.Errorf("%+v, %v, want %s", a, err, outcome)
		}
	}
	again = open(t, nil)
	again.put("mia", items...)
	if _, got := export(again); got != text {
		t.Errorf("exported\n%s\nand again\n%s", text, got)
	}
	for _, item := range []int{0, 2, 3, 4} {
		a, err := again.Store(t.Context(), StoreRequest{Agent: "mia", Items: items[item : item+1]})
		if err != nil || a.Results[0].Outcome != sqlite.OutcomeSkipped {
			t.Errorf("line %d a second time: %+v, %v", item+1, a, err)
		}
	}
}
