package coordinator

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// library is a text of many sentences in three languages, the same for the same
// state of the language.
func library(l *language, sentences int) string {
	fixed := []string{
		"However, the second pump stays off. ", "ただし、二号機は止めたままにする。", "但是二号泵保持关闭。",
		"Each callback carries a token; a repeat is dropped at the door. ", "同じ番号の通知は入口で捨てる。", "相同编号的通知在入口丢弃。",
	}
	var b strings.Builder
	for range sentences {
		if l.random.IntN(3) == 0 {
			b.WriteString(fixed[l.random.IntN(len(fixed))])
			continue
		}
		b.WriteString(l.sentence(3+l.random.IntN(9)) + ". ")
	}
	return strings.TrimSpace(b.String())
}

// shelve fills a store with records of one to twelve sentences of two agents, the
// same for the same seed. Each text ends in its number, so that none is refused as
// a repetition.
func shelve(b *bench, seed uint64, records int) {
	l := newLanguage(seed)
	for i := range records {
		item := StoreItem{
			Content: fmt.Sprintf("%s No. %d", library(l, 1+l.random.IntN(12)), i), Project: []string{"", "atlas"}[l.random.IntN(2)], Channel: []string{"", "chat"}[l.random.IntN(2)],
			MessageID: fmt.Sprint("message-", i),
		}
		item.Source.ID = []string{"s1", "s2", ""}[l.random.IntN(3)]
		if l.random.IntN(5) == 0 {
			item = StoreItem{Type: "episode", Summary: item.Content, Project: item.Project, Channel: item.Channel}
		}
		b.put([]string{"mia", "mia", "ken"}[l.random.IntN(3)], item)
	}
}

// inquiries are requests of every kind over what shelve stores.
func inquiries(seed uint64, n int) (requests []RecallRequest) {
	l := newLanguage(seed + 1)
	for range n {
		r := l.random
		q := RecallRequest{Agent: []string{"mia", "ken"}[r.IntN(2)], Query: library(l, 1), Count: 1 + r.IntN(4), Explain: r.IntN(4) == 0, Deep: r.IntN(5) == 0, FullContent: r.IntN(6) == 0}
		switch r.IntN(8) {
		case 0:
			q.Query = "ポンプの再起動"
		case 1:
			q.Query = "二号泵保持关闭吗"
		case 2:
			q.Query = ""
		}
		q.Gate, q.Fusion, q.Order = []string{"", "off"}[r.IntN(2)], []string{"", "rrf"}[r.IntN(2)], []string{"", BestLast}[r.IntN(2)]
		q.Arms = [][]string{nil, {"vector"}, {"lexical"}, {"vector", "lexical"}}[r.IntN(4)]
		if r.IntN(3) == 0 {
			q.Project = pointer([]string{"", "atlas"}[r.IntN(2)])
		}
		if r.IntN(5) == 0 {
			q.SourceID = "s1"
		}
		if r.IntN(5) == 0 {
			q.Exclude = []string{library(l, 1)}
		}
		requests = append(requests, q)
	}
	return requests
}

// ledger are the answers to the inquiries as text.
func ledger(b *bench, seed uint64, n int) string {
	var out strings.Builder
	for i, q := range inquiries(seed, n) {
		fmt.Fprintf(&out, "inquiry %d %s\n", i, encode(b.t, b.recall(q)))
	}
	return out.String()
}

// beforeSettings are those that the recorded answers were made under.
func beforeSettings() map[string]string {
	return map[string]string{"answer.preview_chars": "40", "confidence.count_recalls": "false", "recall.depth": "10", "vector.threshold": "0.1", "fusion.evidence": "0"}
}

// before are the answers to the inquiries as the last build without blocks gave
// them. A change of answers that has another reason than blocks is made to the
// file by hand; nothing else may differ.
func before(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/before_blocks.txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// BR-138, BR-169, BR-186, BR-134, ARCHITECTURE 8.2: with both switches off, every answer
// is the bytes that a build without blocks gave.
func TestWithoutBlocksNothingChanged(t *testing.T) {
	settings := beforeSettings()
	settings["blocks.build"], settings["blocks.retrieve"] = "false", "false"
	b := open(t, settings)
	shelve(b, 5, 60)
	b.drain()
	if n := b.status().Blocks.Blocks; n != 0 {
		t.Errorf("%d blocks were built", n)
	}
	if got, want := ledger(b, 5, 30), before(t); got != want {
		t.Error(firstDifference(got, want))
	}
}

// BR-132, BR-138, BR-186: building alone, and the sets that nothing reads, leave
// every answer the same bytes too.
func TestUnreadBlocksChangeNothing(t *testing.T) {
	settings := beforeSettings()
	settings["blocks.build"], settings["blocks.retrieve"] = "true", "false"
	b := open(t, settings)
	shelve(b, 5, 60)
	b.drain()
	if n := b.status().Blocks.Blocks; n < 100 {
		t.Errorf("%d blocks were built", n)
	}
	if got, want := ledger(b, 5, 30), before(t); got != want {
		t.Error(firstDifference(got, want))
	}
}
