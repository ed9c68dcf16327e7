package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"recalld/memory"
	"recalld/sqlite"
)

// TestPutVectorsOnlyForTheirText: a vector of a text that is no longer there is
// not stored, and its task stays.
// BR-103
func TestPutVectorsOnlyForTheirText(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Clock: fixed})
	ctx := context.Background()
	m := model(t, s, 2)
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "old", Queue: []int64{m}}, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "stays", Queue: []int64{m}})
	if _, err := s.StoreEpisodes(ctx, []sqlite.NewEpisode{{Cell: cell("a", "", ""), Summary: "an episode", Queue: []int64{m}}}); err != nil {
		t.Fatal(err)
	}
	tasks, err := s.Claim(ctx, m, 10, time.Minute)
	if err != nil || len(tasks) != 3 {
		t.Fatal(tasks, err)
	}
	if _, err := s.Update(ctx, "a", mem(1), sqlite.Patch{Content: pointer("new")}); err != nil {
		t.Fatal(err)
	}
	var vectors []sqlite.Vector
	for _, task := range tasks {
		vectors = append(vectors, sqlite.Vector{Ref: task.Ref, Model: m, Revision: task.Revision, Values: []float32{0.6, 0.8}})
	}
	vectors = append(vectors, sqlite.Vector{Ref: mem(9), Model: m, Revision: memory.Revision("gone"), Values: []float32{1, 0}})
	written, err := s.PutVectors(ctx, vectors)
	if err != nil || fmt.Sprint(written) != "[false true true false]" {
		t.Fatal(written, err)
	}
	again, err := s.Claim(ctx, m, 10, time.Minute)
	if err != nil || len(again) != 1 || again[0].Text != "new" || again[0].Agent != "a" {
		t.Errorf("%+v, %v", again, err)
	}
	v := view(t, s)
	defer v.Close()
	got, err := v.VectorsOf(m, []memory.Ref{mem(1), mem(2), ep(1)})
	if err != nil || len(got) != 2 || got[mem(2)][1] != 0.8 || got[ep(1)][0] != 0.6 {
		t.Errorf("%v, %v", got, err)
	}
	sound(t, s)
}

// TestPutVectorsRefuses: width, model, numbers and revision are checked, and one
// bad vector writes none.
func TestPutVectorsRefuses(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Clock: fixed})
	ctx := context.Background()
	m := model(t, s, 2)
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "text", Queue: []int64{m}})
	good := sqlite.Vector{Ref: mem(1), Model: m, Revision: memory.Revision("text"), Values: []float32{1, 0}}
	for name, change := range map[string]func(*sqlite.Vector){
		"width":    func(x *sqlite.Vector) { x.Values = []float32{1} },
		"model":    func(x *sqlite.Vector) { x.Model = 9 },
		"NaN":      func(x *sqlite.Vector) { x.Values = []float32{float32(math.NaN()), 0} },
		"infinite": func(x *sqlite.Vector) { x.Values = []float32{0, float32(math.Inf(-1))} },
		"revision": func(x *sqlite.Vector) { x.Revision = "abc" },
	} {
		bad := good
		change(&bad)
		if _, err := s.PutVectors(ctx, []sqlite.Vector{good, bad}); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if q, err := s.QueueStats(ctx); err != nil || q.Pending != 1 {
		t.Errorf("%+v, %v", q, err)
	}
}

// TestQueue: leases, retries, the terminal state, and what a restart does.
// DECISIONS 26, BR-111
func TestQueue(t *testing.T) {
	now := fixed()
	o := sqlite.Options{Clock: func() time.Time { return now }}
	s, path := openStore(t, o)
	ctx := context.Background()
	m := model(t, s, 1)
	for i := range 3 {
		store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: fmt.Sprint("text ", i), Queue: []int64{m}})
	}
	claim := func(want string) []sqlite.Task {
		t.Helper()
		tasks, err := s.Claim(ctx, m, 2, time.Minute)
		got := ""
		for _, task := range tasks {
			got += fmt.Sprint(task.Text, " after ", task.Attempts, "; ")
		}
		if err != nil || got != want {
			t.Errorf("claimed %q, %v, want %q", got, err, want)
		}
		return tasks
	}
	claim("text 0 after 0; text 1 after 0; ")
	claim("text 2 after 0; ")
	claim("")
	now = now.Add(61 * time.Second)
	first := claim("text 0 after 0; text 1 after 0; ")
	if err := s.Fail(ctx, []int64{first[0].ID}, "connection refused", now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := s.MarkUnembeddable(ctx, []int64{first[1].ID}); err != nil {
		t.Fatal(err)
	}
	claim("text 2 after 0; ")
	if q, err := s.QueueStats(ctx); err != nil || q != (sqlite.QueueStats{Pending: 2, Failed: 1, Unembeddable: 1, LastError: "connection refused"}) {
		t.Errorf("%+v, %v", q, err)
	}
	now = now.Add(time.Hour)
	claim("text 0 after 1; text 2 after 0; ")
	claim("")
	if err := s.Close(); err != nil { // the worker's process dies with its leases
		t.Fatal(err)
	}
	s = reopen(t, path, o)
	claim("text 0 after 1; text 2 after 0; ")
	// A terminal task comes back with another text.
	if _, err := s.Update(ctx, "a", mem(2), sqlite.Patch{Content: pointer("another")}); err != nil {
		t.Fatal(err)
	}
	claim("another after 0; ")
	sound(t, s)
}

