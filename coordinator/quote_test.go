package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"recalld/blocks"
	"recalld/memory"
	"recalld/sqlite"
)

// filler is an opening that no preview reaches past, in the text's language.
func filler(sentence string) string { return strings.Repeat(sentence, 600/len([]rune(sentence))+1) }

// plans are texts in which the last of three sentences overturns the first, behind
// an opening that has nothing to do with them (example 6).
var plans = []struct{ language, opening, query, quoted, apart string }{
	{"en", "The gardener waters the roses at noon. ", "Which plan did we adopt for the cache?", "We adopted plan A for the cache. However, only the read path uses it. But on the write path it was withdrawn. ", "Parking moved to the north lot."},
	{"ja", "庭師は正午に薔薇へ水をやる。", "キャッシュにはどの案を採用した?", "キャッシュには案Aを採用した。ただし、読み込み経路に限る。もっとも、書き込み経路では撤回した。", "駐車場は北側へ移った。"},
	{"zh", "园丁中午给玫瑰浇水。", "缓存采用了哪个方案?", "缓存采用了方案A。但是只用于读取路径。不过写入路径上已经撤回。", "停车场搬到了北侧。"},
}

// BR-001, BR-008, BR-074, BR-078, BR-086, BR-145, example 6: a cut row shows the
// place that the query is about together with what overturns it, and not the
// unrelated sentence behind; the offsets are those of the text.
func TestCutRowsQuoteWhatAnswers(t *testing.T) {
	b := open(t, map[string]string{"blocks.retrieve": "true"})
	for _, plan := range plans {
		text := filler(plan.opening) + plan.quoted + plan.apart
		ref := b.put(plan.language, say(text))[0]
		b.drain()
		row := b.recall(RecallRequest{Agent: plan.language, Query: plan.query}).Rows[0]
		prefix, _ := memory.Prefix(text, 500)
		if row.Ref != ref || row.Content != prefix || row.Revision != memory.Revision(text) {
			t.Errorf("%s: the preview changed: %s", plan.language, encode(t, row))
		}
		q := row.Quote
		if q == nil || q.Text != plan.quoted || !q.Complete || q.ReadRange != nil {
			t.Errorf("%s: got %s", plan.language, encode(t, q))
			continue
		}
		if part, _ := (memory.Span{Start: q.Start, End: q.End}).Slice(text); part != q.Text {
			t.Errorf("%s: [%d,%d) is %q", plan.language, q.Start, q.End, part)
		}
	}
}

