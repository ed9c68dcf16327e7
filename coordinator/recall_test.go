package coordinator

import "testing"

func TestSmoke(t *testing.T) {
	b := open(t, nil)
	refs := b.put("mia", say("The staging database moved to db-7 on 3 March."), say("会議は毎週火曜日の朝にあります"), StoreItem{Type: "episode", Summary: "We planned the move of the staging database."})
	t.Log(refs)
	t.Log(encode(t, b.recall(RecallRequest{Agent: "mia", Query: "where is the staging database?", Explain: true})))
	t.Log(encode(t, b.recall(RecallRequest{Agent: "mia", Query: "会議"})))
	t.Log(encode(t, b.recall(RecallRequest{Agent: "mia", Query: ""})))
	s, err := b.Status(t.Context())
	t.Log(encode(t, s), err)
}