// TestEnqueueMissing: a new model gets every record once, in bounded steps.
func TestEnqueueMissing(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Clock: fixed})
	ctx := context.Background()
	old := model(t, s, 1)
	for i := range 5 {
		store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: fmt.Sprint(i), Vector: []float32{1}, Model: old})
	}
	if _, err := s.StoreEpisodes(ctx, []sqlite.NewEpisode{{Cell: cell("a", "", ""), Summary: "e", Vector: []float32{1}, Model: old}}); err != nil {
		t.Fatal(err)
	}
	building, err := s.PutModel(ctx, sqlite.Model{Backend: "x", Name: "y", Dims: 3, State: sqlite.ModelBuilding})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{4, 2, 0, 0} {
		if n, err := s.EnqueueMissing(ctx, building, 4); err != nil || n != want {
			t.Errorf("queued %d, %v, want %d", n, err, want)
		}
	}
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "late", Vector: []float32{1}, Model: old})
	if n, err := s.EnqueueMissing(ctx, building, 4); err != nil || n != 1 {
		t.Errorf("queued %d, %v", n, err)
	}
	if n, err := s.EnqueueMissing(ctx, old, 4); err != nil || n != 0 {
		t.Errorf("queued %d, %v", n, err)
	}
	sound(t, s)
}

// Looking for records without a vector reads every record; the counts of the cells
// say where that is in vain. Here they are made to lie.
func TestEnqueueMissingGoesByCounts(t *testing.T) {
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	ctx := context.Background()
	m := model(t, s, 1)
	enqueue := func(want int) {
		t.Helper()
		if n, err := s.EnqueueMissing(ctx, m, 10); err != nil || n != want {
			t.Errorf("queued %d, %v, want %d", n, err, want)
		}
	}
	enqueue(0)
	embedded := sqlite.NewMemory{Cell: cell("a", "", ""), Content: "embedded", Vector: []float32{1}, Model: m}
	store(t, s, embedded, sqlite.NewMemory{Cell: cell("a", "p", ""), Content: "ベクトルがまだない"}, sqlite.NewMemory{Cell: cell("b", "", ""), Content: "还没有向量"})
	if _, err := s.StoreEpisodes(ctx, []sqlite.NewEpisode{{Cell: cell("b", "", ""), Summary: "e"}}); err != nil {
		t.Fatal(err)
	}
	foreign(t, path, "UPDATE cell_stats SET memories = memories - 2, episodes = episodes - 1 WHERE model = 0 AND cell = (SELECT id FROM cell WHERE agent = 'b')")
	enqueue(0)
	foreign(t, path, "UPDATE cell_stats SET memories = memories + 2, episodes = episodes + 1 WHERE model = 0 AND cell = (SELECT id FROM cell WHERE agent = 'b')")
	enqueue(3)
	enqueue(0) // all others wait
}

