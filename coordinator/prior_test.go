package coordinator

import (
	"slices"
	"testing"

	"recalld/memory"
)

// DECISIONS 11, 23: of two versions that match alike the newer comes first; the
// earlier stays, says by what it was superseded and by how much it was weighed.
func TestSupersededVersionsComeAfterTheirSuccessor(t *testing.T) {
	b := open(t, nil)
	b.put("mia", days()...)
	b.put("mia", say("the staging room has a new port wine"), say("会議室の予約は火曜日まで"), say("会议室星期二上午有人用"))
	for _, c := range []struct{ id, before, after, query string }{
		{"port", "the staging port is 8443", "after the move of last week the staging port is 9443, and nobody changed the firewall", "staging port"},
		{"会議", "定例会議は火曜日の十時", "定例会議は水曜日の十時からに変わった", "定例会議は何曜日"},
		{"会议", "例会在星期二上午十点", "例会在星期三上午十点了", "例会在星期几"},
	} {
		old := b.put("mia", StoreItem{Content: c.before, MessageID: c.id, OnConflict: "version"})[0]
		fresh := b.put("mia", StoreItem{Content: c.after, MessageID: c.id, OnConflict: "version"})[0]
		ask := func() []Row { return b.recall(RecallRequest{Agent: "mia", Query: c.query}).Rows }
		rows := ask()
		first, second := slices.Index(refsIn(rows), fresh), slices.Index(refsIn(rows), old)
		if first < 0 || second < first {
			t.Fatalf("%s: %v, want %s before %s", c.id, refsIn(rows), fresh, old)
		}
		if row := rows[second]; row.SupersededBy != fresh || row.MatchReason.Prior == nil || *row.MatchReason.Prior != .75 {
			t.Errorf("%s: %s", c.id, encode(t, row))
		}
		if _, err := b.SetSetting(t.Context(), "prior.superseded", "1"); err != nil {
			t.Fatal(err)
		}
		if rows := ask(); refsIn(rows)[0] != old {
			t.Errorf("%s: without the prior %v: the texts do not make the case", c.id, refsIn(rows))
		}
		if _, err := b.SetSetting(t.Context(), "prior.superseded", ""); err != nil {
			t.Fatal(err)
		}
	}
}

// RR-421: a row names the words of the question that it has, and apart from them
// those that only its neighbours have.
func TestLentWordsAreNotTheRowsOwn(t *testing.T) {
	b := open(t, nil)
	session := memory.Source{Type: "chat", ID: "陶芸"}
	refs := b.put("mia",
		StoreItem{Content: "瑠璃釉は1235度の還元で焼く", Source: session},
		StoreItem{Content: "パンは230度で焼いた", Source: session})
	rows := b.recall(RecallRequest{Agent: "mia", Query: "瑠璃釉を焼く"}).Rows
	for _, row := range rows {
		m := row.MatchReason
		if own := slices.Contains(m.Terms, "瑠璃"); own != (row.Ref == refs[0]) {
			t.Errorf("%s has 瑠璃: %v", row.Ref, own)
		}
		if lent := slices.Contains(m.Near, "瑠璃"); lent != (row.Ref == refs[1]) {
			t.Errorf("%s was lent 瑠璃: %v", row.Ref, lent)
		}
	}
	if len(rows) != 2 {
		t.Errorf("%d rows", len(rows))
	}
}
