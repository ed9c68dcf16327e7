package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"recalld/blocks"
	"recalld/embed"
	"recalld/memory"
	"recalld/sqlite"
)

// TestPolicyIsOne: the store and the splitter mean one version.
// BR-120, BR-144
func TestPolicyIsOne(t *testing.T) {
	if sqlite.BlockPolicy != blocks.PolicyVersion {
		t.Errorf("the store takes sets of splitter %d for current, the splitter is %d", sqlite.BlockPolicy, blocks.PolicyVersion)
	}
}

// sentences is a text of n blocks, each a sentence of its own.
func sentences(name string, n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = []string{"The server of %s moved to rack %d.", "%sの予備は%d番の棚にあります。", "%s的备份在第%d号机架上。"}[i%3]
		parts[i] = fmt.Sprintf(parts[i], name, i)
	}
	return strings.Join(parts, "\n\n")
}

// teller is a model that remembers what it was asked, and answers as the test says.
type teller struct {
	embed.Model
	mu       sync.Mutex
	calls    [][]string
	purposes []embed.Purpose
	refuse   string               // texts with it fail
	mute     string               // texts with it have no vector
	during   func(texts []string) // called in the middle of a call
}

func (m *teller) Embed(ctx context.Context, p embed.Purpose, texts []string) ([][]float32, error) {
	m.mu.Lock()
	m.calls, m.purposes = append(m.calls, texts), append(m.purposes, p)
	m.mu.Unlock()
	if m.during != nil {
		m.during(texts)
	}
	for _, text := range texts {
		if m.refuse != "" && strings.Contains(text, m.refuse) {
			return nil, fmt.Errorf("%w: it said no", embed.ErrUnavailable)
		}
	}
	vectors, err := m.Model.Embed(ctx, p, texts)
	for i, text := range texts {
		if m.mute != "" && strings.Contains(text, m.mute) && err == nil {
			vectors[i] = nil
		}
	}
	return vectors, err
}

// counting is a teller that counts tokens, with a window of the test's choice.
type counting struct {
	*teller
	window int
}

func (m counting) Window() embed.Window {
	return embed.Window{Limit: m.window, Unit: "token", Known: true}
}

func (m counting) CountTokens(ctx context.Context, texts []string) ([]embed.TokenCount, error) {
	return m.Model.(embed.TokenCounter).CountTokens(ctx, texts)
}

type blockWorld struct {
	*queueWorld
	teller *teller
	worker *QueueWorker
}

func newBlockWorld(t *testing.T) *blockWorld {
	t.Helper()
	w := &blockWorld{queueWorld: newQueueWorld(t)}
	w.teller = &teller{Model: w.model.Model}
	w.options.Blocks = w.store
	w.options.Queue = embedded{w.store}
	w.options.Model = func(context.Context) (embed.Model, int64, error) { return w.teller, w.id, nil }
	w.worker = NewQueueWorker(w.options)
	return w
}

// embedded is a queue without vectors to make, so that every call of the model is
// one for blocks.
type embedded struct{ *sqlite.Store }

func (embedded) EnqueueMissing(context.Context, int64, int) (int, error) { return 0, nil }

func (w *blockWorld) say(t *testing.T, texts ...string) {
	t.Helper()
	items := make([]sqlite.NewMemory, len(texts))
	for i, text := range texts {
		items[i] = sqlite.NewMemory{Cell: memory.Cell{Agent: "mia"}, Content: text}
	}
	results, err := w.store.StoreMemories(t.Context(), items)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Outcome != sqlite.OutcomeStored {
			t.Fatalf("%+v", r)
		}
	}
}

