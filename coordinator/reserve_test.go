package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"recalld/blocks"
	"recalld/coordinator/arm"
	"recalld/embed"
	"recalld/memory"
	"recalld/sqlite"
)

// reader opens a coordinator whose recalls read the blocks that the test puts
// there; none are built beside them.
func reader(t testing.TB, more map[string]string) *bench {
	settings := map[string]string{"blocks.build": "false", "blocks.retrieve": "false"}
	maps.Copy(settings, more)
	b := open(t, settings)
	b.policed(func(p *Policy) { p.BlockRetrieve = true })
	return b
}

// build gives every record of the agents the block set that the queue would.
func (b *bench) build(agents ...string) {
	b.t.Helper()
	for _, agent := range agents {
		view, err := b.store.ViewRecords(b.t.Context())
		if err != nil {
			b.t.Fatal(err)
		}
		records, err := view.Recent(memory.Scope{Agent: agent}, []memory.Kind{memory.KindMemory, memory.KindEpisode}, 10_000)
		if err != nil {
			b.t.Fatal(err)
		}
		view.Close()
		for _, r := range records {
			spans, err := blocks.Split(r.Content, nil)
			if err != nil {
				b.t.Fatal(err)
			}
			var texts []string
			for _, s := range spans {
				text, _ := s.Slice(r.Content)
				texts = append(texts, text)
			}
			if len(texts) > 1 {
				b.shelf(r.Ref, r.Content, spans, b.vectors(embed.Document, texts...))
			}
		}
	}
}