// TestModels: one active model, cut-over by agent, probes as they were given.
// DECISIONS 10
func TestModels(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Clock: fixed})
	ctx := context.Background()
	if _, ok, err := s.ActiveModel(ctx, "a"); ok || err != nil {
		t.Fatal(ok, err)
	}
	probes := [][]float32{{1, 0}, {0.6, 0.8}}
	first, err := s.PutModel(ctx, sqlite.Model{Backend: "openai", Name: "m", Dims: 2, PromptPolicy: "q: / d: ", Probes: probes, State: sqlite.ModelActive})
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.PutModel(ctx, sqlite.Model{Backend: "static", Name: "n", Dims: 2, State: sqlite.ModelBuilding})
	if err != nil {
		t.Fatal(err)
	}
	active := func(agent string, want int64) {
		t.Helper()
		if m, ok, err := s.ActiveModel(ctx, agent); err != nil || !ok || m.ID != want {
			t.Errorf("%s has %+v, %v, %v, want model %d", agent, m, ok, err, want)
		}
	}
	active("a", first)
	if err := s.CutOver(ctx, "a", second); err != nil {
		t.Fatal(err)
	}
	active("a", second)
	active("b", first)
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "x", Vector: []float32{1, 0}, Model: first, Queue: []int64{second}})
	if err := s.SetModelState(ctx, second, sqlite.ModelActive); err != nil {
		t.Fatal(err)
	}
	active("b", second)
	models, err := s.Models(ctx)
	if err != nil || len(models) != 2 || models[0].State != sqlite.ModelKept || fmt.Sprint(models[0].Probes) != fmt.Sprint(probes) || models[0].PromptPolicy != "q: / d: " {
		t.Errorf("%+v, %v", models, err)
	}
	if err := s.SetModelState(ctx, first, sqlite.ModelRetired); err != nil {
		t.Fatal(err)
	}
	v := view(t, s)
	if got, err := v.VectorsOf(first, []memory.Ref{mem(1)}); err != nil || len(got) != 0 {
		t.Errorf("a retired model has %v, %v", got, err)
	}
	v.Close()
	if err := s.CutOver(ctx, "a", 9); !errors.Is(err, memory.ErrNotFound) {
		t.Error(err)
	}
	if err := s.SetProbes(ctx, second, [][]float32{{0, 1}}); err != nil {
		t.Error(err)
	}
	if err := s.SetProbes(ctx, second, [][]float32{{0, 1, 0}}); !errors.Is(err, memory.ErrInvalid) {
		t.Error(err)
	}
	sound(t, s)
}

// TestSettingsAndCalibrations come back as they were stored and go when told.
// DECISIONS 15, RR-433
func TestSettingsAndCalibrations(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Clock: fixed})
	ctx := context.Background()
	for _, value := range []string{"rrf", "rsf"} {
		if err := s.SetSetting(ctx, "fusion", value); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := s.Settings(ctx); len(all) != 1 || all["fusion"] != "rsf" || err != nil {
		t.Error(all, err)
	}
	if err := s.SetSetting(ctx, "fusion", ""); err != nil {
		t.Fatal(err)
	}
	if all, err := s.Settings(ctx); len(all) != 0 || err != nil {
		t.Error(all, err)
	}
	c := sqlite.Calibration{Agent: "a", Model: 3, Dims: 2, Signal: "cosine", Method: "zscore", Precision: "strict", Threshold: 0.4321, ScoringVersion: 2, Positives: 7, Negatives: 90}
	for _, threshold := range []float64{0.1, 0.4321} {
		c.Threshold = threshold
		if err := s.PutCalibration(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	c.Created = memory.TimeOf(fixed())
	if got, err := s.Calibrations(ctx, "a"); err != nil || len(got) != 1 || got[0] != c {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := s.Calibrations(ctx, "b"); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	c.Threshold = math.NaN()
	if err := s.PutCalibration(ctx, c); !errors.Is(err, memory.ErrInvalid) {
		t.Error(err)
	}
}

// TestPendingInWalksTheShorter: what waits in a scope is counted right whether the
// queue is longer than the scope or shorter, whatever others have waiting.
// DECISIONS 1
func TestPendingInWalksTheShorter(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Clock: fixed})
	ctx := context.Background()
	m, other := model(t, s, 2), model(t, s, 2)
	var items []sqlite.NewMemory
	for i := range 40 {
		item := sqlite.NewMemory{Cell: cell("crowd", "", ""), Content: fmt.Sprint("crowd ", i)}
		if i < 20 {
			item.Queue = []int64{m}
		}
		items = append(items, item)
	}
	items = append(items,
		sqlite.NewMemory{Cell: cell("mia", "p", ""), Content: "waits", Queue: []int64{m}},
		sqlite.NewMemory{Cell: cell("mia", "p", ""), Content: "waits for another", Queue: []int64{other}},
		sqlite.NewMemory{Cell: cell("mia", "q", ""), Content: "waits elsewhere", Queue: []int64{m}},
	)
	store(t, s, items...)
	if _, err := s.StoreEpisodes(ctx, []sqlite.NewEpisode{{Cell: cell("mia", "p", ""), Summary: "waits too", Queue: []int64{m}}}); err != nil {
		t.Fatal(err)
	}
	v := view(t, s)
	defer v.Close()
	for _, c := range []struct {
		scope memory.Scope
		want  int64
	}{
		{memory.Scope{Agent: "crowd"}, 20},                        // 40 records, 24 tasks
		{memory.Scope{Agent: "mia"}, 3},                           // 4 records
		{memory.Scope{Agent: "mia", Project: pointer("p")}, 2},    // 3 records
		{memory.Scope{Agent: "mia", Project: pointer("none")}, 0}, // none
		{memory.Scope{Agent: "nobody"}, 0},
	} {
		if got, err := v.PendingIn(c.scope, m); err != nil || got != c.want {
			t.Errorf("%+v: %d, %v, want %d", c.scope, got, err, c.want)
		}
	}
}