func (w *blockWorld) drain(t *testing.T) {
	t.Helper()
	if err := w.worker.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// sets reads every current set as the file has it.
func (w *blockWorld) sets(t *testing.T) map[memory.Ref]sqlite.BlockSet {
	t.Helper()
	return setsIn(t, w.store, w.id)
}

func setsIn(t *testing.T, store *sqlite.Store, model int64) map[memory.Ref]sqlite.BlockSet {
	t.Helper()
	view, err := store.ViewRecords(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	var cells []int64
	if err := view.AllCells(func(c sqlite.CellStats) error { cells = append(cells, c.ID); return nil }); err != nil {
		t.Fatal(err)
	}
	all := make(map[memory.Ref]sqlite.BlockSet)
	err = view.BlockBits(model, cells, func(c sqlite.BlockCodes) error {
		all[c.Ref] = sqlite.BlockSet{Ref: c.Ref, Dims: c.Dims, Bits: bytes.Clone(c.Bits)}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for ref, set := range all {
		var rows []sqlite.BlockRow
		if set.Blocks, _, err = view.BlockSpans(model, ref); err != nil {
			t.Fatal(err)
		}
		for i := range set.Blocks {
			rows = append(rows, sqlite.BlockRow{Ref: ref, Index: i})
		}
		values, err := view.BlockValues(model, rows)
		if err != nil {
			t.Fatal(err)
		}
		set.Values = bytes.Join(values, nil)
		all[ref] = set
	}
	return all
}

func (w *blockWorld) progress(t *testing.T) sqlite.BlockProgress {
	t.Helper()
	p, err := w.store.BlockProgress(t.Context(), w.id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestBlocksAreBuilt: what the worker stores are the splitter's spans with the
// model's own vectors, asked for once, one record a call, in index order.
// BR-048, BR-095, BR-108, BR-109, BR-121, BR-178
func TestBlocksAreBuilt(t *testing.T) {
	w := newBlockWorld(t)
	long := sentences("alpha", BlockTexts+9)
	w.say(t, sentences("beta", 4), "One sentence alone.", long)
	if _, err := w.store.StoreEpisodes(t.Context(), []sqlite.NewEpisode{{Cell: memory.Cell{Agent: "mia"}, Summary: sentences("gamma", 3)}}); err != nil {
		t.Fatal(err)
	}
	ways := 0 // given to recalls, once before each record that is embedded
	w.options.GiveWay = func(context.Context) { ways++ }
	w.worker = NewQueueWorker(w.options)
	w.drain(t)
	if ways != 3 {
		t.Errorf("it gave way %d times", ways)
	}
	sets := w.sets(t)
	if len(sets) != 3 {
		t.Fatalf("%d sets", len(sets))
	}
	for ref, text := range map[memory.Ref]string{
		{Kind: memory.KindMemory, ID: 1}: sentences("beta", 4), {Kind: memory.KindMemory, ID: 3}: long, {Kind: memory.KindEpisode, ID: 1}: sentences("gamma", 3),
	} {
		want, err := blocks.Split(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := sets[ref]
		if len(got.Blocks) != len(want) {
			t.Fatalf("%s has %d blocks, want %d", ref, len(got.Blocks), len(want))
		}
		vectors, err := w.model.Model.Embed(t.Context(), embed.Document, textsOf(text, want))
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range want {
			values, _ := memory.Int8(vectors[i])
			at := got.Blocks[i]
			if at != (sqlite.BlockSpan{Start: b.Start, End: b.End, Forced: b.Forced, Node: b.Node}) ||
				!bytes.Equal(got.Values[i*got.Dims:(i+1)*got.Dims], values) || !bytes.Equal(got.Bits[i*got.Dims/8:(i+1)*got.Dims/8], memory.Signs(vectors[i])) {
				t.Errorf("%s block %d is %+v, want %+v, or has other codes", ref, i, at, b)
			}
		}
	}
	var sizes []int
	for _, call := range w.teller.calls {
		sizes = append(sizes, len(call))
	}
	n := len(sets[memory.Ref{Kind: memory.KindMemory, ID: 3}].Blocks)
	if want := []int{len(sets[memory.Ref{Kind: memory.KindEpisode, ID: 1}].Blocks), len(sets[memory.Ref{Kind: memory.KindMemory, ID: 1}].Blocks), BlockTexts, n - BlockTexts}; !slices.Equal(sizes, want) {
		t.Errorf("calls of %v texts, want %v", sizes, want)
	}
	if joined := strings.Join(slices.Concat(w.teller.calls[2], w.teller.calls[3]), ""); joined != long {
		t.Error("the texts of the long record's calls are not its text in order")
	}
	// BR-095: another cell is no reason to embed anything again.
	calls := len(w.teller.calls)
	project := "q"
	if _, err := w.store.Update(t.Context(), "mia", memory.Ref{Kind: memory.KindMemory, ID: 1}, sqlite.Patch{Project: &project}); err != nil {
		t.Fatal(err)
	}
	w.drain(t)
	if after := w.sets(t); len(w.teller.calls) != calls || !bytes.Equal(after[memory.Ref{Kind: memory.KindMemory, ID: 1}].Values, sets[memory.Ref{Kind: memory.KindMemory, ID: 1}].Values) {
		t.Errorf("%d calls after a retag", len(w.teller.calls)-calls)
	}
}

// TestModelIsGivenTheBlocksText: what the model is asked about a record is its
// blocks' own text, byte for byte and nothing around it, as documents; the stored
// offsets cut exactly that out of the record.
// BR-002, BR-007, BR-009
func TestModelIsGivenTheBlocksText(t *testing.T) {
	w := newBlockWorld(t)
	texts := []string{
		"The café moved 🚚 to rack 7. \tIt is noisy there.\r\n\r\nNobody minds 👩‍💻.  ",
		"予備は毎晩コピーします。🗾の図は別にあります。\n\n- 棚番は七\n- 棚番は八",
		"备份每晚运行。𠮷野家在三楼。\n\n“他说：‘可以。’”然后走了。",
	}
	w.say(t, texts...)
	w.drain(t)
	sets := w.sets(t)
	if len(sets) != len(texts) || len(w.teller.calls) != len(texts) {
		t.Fatalf("%d sets by %d calls", len(sets), len(w.teller.calls))
	}
	for _, purpose := range w.teller.purposes {
		if purpose != embed.Document {
			t.Errorf("asked as %v", purpose)
		}
	}
	for i, text := range texts {
		var want []string
		for _, s := range sets[memory.Ref{Kind: memory.KindMemory, ID: int64(i + 1)}].Blocks {
			want = append(want, string([]rune(text)[s.Start:s.End]))
		}
		if !slices.Equal(w.teller.calls[i], want) || strings.Join(want, "") != text {
			t.Errorf("the model was asked %q, the blocks are %q", w.teller.calls[i], want)
		}
	}
}

// TestEveryLimitEndsARun: each alone, between records; a run that has built nothing
// passes the record in front of it whatever its size.
// BR-111, BR-113, BR-114, BR-115, BR-116
func TestEveryLimitEndsARun(t *testing.T) {
	free := BlockLimits{Records: 1_000, Characters: 1_000_000, Texts: 1_000, Elapsed: time.Hour}
	for name, c := range map[string]struct {
		limit func(*BlockLimits)
		want  []int // records of each run
	}{
		"nothing_left": {func(*BlockLimits) {}, []int{6}},
		"records":      {func(l *BlockLimits) { l.Records = 4 }, []int{4, 2}},
		"characters":   {func(l *BlockLimits) { l.Characters = memory.Len(sentences("note 1", 4)) + 1 }, []int{2, 2, 2}},
		"texts":        {func(l *BlockLimits) { l.Texts = 9 }, []int{3, 3}},
		"elapsed":      {func(l *BlockLimits) { l.Elapsed = 4 * time.Second }, []int{4, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newBlockWorld(t)
			for i := range 6 {
				w.say(t, sentences(fmt.Sprint("note ", i), 4))
			}
			w.teller.during = func([]string) { w.now.Add(1_000) }
			if err := w.store.BeginBlocks(t.Context(), w.id); err != nil {
				t.Fatal(err)
			}
			limits := free
			c.limit(&limits)
			for run, want := range c.want {
				before := len(w.teller.calls)
				r, err := w.worker.blockRun(t.Context(), w.teller, w.id, limits)
				if err != nil || r.RecordsBuilt != want || r.RecordsLooked != want || len(w.teller.calls)-before != want {
					t.Fatalf("run %d: %+v, %v; want %d records", run, r, err, want)
				}
				if last := run == len(c.want)-1; !last && r.StoppedBy != name {
					t.Errorf("run %d: %+v", run, r)
				}
				if have := w.progress(t); have.Sets+have.Waiting != 6 {
					t.Errorf("run %d: %+v", run, have)
				}
			}
		})
	}
	t.Run("a record larger than every limit", func(t *testing.T) {
		w := newBlockWorld(t)
		w.say(t, sentences("large", 200), sentences("small", 3))
		if err := w.store.BeginBlocks(t.Context(), w.id); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			r, err := w.worker.blockRun(t.Context(), w.teller, w.id, BlockLimits{})
			if err != nil || r.RecordsBuilt != 1 {
				t.Fatalf("%+v, %v", r, err)
			}
		}
	})
}

// TestWhatARunDidIsNoCoverage: a saturated run over a larger corpus reports all of
// its records as built and the corpus as mostly without.
// BR-117, BR-118
func TestWhatARunDidIsNoCoverage(t *testing.T) {
	w := newBlockWorld(t)
	for i := range 40 {
		w.say(t, sentences(fmt.Sprint("note ", i), 3))
	}
	if err := w.store.BeginBlocks(t.Context(), w.id); err != nil {
		t.Fatal(err)
	}
	limits := DefaultBlockLimits()
	limits.Records = 4
	r, err := w.worker.blockRun(t.Context(), w.teller, w.id, limits)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(report(r, w.progress(t)))
	want := `{"run":{"records_built":4,"records_looked":4,"characters":` + fmt.Sprint(4*memory.Len(sentences("note 1", 3))) + `,"texts":12,"stopped_by":"records"},"corpus":{"with_blocks":4,"needing_blocks":36}}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

// TestBuildingOffDoesNothing: no call, no row, no queue work; turned on, the corpus
// that was stored meanwhile is built.
// BR-109, BR-127, BR-129
func TestBuildingOffDoesNothing(t *testing.T) {
	w := newBlockWorld(t)
	on := false
	w.options.BuildBlocks = func() bool { return on }
	w.worker = NewQueueWorker(w.options)
	w.say(t, sentences("one", 5))
	text := sentences("other", 5)
	work := func() {
		w.drain(t)
		if _, err := w.store.Update(t.Context(), "mia", memory.Ref{Kind: memory.KindMemory, ID: 1}, sqlite.Patch{Content: &text}); err != nil {
			t.Fatal(err)
		}
		if n, err := w.worker.FixBlocks(t.Context()); !on && (n != 0 || err != nil) {
			t.Errorf("%d, %v", n, err)
		}
		w.drain(t)
	}
	work()
	// Without a mark nothing was looked at, so that the record itself is all that waits.
	if p := w.progress(t); len(w.teller.calls) != 0 || p != (sqlite.BlockProgress{Waiting: 1}) {
		t.Errorf("%d calls, %+v", len(w.teller.calls), p)
	}
	on = true
	work()
	if p := w.progress(t); p.Sets != 1 || p.Waiting != 0 {
		t.Errorf("%+v", p)
	}
	on, text = false, sentences("third", 5)
	calls := len(w.teller.calls)
	work()
	if p := w.progress(t); p != (sqlite.BlockProgress{Waiting: 1}) || len(w.teller.calls) != calls {
		t.Errorf("%+v", p)
	}
}

// TestModelFailsForARecord: it is tried again later, the others are built
// meanwhile, and what was embedded before is kept.
// BR-111, DECISIONS 26
func TestModelFailsForARecord(t *testing.T) {
	w := newBlockWorld(t)
	w.say(t, sentences("one", 3), sentences("poison", 3), sentences("three", 3))
	w.teller.refuse = "poison"
	if err := w.worker.Drain(t.Context()); !errors.Is(err, embed.ErrUnavailable) || strings.Contains(err.Error(), "poison") {
		t.Fatal(err)
	}
	w.drain(t)
	if p := w.progress(t); p.Sets != 2 || p.Failed != 1 || p.Waiting != 1 || !strings.Contains(p.LastError, "it said no") {
		t.Errorf("%+v", p)
	}
	w.teller.refuse = ""
	w.drain(t)
	if p := w.progress(t); p.Sets != 2 {
		t.Errorf("it was tried before its time: %+v", p)
	}
	w.now.Add(time.Minute.Milliseconds())
	w.drain(t)
	if p := w.progress(t); p.Sets != 3 || p.Failed != 0 || p.Waiting != 0 {
		t.Errorf("%+v", p)
	}
}

// TestFailuresOfARecordAreItsOwn: a record that the model never answers is asked
// for less and less often, also while others are built in between.
// BR-111
func TestFailuresOfARecordAreItsOwn(t *testing.T) {
	w := newBlockWorld(t)
	w.say(t, sentences("poison", 3))
	w.teller.refuse = "poison"
	for i, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
		if err := w.worker.Drain(t.Context()); !errors.Is(err, embed.ErrUnavailable) {
			t.Fatalf("failure %d: %v", i+1, err)
		}
		w.say(t, sentences(fmt.Sprint("note ", i), 3))
		w.drain(t)
		w.now.Add(wait.Milliseconds() - 1)
		w.drain(t)
		if p := w.progress(t); p.Sets != int64(i+1) || p.Failed != 1 || len(w.teller.calls) != 2*(i+1) {
			t.Errorf("failure %d: %+v after %d calls", i+1, p, len(w.teller.calls))
		}
		w.now.Add(1)
	}
}

// TestVectorsHaveTheirTurn: a worker that builds blocks in run after run makes the
// vectors that were asked for meanwhile between two of them.
// BR-108, BR-111
func TestVectorsHaveTheirTurn(t *testing.T) {
	w := newBlockWorld(t)
	rested := make(chan struct{}, 100)
	w.options.Queue = w.store
	w.options.Drained = func(context.Context, int64) error { rested <- struct{}{}; return nil }
	w.worker = NewQueueWorker(w.options)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.worker.Run(ctx) })
	<-rested
	w.teller.during = func([]string) { w.worker.Wake() }
	texts := make([]string, DefaultBlockLimits().Records+1)
	for i := range texts {
		texts[i] = sentences(fmt.Sprint("note ", i), 2)
	}
	w.say(t, texts...)
	w.worker.Written()
	<-rested
	stop()
	running.Wait()
	// Vectors are made of whole texts.
	first := slices.IndexFunc(w.teller.calls, func(call []string) bool { return slices.Contains(texts, call[0]) })
	if blocks := DefaultBlockLimits().Records; first != blocks {
		t.Errorf("the first vectors were made in call %d, after %d of blocks", first, blocks)
	}
}

// TestUnembeddableBlockIsFinal: its record has a whole, current set, and nothing is
// ever asked again.
// DECISIONS 26, BR-053
func TestUnembeddableBlockIsFinal(t *testing.T) {
	w := newBlockWorld(t)
	w.say(t, sentences("one", 3), sentences("two", 3))
	w.teller.mute = "twoの"
	w.drain(t)
	set := w.sets(t)[memory.Ref{Kind: memory.KindMemory, ID: 2}]
	if len(set.Blocks) != 3 || set.Blocks[0].Unembeddable || !set.Blocks[1].Unembeddable || set.Blocks[2].Unembeddable {
		t.Errorf("%+v", set.Blocks)
	}
	calls := len(w.teller.calls)
	w.drain(t)
	if n, err := w.worker.FixBlocks(t.Context()); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if some, missing, waiting, err := MissingBlocks(t.Context(), w.store, w.id); err != nil || len(some)+missing+waiting != 0 {
		t.Errorf("%v, %d, %d, %v", some, missing, waiting, err)
	}
	if p := w.progress(t); p.Unembeddable != 1 || p.Sets != 2 || p.Waiting != 0 || len(w.teller.calls) != calls {
		t.Errorf("%+v after %d more calls", p, len(w.teller.calls)-calls)
	}
}

// TestNodesOfTheWindow: a record beyond the model's window begins a node where the
// window ends, and blocks stay inside nodes; a model that cannot count gives blocks
// all the same.
// RR-092, BR-144, DECISIONS 26
func TestNodesOfTheWindow(t *testing.T) {
	for _, window := range []int{0, 20, 100_000} {
		w := newBlockWorld(t)
		text := sentences("node", 12)
		w.say(t, text)
		var model embed.Model = w.teller
		if window > 0 {
			model = counting{w.teller, window}
		}
		w.options.Model = func(context.Context) (embed.Model, int64, error) { return model, w.id, nil }
		w.worker = NewQueueWorker(w.options)
		w.drain(t)
		if CountsNodes(model) != (window > 0) {
			t.Errorf("window %d: counts %v", window, CountsNodes(model))
		}
		begins := 0
		set := w.sets(t)[memory.Ref{Kind: memory.KindMemory, ID: 1}]
		for _, b := range set.Blocks {
			if b.Node {
				begins++
			}
		}
		if (begins > 1) != (window == 20) || len(set.Blocks) < 12 || !set.Blocks[0].Node {
			t.Errorf("window %d: %d nodes in %+v", window, begins, set.Blocks)
		}
	}
}

// TestRepairIsBounded: it builds what is missing and nothing else, at most fifty
// records a time, while others write, and touches no record.
// BR-119, BR-122, BR-123, BR-124, BR-125, BR-137
func TestRepairIsBounded(t *testing.T) {
	w := newBlockWorld(t)
	for i := range MostFixed + 15 {
		w.say(t, sentences(fmt.Sprint("note ", i), 3), fmt.Sprint("short ", i))
	}
	records := func() string {
		view, err := w.store.ViewRecords(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer view.Close()
		var refs []memory.Ref
		for i := range 2 * (MostFixed + 15) {
			refs = append(refs, memory.Ref{Kind: memory.KindMemory, ID: int64(i + 1)})
		}
		all, err := view.Hydrate(memory.Scope{Agent: "mia"}, refs)
		if err != nil || len(all) != len(refs) {
			t.Fatalf("%d records, %v", len(all), err)
		}
		return fmt.Sprintf("%+v", all)
	}
	before := records()
	if _, missing, waiting, err := MissingBlocks(t.Context(), w.store, w.id); err != nil || missing != 0 || waiting != MostFixed+15 {
		t.Errorf("%d missing, %d waiting, %v", missing, waiting, err)
	}
	// Looked at and forgotten: nothing will build them but the repair.
	if err := w.store.BeginBlocks(t.Context(), w.id); err != nil {
		t.Fatal(err)
	}
	for {
		batch, err := w.store.NextBlocks(t.Context(), w.id, 100, 1_000_000)
		if err != nil {
			t.Fatal(err)
		}
		if batch.Empty() {
			break
		}
		if _, err := w.store.FinishBlocks(t.Context(), batch, make([]sqlite.BlockOutcome, len(batch.Records))); err != nil {
			t.Fatal(err)
		}
	}
	some, missing, waiting, err := MissingBlocks(t.Context(), w.store, w.id)
	if err != nil || len(some) != MostFixed || missing != MostFixed+15 || waiting != 0 {
		t.Fatalf("%d named, %d missing, %d waiting, %v", len(some), missing, waiting, err)
	}
	other := 0
	w.teller.during = func([]string) { // the model is slow, and a client stores meanwhile
		other++
		if _, err := w.store.StoreMemories(t.Context(), []sqlite.NewMemory{{Cell: memory.Cell{Agent: "zoe"}, Content: fmt.Sprint("meanwhile ", other)}}); err != nil {
			t.Error(err)
		}
	}
	for _, want := range []int64{MostFixed, 15, 0} {
		if n, err := w.worker.FixBlocks(t.Context()); err != nil || n != want {
			t.Errorf("%d built, %v; want %d", n, err, want)
		}
	}
	if after := records(); before != after {
		t.Error("a record was changed")
	}
	if other != MostFixed+15 {
		t.Errorf("%d others were stored", other)
	}
}

// TestOneSweepAtATime: a worker that runs, a drain and a repair take turns, and
// every record is embedded once.
// BR-110
func TestOneSweepAtATime(t *testing.T) {
	w := newBlockWorld(t)
	for i := range 30 {
		w.say(t, sentences(fmt.Sprint("note ", i), 3))
	}
	inside := 0
	w.teller.during = func([]string) {
		w.teller.mu.Lock()
		inside++
		w.teller.mu.Unlock()
	}
	var wait sync.WaitGroup
	for i := range 6 {
		wait.Go(func() {
			err := w.worker.Drain(t.Context())
			if i%3 == 0 {
				_, err = w.worker.FixBlocks(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if p := w.progress(t); p.Sets != 30 || inside != 30 {
		t.Errorf("%+v in %d calls", p, inside)
	}
}

// TestANewModelIsBuiltBeside: its sets stand beside the old one's, and the agents
// are told of it only when they are built.
// DECISIONS 10, BR-107
func TestANewModelIsBuiltBeside(t *testing.T) {
	w := newBlockWorld(t)
	w.say(t, sentences("one", 3), sentences("two", 3))
	w.drain(t)
	old := w.id
	identity, err := w.model.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if w.id, err = w.store.PutModel(t.Context(), sqlite.Model{Backend: "hash", Name: "newer", Dims: identity.Dims, Probes: identity.Probes, State: sqlite.ModelBuilding}); err != nil {
		t.Fatal(err)
	}
	built := int64(-1)
	w.options.Drained = func(_ context.Context, model int64) error {
		if model == w.id {
			built = w.progress(t).Sets
		}
		return nil
	}
	w.worker = NewQueueWorker(w.options)
	w.drain(t)
	if built != 2 || len(setsIn(t, w.store, old)) != 2 || len(w.sets(t)) != 2 {
		t.Errorf("%d sets when it was drained, %d old and %d new ones", built, len(setsIn(t, w.store, old)), len(w.sets(t)))
	}
	if err := w.store.SetModelState(t.Context(), old, sqlite.ModelRetired); err != nil {
		t.Fatal(err)
	}
	if len(setsIn(t, w.store, old)) != 0 || len(w.sets(t)) != 2 {
		t.Error("the retired model's sets")
	}
}

// TestWritingWakesTheBuilder: a text that was written gets its blocks without a
// wake for vectors, and a stopped worker keeps what it had embedded.
// BR-105, BR-108
func TestWritingWakesTheBuilder(t *testing.T) {
	w := newBlockWorld(t)
	rested := make(chan struct{}, 100)
	w.options.Drained = func(context.Context, int64) error { rested <- struct{}{}; return nil }
	w.worker = NewQueueWorker(w.options)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.worker.Run(ctx) })
	<-rested
	w.say(t, sentences("one", 3))
	if w.progress(t).Sets != 0 {
		t.Error("the write waited for its blocks")
	}
	w.worker.Written()
	<-rested
	if p := w.progress(t); p.Sets != 1 {
		t.Errorf("%+v", p)
	}
	w.teller.during = func(texts []string) {
		if strings.Contains(texts[0], "three") {
			stop()
		}
	}
	w.say(t, sentences("two", 3), sentences("three", 3), sentences("four", 3))
	w.worker.Written()
	running.Wait()
	if p := w.progress(t); p.Sets != 2 || p.Waiting != 2 || p.Failed != 0 {
		t.Errorf("%+v", p)
	}
}