func (b *bench) vectors(purpose embed.Purpose, texts ...string) [][]float32 {
	b.t.Helper()
	model, _, err := b.models.embedder(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	vectors, err := model.Embed(context.Background(), purpose, texts)
	if err != nil {
		b.t.Fatal(err)
	}
	return vectors
}

// shelf publishes a block set with chosen vectors.
func (b *bench) shelf(ref memory.Ref, text string, spans []blocks.Block, vectors [][]float32) {
	b.t.Helper()
	_, model, err := b.models.embedder(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	set := sqlite.BlockSet{Ref: ref, Model: model, Revision: memory.Revision(text), Policy: sqlite.BlockPolicy, Dims: len(vectors[0])}
	for i, s := range spans {
		values, ok := memory.Int8(vectors[i])
		if !ok {
			b.t.Fatalf("block %d of %s has no vector", i, ref)
		}
		set.Blocks = append(set.Blocks, sqlite.BlockSpan{Start: s.Start, End: s.End, Forced: s.Forced, Node: s.Node})
		set.Bits, set.Values = append(set.Bits, memory.Signs(vectors[i])...), append(set.Values, values...)
	}
	if written, err := b.store.PutBlockSets(context.Background(), []sqlite.BlockSet{set}); err != nil || !written[0] {
		b.t.Fatal(written, err)
	}
}

// near gives a record a block set whose first block has a cosine to the query and
// whose second is far from it.
func (b *bench) near(ref, text, query string, cosine float64) {
	b.t.Helper()
	r, err := memory.ParseRef(ref)
	if err != nil {
		b.t.Fatal(err)
	}
	q := b.vectors(embed.Query, query)[0]
	// A direction at right angles to the query's, the same in every run.
	across, dot := make([]float32, len(q)), 0.0
	for i := range across {
		across[i] = float32(i%7) - 3
		dot += float64(float64(across[i]) * float64(q[i]))
	}
	length := 0.0
	for i := range across {
		across[i] -= float32(float64(dot * float64(q[i])))
		length += float64(float64(across[i]) * float64(across[i]))
	}
	hit, far := make([]float32, len(q)), make([]float32, len(q))
	for i := range q {
		side := float64(across[i]) / math.Sqrt(length)
		hit[i] = float32(float64(cosine*float64(q[i])) + float64(math.Sqrt(1-float64(cosine*cosine))*side))
		far[i] = -q[i]
	}
	half := memory.Len(text) / 2
	b.shelf(r, text, []blocks.Block{{Span: memory.Span{Start: 0, End: half}, Node: true}, {Span: memory.Span{Start: half, End: memory.Len(text)}}}, [][]float32{hit, far})
}

// counter is example 5: fourteen rows that the gate lets through, and records that
// only a block reaches. G4 is one of both.
func counter(t *testing.T, settings map[string]string) (b *bench, query string, names map[string]string) {
	b = reader(t, settings)
	query = "How do we stop duplicate callbacks?"
	names = make(map[string]string)
	texts := make(map[string]string)
	add := func(name, text string) {
		names[b.put("mia", say(text))[0]] = name
		texts[name] = text
	}
	for i := range 14 {
		add(fmt.Sprint("G", i+1), strings.TrimSpace(strings.Repeat("duplicate callbacks ", 14-i)+strings.Repeat("and what else we stop ", i)))
	}
	add("X1", "Wicket 3 is oak. Each token is dropped at its door if it was seen.")
	add("X2", "通知は門番が見る。同じ番号は入口で捨てる。")
	add("X3", "门口有登记簿。相同编号的通知在入口丢弃。")
	add("X4", "Lamp 9 is red. It says so at night.")
	for ref, name := range names {
		if cosine := map[string]float64{"X1": .95, "G4": .9, "X2": .85, "X3": .8, "X4": .75}[name]; cosine > 0 {
			b.near(ref, texts[name], query, cosine)
		}
	}
	return b, query, names
}

func named(names map[string]string, rows []Row) (gate, reserved []string) {
	for _, r := range rows {
		if r.Admission == "" {
			gate = append(gate, names[r.Ref])
		} else {
			reserved = append(reserved, names[r.Ref])
		}
	}
	return gate, reserved
}

// BR-061, BR-062, BR-067, BR-068, BR-069, BR-070, example 5: reserved rows follow those of the
// gate in the arm's order, displace and repeat none, are not padded, and do not
// fill what the gate left empty.
func TestReservedRowsFollowTheGate(t *testing.T) {
	b, query, names := counter(t, nil)
	ask := func(count int) ([]string, []string) {
		return named(names, b.recall(RecallRequest{Agent: "mia", Query: query, Arms: []string{"vector", "lexical"}, Count: count}).Rows)
	}
	first := func(n int) (want []string) {
		b.policed(func(p *Policy) { p.BlockRetrieve = false })
		want, none := ask(n)
		b.policed(func(p *Policy) { p.BlockRetrieve = true })
		if len(none) > 0 {
			t.Errorf("%v without retrieval", none)
		}
		return want
	}
	all := first(100)
	if !slices.Contains(all, "G4") || slices.ContainsFunc(all, func(name string) bool { return strings.HasPrefix(name, "X") }) {
		t.Fatalf("the gate lets %v through", all)
	}
	at := slices.Index(all, "G4")
	for _, c := range []struct {
		count    int
		reserved []string
	}{
		{at + 1, []string{"X1", "X2", "X3"}}, // G4 is already returned
		{100, []string{"X1", "X2", "X3"}},    // empty places stay empty
		{at, []string{"X1", "G4", "X2"}},     // G4 is not returned yet
	} {
		if c.count == 0 {
			continue
		}
		gate, reserved := ask(c.count)
		if want := first(c.count); !slices.Equal(gate, want) || !slices.Equal(reserved, c.reserved) {
			t.Errorf("count %d: %v + %v, want %v + %v", c.count, gate, reserved, want, c.reserved)
		}
	}
	for n := range 11 {
		b.policed(func(p *Policy) { p.BlockReserved = n })
		gate, reserved := ask(100)
		want := []string{"X1", "X2", "X3", "X4"}
		if len(gate) != len(all) || !slices.Equal(reserved, want[:min(n, 4)]) {
			t.Errorf("reserved %d: %d rows + %v", n, len(gate), reserved)
		}
	}
}

// BR-055, BR-056, BR-063, BR-065, DECISIONS 24: a reserved row says how it came,
// has no score of any kind, and comes although its own vector is below the gate.
func TestReservedRowsSayHowTheyCame(t *testing.T) {
	b, query, names := counter(t, map[string]string{"vector.threshold": "0.9"})
	rows := b.recall(RecallRequest{Agent: "mia", Query: query, Count: 2}).Rows
	row := rows[len(rows)-3]
	if names[row.Ref] != "X1" {
		t.Fatalf("got %v", refsIn(rows))
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(encode(t, row)), &got); err != nil {
		t.Fatal(err)
	}
	reason := got["match_reason"].(map[string]any)
	if got["score"] != nil || got["admission"] != "reservation" || got["confidence"] != nil || len(reason) != 3 || reason["signal"] != "block" || reason["order"] != "vector" || reason["distance"].(float64) < 1 {
		t.Errorf("got %s", encode(t, row))
	}
	for _, r := range rows[:len(rows)-3] {
		if r.Admission != "" || r.MatchReason.Order != "" || r.MatchReason.Distance != nil || r.Score == nil {
			t.Errorf("a row of the gate: %s", encode(t, r))
		}
	}
}

// unreserved is an answer without what the block arm adds: reserved rows,
// quotations, its coverage and its ranking.
func unreserved(t testing.TB, a *RecallResponse) (text string, reserved []Row) {
	t.Helper()
	rest := *a
	rest.Rows = []Row{}
	rows := slices.Clone(a.Rows)
	if a.Order == BestLast {
		slices.Reverse(rows)
	}
	for _, r := range rows {
		r.Quote = nil
		switch {
		case r.Admission != "":
			reserved = append(reserved, r)
		case len(reserved) > 0:
			t.Errorf("%s stands behind a reserved row: %v", r.Ref, refsIn(a.Rows))
		default:
			rest.Rows = append(rest.Rows, r)
		}
	}
	rest.Coverage.Blocks = nil
	if a.Explain != nil {
		e := *a.Explain
		e.Blocks, e.Exclusions = nil, nil
		rest.Explain = &e
	}
	rest.FullContentBudget = 0
	return encode(t, rest), reserved
}

// BR-064, BR-067, BR-069, BR-141, BR-143, BR-186: over random stores and requests,
// switching retrieval on removes no row, moves none and changes none, in either
// order; the gate's part of the explanation is the same; at most as many rows come
// as are reserved, none of them twice, each of the scope.
func TestSwitchingOnOnlyAdds(t *testing.T) {
	added, quoted := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		settings := beforeSettings()
		settings["confidence.enabled"] = rapid.SampledFrom([]string{"false", "true"}).Draw(rt, "scorer")
		settings["answer.preview_chars"] = rapid.SampledFrom([]string{"40", "0", "200"}).Draw(rt, "preview")
		b := reader(t, settings)
		defer b.down()
		shelve(b, seed, rapid.IntRange(5, 40).Draw(rt, "records"))
		b.build("mia", "ken")
		for i, q := range inquiries(seed, 8) {
			b.policed(func(p *Policy) { p.BlockRetrieve = false })
			off := b.recall(q)
			b.policed(func(p *Policy) { p.BlockRetrieve = true })
			on := b.recall(q)
			if off.Coverage.Blocks != nil || off.Explain != nil && off.Explain.Blocks != nil {
				rt.Fatalf("inquiry %d: retrieval is off: %s", i, encode(t, off))
			}
			want, none := unreserved(t, off)
			got, reserved := unreserved(t, on)
			if got != want || len(none) > 0 {
				rt.Fatalf("inquiry %d %s: %s", i, encode(t, q), firstDifference(got, want))
			}
			if len(reserved) > 3 {
				rt.Fatalf("inquiry %d: %d reserved rows", i, len(reserved))
			}
			added += len(reserved)
			seen := make(map[string]bool)
			scope := memory.Scope{Agent: q.Agent, Project: q.Project}
			for _, r := range on.Rows {
				if seen[r.Ref] || !scope.Contains(memory.Cell{Agent: b.record(r.Ref).Cell.Agent, Project: r.Project, Channel: r.Channel}) {
					rt.Fatalf("inquiry %d: %s of %v", i, r.Ref, refsIn(on.Rows))
				}
				seen[r.Ref] = true
				if r.Quote != nil {
					quoted++
				}
				if r.Admission != "" && q.SourceID != "" && r.Source.ID != q.SourceID {
					rt.Fatalf("inquiry %d: %s is of source %q", i, r.Ref, r.Source.ID)
				}
			}
		}
	})
	if added == 0 || quoted == 0 {
		t.Errorf("%d rows added, %d quotations: the property held nothing", added, quoted)
	}
}