// BR-006, BR-008: a hit is told by its block, a short clause of the text; what the
// reader sees is the wider range around it.
func TestHitsAreToldByTheirBlock(t *testing.T) {
	b := open(t, map[string]string{"blocks.retrieve": "true"})
	for _, plan := range plans {
		text := filler(plan.opening) + plan.quoted + plan.apart
		ref := b.put(plan.language, say(text))[0]
		b.drain()
		a := b.recall(RecallRequest{Agent: plan.language, Query: plan.query, Explain: true})
		if len(a.Explain.Blocks.Candidates) != 1 || a.Explain.Blocks.Candidates[0].Ref != ref {
			t.Fatalf("%s: %s", plan.language, encode(t, a.Explain.Blocks))
		}
		all, err := blocks.Split(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		hit := all[a.Explain.Blocks.Candidates[0].Block]
		clause, _ := hit.Slice(text)
		q := a.Rows[0].Quote
		if q == nil || !strings.HasPrefix(plan.quoted, clause) || len(clause) >= len(plan.quoted) || q.Text != plan.quoted || q.Start != hit.Start || q.End <= hit.End {
			t.Errorf("%s: the hit is %q, the quotation %s", plan.language, clause, encode(t, q))
		}
	}
}

// BR-080 to BR-082, BR-086, BR-087, BR-145: a context that is too long is shown in
// part and says so; what to read instead can be fetched until the text is another
// one.
func TestLongQuoteIsNotComplete(t *testing.T) {
	b := open(t, map[string]string{"blocks.retrieve": "true"})
	text := filler(plans[0].opening) + "We adopted plan A for the cache. "
	for i := range 60 {
		text += fmt.Sprintf("However, machine number %d keeps the older one. ", i)
	}
	ref := b.put("mia", say(text))[0]
	b.drain()
	q := b.recall(RecallRequest{Agent: "mia", Query: plans[0].query}).Rows[0].Quote
	if q == nil || q.Complete || memory.Len(q.Text) > blocks.QuoteLimit || memory.Len(q.Text) < blocks.QuoteLimit/2 || q.ReadRange == nil || q.ReadRange.Revision != memory.Revision(text) {
		t.Fatalf("got %s", encode(t, q))
	}
	whole, _ := (memory.Span{Start: q.ReadRange.Start, End: q.ReadRange.End}).Slice(text)
	if !strings.HasPrefix(whole, "We adopted") || !strings.HasSuffix(whole, "number 59 keeps the older one. ") {
		t.Errorf("read %q", whole)
	}
	handle := fmt.Sprintf("%s#chars=%d-%d&rev=%s", ref, q.ReadRange.Start, q.ReadRange.End, q.ReadRange.Revision)
	if a := b.contents(handle); len(a.Rows) != 1 || a.Rows[0].Content != whole {
		t.Errorf("contents: %s", encode(t, a))
	}
	if _, err := b.Update(t.Context(), UpdateRequest{Agent: "mia", Ref: ref, Content: pointer("Another. " + text)}); err != nil {
		t.Fatal(err)
	}
	if a := b.contents(handle); len(a.Rows) != 0 || !slices.Equal(a.Unresolved, []string{handle}) {
		t.Errorf("after the rewrite: %s", encode(t, a))
	}
	if q := b.recall(RecallRequest{Agent: "mia", Query: plans[0].query}).Rows[0].Quote; q != nil && q.Start < memory.Len("Another. ") && q.ReadRange.Revision == memory.Revision(text) {
		t.Errorf("a quotation of the old text: %s", encode(t, q))
	}
}

// BR-083, BR-084: a quotation is settled before anything is cut: the number of
// rows and their order change none. It stands only where it adds to what is shown.
func TestQuotesStandWhereTheyAdd(t *testing.T) {
	b := open(t, map[string]string{"blocks.retrieve": "true"})
	text := filler(plans[0].opening) + plans[0].quoted + plans[0].apart
	ref := b.put("mia", say(text), say("Plan A is about the cache."), say("The cache holds plan B."))[0]
	b.put("mia", say(strings.TrimSpace(plans[0].quoted)+" "+filler("The road is closed. ")))
	b.drain()
	quote := func(r RecallRequest) *Quote {
		r.Agent = "mia"
		for _, row := range b.recall(r).Rows {
			if row.Ref == ref {
				return row.Quote
			}
		}
		t.Fatalf("%s is missing", ref)
		return nil
	}
	want := encode(t, quote(RecallRequest{Query: plans[0].query}))
	for _, r := range []RecallRequest{{Count: 4}, {Count: 100}, {Order: BestLast}, {Gate: "off"}} {
		r.Query = plans[0].query
		if got := encode(t, quote(r)); got != want || got == "null" {
			t.Errorf("%s: got %s, want %s", encode(t, r), got, want)
		}
	}
	if q := quote(RecallRequest{Query: plans[0].query, FullContent: true}); q != nil {
		t.Errorf("a whole row: %s", encode(t, q))
	}
	if q := quote(RecallRequest{Query: "When does the gardener water the roses?"}); q != nil {
		t.Errorf("what the preview shows: %s", encode(t, q))
	}
	if q := quote(RecallRequest{}); q != nil {
		t.Errorf("a listing: %s", encode(t, q))
	}
	if q := quote(RecallRequest{Query: plans[0].query, Arms: []string{"lexical"}}); q != nil {
		t.Errorf("no vector of the query: %s", encode(t, q))
	}
	b.policed(func(p *Policy) { p.BlockRetrieve = false })
	if q := quote(RecallRequest{Query: plans[0].query}); q != nil {
		t.Errorf("retrieval is off: %s", encode(t, q))
	}
	b.policed(func(p *Policy) { p.BlockRetrieve, p.PreviewChars = true, 0 })
	if q := quote(RecallRequest{Query: plans[0].query}); q != nil {
		t.Errorf("previews are off: %s", encode(t, q))
	}
}

// BR-145: a block that the record does not have is no quotation, and no incomplete
// one either.
func TestNoQuoteOfABlockThatIsNotThere(t *testing.T) {
	spans := []sqlite.BlockSpan{{Start: 0, End: 4}, {Start: 4, End: 8}}
	if q := quoteOf("One. 二。三", spans, 1, 0); q == nil || q.End != 8 {
		t.Errorf("got %s", encode(t, q))
	}
	for _, at := range []int{-1, 2} {
		if q := quoteOf("One. 二。三", spans, at, 0); q != nil {
			t.Errorf("block %d: %s", at, encode(t, q))
		}
	}
}

// BR-001, BR-185: text behind what a record's one vector tells of reaches the
// answer through its block and is quoted there; without retrieval it does not.
func TestTailIsReached(t *testing.T) {
	b := open(t, map[string]string{"blocks.retrieve": "true"})
	tail := "Each callback carries a token, and a repeat is dropped at the door."
	b.put("mia", say(filler("The gardener waters the roses at noon. ")+tail))
	for i := range 30 {
		b.put("mia", say(fmt.Sprintf("callback token repeat %d: %s", i, strings.Repeat("door ", i%4))))
	}
	b.drain()
	r := RecallRequest{Agent: "mia", Query: "each callback carries a token and a repeat is dropped at the door", Arms: []string{"vector"}, Count: 5}
	a := b.recall(r)
	last := a.Rows[len(a.Rows)-1]
	at := slices.IndexFunc(a.Rows, func(row Row) bool { return row.Ref == "mem:1" })
	if at < 0 || a.Rows[at].Admission != AdmissionReservation || a.Rows[at].Quote == nil || a.Rows[at].Quote.Text != tail {
		t.Errorf("the tail: %d of %d rows, last %s", at, len(a.Rows), encode(t, last))
	}
	b.policed(func(p *Policy) { p.BlockRetrieve = false })
	if got := refsIn(b.recall(r).Rows); slices.Contains(got, "mem:1") {
		t.Errorf("without blocks: %v", got)
	}
}

// RR-236, BR-019: nodes are fetched by number, half open, exactly as the set has
// them; what it does not have, or has no longer, is unresolved.
func TestNodesAreFetched(t *testing.T) {
	b := open(t, map[string]string{"blocks.retrieve": "true"})
	text := filler("The gardener waters the roses at noon. ") + strings.Repeat("庭師は正午に薔薇へ水をやる。", 90)
	ref := b.put("mia", say(text))[0]
	short := b.put("mia", say("one block"))[0]
	b.drain()
	var whole strings.Builder
	n := 0
	for ; ; n++ {
		a := b.contents(fmt.Sprintf("%s#node=%d", ref, n))
		if len(a.Rows) == 0 {
			break
		}
		if whole.Len() > 0 && memory.Len(a.Rows[0].Content) < 100 && n < 2 {
			t.Errorf("node %d is %q", n, a.Rows[0].Content)
		}
		whole.WriteString(a.Rows[0].Content)
	}
	if n < 2 || whole.String() != text {
		t.Fatalf("%d nodes, %d of %d bytes", n, whole.Len(), len(text))
	}
	a := b.contents(fmt.Sprintf("%s#node=0-%d", ref, n), ref+"#node=0-2&rev="+memory.Revision(text))
	if len(a.Rows) != 2 || a.Rows[0].Content != text || a.Rows[0].ContentTruncated || !a.Rows[1].ContentTruncated && n > 2 {
		t.Errorf("all nodes: %s", encode(t, a))
	}
	bad := []string{fmt.Sprintf("%s#node=%d", ref, n), fmt.Sprintf("%s#node=0-%d", ref, n+1), ref + "#node=1-1", ref + "#node=-1", ref + "#node=", ref + "#node=1&chars=0-1", ref + "#node=99999999999",
		ref + "#node=0&rev=" + strings.Repeat("0", 64), short + "#node=0"}
	if a := b.contents(bad...); !slices.Equal(a.Unresolved, bad) {
		t.Errorf("unresolved %v", a.Unresolved)
	}
	if _, err := b.Update(t.Context(), UpdateRequest{Agent: "mia", Ref: ref, Content: pointer(text + "!")}); err != nil {
		t.Fatal(err)
	}
	if a := b.contents(ref + "#node=0&rev=" + memory.Revision(text)); len(a.Unresolved) != 1 {
		t.Errorf("after a rewrite: %s", encode(t, a))
	}
}
