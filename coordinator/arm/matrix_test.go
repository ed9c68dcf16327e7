package arm

import (
	"context"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"recalld/memory"
	"recalld/scanner"
	"recalld/sqlite"
)

// TestMain keeps properties over real files to a number of runs that takes
// seconds; -rapid.checks asks for more. The test binary is also the scanner that
// tests start.
func TestMain(m *testing.M) {
	if os.Getenv(scanner.Handshake().MagicCookieKey) != "" {
		scanner.Serve(scanner.Options{})
		os.Exit(0)
	}
	flag.Parse()
	given := make(map[string]bool)
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": "30", "rapid.shrinktime": "2s"} {
		if given[name] {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

const dims = 8

// unit is a vector of length one from few directions, so that ties are common.
func unit(r *rand.Rand) []float32 {
	v := make([]float32, dims)
	sum := 0.0
	for i := range v {
		v[i] = float32(r.IntN(3) - 1)
		sum += float64(v[i] * v[i])
	}
	if sum == 0 {
		v[0], sum = 1, 1
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(sum))
	}
	return v
}

// world is a real file with records of several agents, projects and channels.
type world struct {
	store  *sqlite.Store
	model  int64
	random *rand.Rand
	refs   []memory.Ref
	agents map[memory.Ref]string
	// keeps forbids what erases text from the file, because an erasure waits for
	// open snapshots.
	keeps bool
}

func newWorld(t interface {
	Fatal(...any)
	Helper()
}, dir string, seed uint64) *world {
	t.Helper()
	store, err := sqlite.Open(context.Background(), filepath.Join(dir, "recall.db"), sqlite.Options{Clock: func() time.Time { return time.Unix(1_800_000_000, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	model, err := store.PutModel(context.Background(), sqlite.Model{Backend: "test", Name: "m", Dims: dims, State: sqlite.ModelActive})
	if err != nil {
		t.Fatal(err)
	}
	return &world{store: store, model: model, random: rand.New(rand.NewPCG(seed, 1)), agents: map[memory.Ref]string{}}
}

func (w *world) cell() memory.Cell {
	pick := func(words ...string) string { return words[w.random.IntN(len(words))] }
	return memory.Cell{Agent: pick("mia", "ken"), Project: pick("", "atlas"), Channel: pick("", "chat")}
}

// change does one random thing to the file.
func (w *world) change() error {
	ctx := context.Background()
	text := "text " + string(rune('a'+w.random.IntN(26))) + time.Duration(w.random.Int64N(1e15)).String()
	switch n := w.random.IntN(10); {
	case n < 4 || len(w.refs) == 0:
		m := sqlite.NewMemory{Cell: w.cell(), Content: text}
		if w.random.IntN(5) > 0 {
			m.Vector, m.Model = unit(w.random), w.model
		}
		results, err := w.store.StoreMemories(ctx, []sqlite.NewMemory{m})
		if err != nil {
			return err
		}
		w.refs = append(w.refs, results[0].Ref)
		w.agents[results[0].Ref] = m.Cell.Agent
	case n < 5:
		e := sqlite.NewEpisode{Cell: w.cell(), Summary: text, Vector: unit(w.random), Model: w.model}
		results, err := w.store.StoreEpisodes(ctx, []sqlite.NewEpisode{e})
		if err != nil {
			return err
		}
		w.refs = append(w.refs, results[0].Ref)
		w.agents[results[0].Ref] = e.Cell.Agent
	case w.keeps:
		return w.edit(ctx, 7, w.refs[w.random.IntN(len(w.refs))], text)
	default:
		return w.edit(ctx, n, w.refs[w.random.IntN(len(w.refs))], text)
	}
	return nil
}

// edit rewrites, moves, embeds or deletes a record; one that is gone is left.
func (w *world) edit(ctx context.Context, n int, ref memory.Ref, text string) error {
	var err error
	switch {
	case n < 6:
		_, err = w.store.Update(ctx, w.agents[ref], ref, sqlite.Patch{Content: &text, Vector: unit(w.random), Model: w.model})
	case n < 7:
		_, err = w.store.Update(ctx, w.agents[ref], ref, sqlite.Patch{Content: &text})
	case n < 9:
		to := w.cell()
		_, err = w.store.Update(ctx, w.agents[ref], ref, sqlite.Patch{Project: &to.Project, Channel: &to.Channel})
	default:
		_, err = w.store.Delete(ctx, w.agents[ref], []memory.Ref{ref})
	}
	if err != nil && w.gone(ref) {
		return nil
	}
	return err
}

func (w *world) gone(ref memory.Ref) bool {
	view, err := w.store.View(context.Background())
	if err != nil {
		return false
	}
	defer view.Close()
	records, err := view.Hydrate(memory.Scope{Agent: w.agents[ref]}, []memory.Ref{ref})
	return err == nil && len(records) == 0
}

func (w *world) query() Query {
	cell := w.cell()
	q := Query{Scope: memory.Scope{Agent: cell.Agent}, Depth: 1 + w.random.IntN(8), Floor: -1, Vectors: []ModelVector{{Model: w.model, Vector: unit(w.random)}}}
	if w.random.IntN(2) == 0 {
		q.Scope.Project = &cell.Project
	}
	if w.random.IntN(2) == 0 {
		q.Scope.Channel = &cell.Channel
	}
	return q
}

// direct ranks by reading every vector of the scope from SQLite and sorting all
// of them.
func direct(view *sqlite.View, q Query) ([]memory.Candidate, error) {
	cells, err := view.Cells(q.Scope)
	if err != nil {
		return nil, err
	}
	var all []memory.Candidate
	for _, c := range cells {
		err := view.Vectors(q.Vectors[0].Model, []int64{c.ID}, func(ref memory.Ref, _ int64, values []float32) error {
			all = append(all, memory.Candidate{Ref: ref, Key: float64(memory.Dot(q.Vectors[0].Vector, values))})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, memory.Compare)
	return all[:min(len(all), q.Depth)], nil
}

// DECISIONS 2, 4: whatever was stored, rewritten, moved, embedded and deleted
// between recalls, and whatever the cache holds, a search sees what SQLite has
// in its snapshot, also in a snapshot that is older than the cache.
func TestCachedVectorsEqualTheFile(t *testing.T) {
	dir := t.TempDir()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		folder := filepath.Join(dir, strconv.Itoa(run))
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, folder, rapid.Uint64().Draw(t, "seed"))
		defer w.store.Close()
		var opened []*sqlite.View // a store waits for its views
		defer func() {
			for _, view := range opened {
				view.Close()
			}
		}()
		limit := rapid.SampledFrom([]int64{0, 600, 3_000, 1 << 20}).Draw(t, "limit")
		matrices := NewMatrices(limit)
		matrices.behind = rapid.SampledFrom([]int{0, 3, maxBehind}).Draw(t, "behind")
		vector := NewVector(matrices, nil)
		search := func(view *sqlite.View) {
			q := w.query()
			want, err := direct(view, q)
			if err != nil {
				t.Fatal(err)
			}
			got, err := vector.Search(context.Background(), view, q)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Candidates, want) {
				t.Fatalf("scope %+v at %d: got %v, want %v", q.Scope, view.Seq(), got.Candidates, want)
			}
		}
		var old *sqlite.View
		for range rapid.IntRange(1, 8).Draw(t, "rounds") {
			for range rapid.IntRange(0, 6).Draw(t, "changes") {
				if err := w.change(); err != nil {
					t.Fatal(err)
				}
			}
			view, err := w.store.View(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			opened = append(opened, view)
			if rapid.IntRange(0, 2).Draw(t, "trim") == 0 {
				view.Close()
				if err := w.store.TrimChanges(context.Background(), view.Seq()-rapid.Int64Range(0, 2).Draw(t, "left")); err != nil {
					t.Fatal(err)
				}
				if view, err = w.store.View(context.Background()); err != nil {
					t.Fatal(err)
				}
				opened = append(opened, view)
			}
			for range rapid.IntRange(1, 4).Draw(t, "searches") {
				search(view)
				if old != nil {
					search(old)
				}
			}
			if old != nil {
				old.Close()
				old = nil
			}
			if w.keeps = rapid.Bool().Draw(t, "keep the snapshot"); w.keeps {
				old = view
			} else {
				view.Close()
			}
		}
	})
}

// DECISIONS 4: a record that moved is in its new cell alone.
func TestCachedVectorsFollowAMove(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, t.TempDir(), 1)
	defer w.store.Close()
	stored, err := w.store.StoreMemories(ctx, []sqlite.NewMemory{
		{Cell: memory.Cell{Agent: "mia", Project: "atlas"}, Content: "it moves", Vector: unit(w.random), Model: w.model},
		{Cell: memory.Cell{Agent: "mia", Project: "atlas"}, Content: "它留下", Vector: unit(w.random), Model: w.model},
	})
	if err != nil {
		t.Fatal(err)
	}
	atlas, borealis := "atlas", "borealis"
	vector := NewVector(NewMatrices(1<<20), nil)
	found := func(project *string) (refs []memory.Ref) {
		view, err := w.store.View(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer view.Close()
		got, err := vector.Search(ctx, view, Query{Scope: memory.Scope{Agent: "mia", Project: project}, Vectors: []ModelVector{{w.model, unit(w.random)}}, Depth: 9, Floor: -2})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range got.Candidates {
			refs = append(refs, c.Ref)
		}
		slices.SortFunc(refs, memory.CompareRefs)
		return refs
	}
	if got := found(&atlas); len(got) != 2 {
		t.Fatalf("before: %v", got)
	}
	if _, err := w.store.Update(ctx, "mia", stored[0].Ref, sqlite.Patch{Project: &borealis}); err != nil {
		t.Fatal(err)
	}
	if got := found(&atlas); !slices.Equal(got, []memory.Ref{stored[1].Ref}) {
		t.Errorf("where it was: %v", got)
	}
	if got := found(&borealis); !slices.Equal(got, []memory.Ref{stored[0].Ref}) {
		t.Errorf("where it is: %v", got)
	}
}

// DECISIONS 4: recalls on snapshots of different ages share the cache while
// records change.
func TestConcurrentSearchesSeeTheirSnapshots(t *testing.T) {
	w := newWorld(t, t.TempDir(), 3)
	defer w.store.Close()
	w.keeps = true
	vector := NewVector(NewMatrices(1<<20), nil)
	var writer, readers sync.WaitGroup
	stop := make(chan struct{})
	writer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := w.change(); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	for i := range 4 {
		readers.Go(func() {
			r := &world{random: rand.New(rand.NewPCG(uint64(i), 9)), model: w.model}
			for range 300 {
				view, err := w.store.View(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				q := r.query()
				want, err1 := direct(view, q)
				got, err2 := vector.Search(context.Background(), view, q)
				view.Close()
				if err1 != nil || err2 != nil || !slices.Equal(got.Candidates, want) {
					t.Errorf("got %v, want %v (%v, %v)", got.Candidates, want, err1, err2)
					return
				}
			}
		})
	}
	readers.Wait()
	close(stop)
	writer.Wait()
}

// DECISIONS 4: a cell that nobody asks for any more does not collect its changes
// without end; asked again, it has what SQLite has.
func TestForgottenCellCollectsNoChanges(t *testing.T) {
	w := newWorld(t, t.TempDir(), 7)
	defer w.store.Close()
	asked, busy := memory.Cell{Agent: "mia"}, memory.Cell{Agent: "ken"}
	put := func(cell memory.Cell, n int) {
		items := make([]sqlite.NewMemory, n)
		for i := range items {
			items[i] = sqlite.NewMemory{Cell: cell, Content: strconv.FormatUint(w.random.Uint64(), 36), Vector: unit(w.random), Model: w.model}
		}
		if _, err := w.store.StoreMemories(t.Context(), items); err != nil {
			t.Fatal(err)
		}
	}
	put(asked, 20)
	put(busy, 20)
	matrices := NewMatrices(1 << 20)
	vector := NewVector(matrices, nil)
	search := func(cell memory.Cell) {
		t.Helper()
		view, err := w.store.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer view.Close()
		q := Query{Scope: memory.Scope{Agent: cell.Agent}, Depth: 8, Floor: -1, Vectors: []ModelVector{{Model: w.model, Vector: unit(w.random)}}}
		want, err1 := direct(view, q)
		got, err2 := vector.Search(t.Context(), view, q)
		if err1 != nil || err2 != nil || !slices.Equal(got.Candidates, want) {
			t.Errorf("got %v, want %v (%v, %v)", got.Candidates, want, err1, err2)
		}
	}
	search(asked)
	search(busy)
	for range 4 {
		put(asked, 500)
		search(busy)
		waiting := 0
		for _, e := range matrices.entries {
			waiting += len(e.pending)
		}
		if waiting > 20+maxBehind {
			t.Fatalf("%d changes wait", waiting)
		}
	}
	if len(matrices.entries) != 1 {
		t.Errorf("%d entries", len(matrices.entries))
	}
	search(asked)
	search(busy)
}

// RR-399: rows of another width are not scored.
func TestForeignWidthIsSkipped(t *testing.T) {
	w := newWorld(t, t.TempDir(), 5)
	defer w.store.Close()
	cell := memory.Cell{Agent: "mia"}
	if _, err := w.store.StoreMemories(t.Context(), []sqlite.NewMemory{{Cell: cell, Content: "wide", Vector: unit(w.random), Model: w.model}}); err != nil {
		t.Fatal(err)
	}
	view, err := w.store.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	for _, limit := range []int64{0, 1 << 20} {
		got, err := NewVector(NewMatrices(limit), nil).Search(t.Context(), view, Query{Scope: memory.Scope{Agent: "mia"}, Depth: 5, Floor: -1, Vectors: []ModelVector{{Model: w.model, Vector: make([]float32, dims-1)}}})
		if err != nil || len(got.Candidates) != 0 {
			t.Errorf("cache of %d: got %v, %v", limit, got.Candidates, err)
		}
	}
}

// DECISIONS 10: two models are merged by rank inside each; a row that both know
// has its better rank.
func TestTwoModelsMergeByRank(t *testing.T) {
	rank := func(ids ...int64) (ranking []memory.Candidate) {
		for i, id := range ids {
			ranking = append(ranking, memory.Candidate{Ref: memory.Ref{Kind: memory.KindMemory, ID: id}, Key: 1 - float64(i)/10})
		}
		return ranking
	}
	var got []int64
	for _, c := range mergeByRank([][]memory.Candidate{rank(1, 2, 3), rank(9, 3, 8)}, 5) {
		got = append(got, c.Ref.ID)
	}
	if want := []int64{1, 9, 2, 3, 8}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