// policed changes the policy in force, without the store.
func (b *bench) policed(change func(*Policy)) {
	p := b.policy()
	change(&p)
	b.inForce.Store(&p)
}

// asks is an index that remembers what it was asked.
type asks struct {
	arm.BlockIndex
	queries []arm.BlockQuery
}

func (a *asks) Nearest(ctx context.Context, view *sqlite.View, q arm.BlockQuery) (arm.BlockAnswer, error) {
	a.queries = append(a.queries, q)
	return a.BlockIndex.Nearest(ctx, view, q)
}

// BR-136, BR-141, BR-147: the count changes nothing that the block arm is asked
// and none of its candidates, only which of them are already returned.
func TestCountNeverReachesTheBlockArm(t *testing.T) {
	b, query, _ := counter(t, nil)
	index := &asks{BlockIndex: arm.NewCodes(b.matrices)}
	b.blocks = arm.NewBlocks(index)
	var first *BlockReport
	for _, count := range []int{1, 3, 10, 50, 100} {
		e := b.recall(RecallRequest{Agent: "mia", Query: query, Count: count, Explain: true}).Explain
		if first == nil {
			first = e.Blocks
		}
		if encode(t, e.Blocks) != encode(t, first) || len(first.Candidates) != 5 {
			t.Errorf("count %d: %s, want %s", count, encode(t, e.Blocks), encode(t, first))
		}
	}
	q := index.queries[0]
	if q.Rows != 200 || q.Parents != 200 || q.PerParent != 64 || q.Most != 0 {
		t.Errorf("asked for %+v", q)
	}
	for _, other := range index.queries {
		if encode(t, other) != encode(t, q) {
			t.Errorf("asked for %+v and %+v", q, other)
		}
	}
	b.policed(func(p *Policy) { p.BlockParentCap, p.BlockScanCap = 7, 8 })
	b.recall(RecallRequest{Agent: "mia", Query: query})
	if q := index.queries[len(index.queries)-1]; q.PerParent != 7 || q.Most != 8 {
		t.Errorf("the settings give %+v", q)
	}
}

// BR-004, BR-131: without any block set an answer is what it is with retrieval off,
// but for the coverage that says so; with retrieval off the index is not asked.
func TestWithoutSetsNothingIsAdded(t *testing.T) {
	b := reader(t, beforeSettings())
	index := &asks{BlockIndex: arm.NewCodes(b.matrices)}
	b.blocks = arm.NewBlocks(index)
	shelve(b, 9, 40)
	for i, q := range inquiries(9, 20) {
		b.policed(func(p *Policy) { p.BlockRetrieve = true })
		on := b.recall(q)
		on.Coverage.Blocks = nil
		if on.Explain != nil {
			on.Explain.Blocks = nil
		}
		asked := len(index.queries)
		b.policed(func(p *Policy) { p.BlockRetrieve = false })
		off := b.recall(q)
		if got, want := encode(t, on), encode(t, off); got != want {
			t.Fatalf("inquiry %d: %s", i, firstDifference(got, want))
		}
		if len(index.queries) != asked {
			t.Fatalf("inquiry %d: the index was asked with retrieval off", i)
		}
	}
	if len(index.queries) == 0 {
		t.Error("the index was never asked")
	}
}

// The reservation obeys what every other row does: what the caller has already,
// another source, and a record that the index lists and the scope does not have
// (BR-093, RR-442, RR-443). A superseded version keeps its place and says so.
func TestReservationObeysTheFilters(t *testing.T) {
	b, query, names := counter(t, nil)
	reserved := func(change func(*RecallRequest)) []string {
		r := RecallRequest{Agent: "mia", Query: query, Count: 1, FullContent: true}
		change(&r)
		_, found := named(names, b.recall(r).Rows)
		return found
	}
	if got := reserved(func(r *RecallRequest) {
		r.Exclude = []string{"通知は門番が見る。同じ番号は入口で捨てる。"}
	}); slices.Contains(got, "X2") || len(got) != 3 {
		t.Errorf("excluded: %v", got)
	}
	for ref, name := range names {
		if name != "G4" { // a row of the gate that has blocks as well
			continue
		}
		a := b.recall(RecallRequest{Agent: "mia", Query: query, Exclude: []string{b.record(ref).Content}, Explain: true})
		var dropped []string
		for _, x := range a.Explain.Exclusions {
			if x.Ref == ref {
				dropped = append(dropped, x.Stage)
			}
		}
		if !slices.Equal(dropped, []string{stageFilter}) {
			t.Errorf("an excluded row was dropped at %v", dropped)
		}
	}
	if got := reserved(func(r *RecallRequest) { r.SourceID = "elsewhere" }); len(got) != 0 {
		t.Errorf("another source: %v", got)
	}
	if got := reserved(func(r *RecallRequest) { r.Project = pointer("none") }); len(got) == 0 {
		t.Error("the pool is part of every project")
	}
	if got := reserved(func(r *RecallRequest) { r.Arms = []string{"lexical"} }); len(got) != 0 {
		t.Errorf("without a query's vector: %v", got)
	}
	if got := reserved(func(r *RecallRequest) { r.Deep, r.Gate = true, "off" }); len(got) != 3 {
		t.Errorf("deep and ungated: %v", got)
	}
	old := "Each token is dropped at its door. This was version one."
	first := b.put("mia", StoreItem{Content: old, MessageID: "m"})[0]
	names[first] = "X5"
	b.near(first, old, query, .97)
	next := b.put("mia", StoreItem{Content: "Nothing of the kind. This is version two.", MessageID: "m", OnConflict: "version"})[0]
	for _, row := range b.recall(RecallRequest{Agent: "mia", Query: query, Count: 1}).Rows {
		if row.Ref == first && row.SupersededBy != next || row.Ref == next {
			t.Errorf("a superseded version: %s", encode(t, row))
		}
	}
	if got := reserved(func(*RecallRequest) {}); got[0] != "X5" {
		t.Errorf("the order of the arm stands for superseded versions too: %v", got)
	}
	foreign := b.put("ken", say("Each token is dropped at its door. It was ken's."))[0]
	b.near(foreign, "Each token is dropped at its door. It was ken's.", query, .99)
	ref, err := memory.ParseRef(foreign)
	if err != nil {
		t.Fatal(err)
	}
	b.blocks = arm.NewBlocks(lists{arm.NewCodes(b.matrices), arm.BlockHit{Ref: ref}})
	a := b.recall(RecallRequest{Agent: "mia", Query: query, Count: 1, Explain: true})
	_, own := named(names, a.Rows)
	if slices.Contains(own, "") || len(own) != 3 || a.Explain.Blocks.Candidates[0].Ref != foreign {
		t.Errorf("an index that lists another agent's block: %s", encode(t, a))
	}
}

// lists is an index that lists one block more, as one with a wrong copy of a cell
// does.
type lists struct {
	arm.BlockIndex
	more arm.BlockHit
}

func (l lists) Nearest(ctx context.Context, view *sqlite.View, q arm.BlockQuery) (arm.BlockAnswer, error) {
	a, err := l.BlockIndex.Nearest(ctx, view, q)
	a.Rows, a.Parents = append(a.Rows, l.more), append(a.Parents, l.more)
	return a, err
}
