package coordinator

import (
	"context"
	"encoding/json"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"recalld/embed"
	"recalld/ingest"
	"recalld/sqlite"
)

// embedder is a real embedding server on a loopback port that can die and come
// back, be swapped for another model, or drift.
type embedder struct {
	t      *testing.T
	addr   string
	hash   embed.Model
	turn   atomic.Int32  // components that the vectors are shifted by: another model
	drift  atomic.Uint64 // float64 bits: how far the first component is pushed
	calls  atomic.Int64  // texts embedded
	before atomic.Pointer[func(texts []string)]

	mu     sync.Mutex
	server *http.Server
}

func newEmbedder(t *testing.T) *embedder {
	t.Helper()
	hash, err := embed.Open(embed.Config{Backend: "hash"})
	if err != nil {
		t.Fatal(err)
	}
	e := &embedder{t: t, addr: "127.0.0.1:0", hash: hash}
	e.up()
	t.Cleanup(e.kill)
	return e
}

func (e *embedder) settings(group string) map[string]string {
	return map[string]string{group + ".backend": "embed", group + ".url": "http://" + e.addr, group + ".name": "m", group + ".timeout_ms": "2000"}
}

// up listens, on the port it had before if there was one.
func (e *embedder) up() {
	e.t.Helper()
	var listener net.Listener
	var err error
	for range 50 {
		if listener, err = net.Listen("tcp", e.addr); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		e.t.Fatal(err)
	}
	e.addr = listener.Addr().String()
	server := &http.Server{Handler: http.HandlerFunc(e.serve)}
	e.mu.Lock()
	e.server = server
	e.mu.Unlock()
	go server.Serve(listener)
}

// kill closes the port and every connection.
func (e *embedder) kill() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.server.Close()
}

func (e *embedder) serve(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Texts []string `json:"texts"`
	}
	if r.URL.Path != "/embed" || json.NewDecoder(r.Body).Decode(&request) != nil {
		http.Error(w, "no", http.StatusNotFound)
		return
	}
	if hook := e.before.Load(); hook != nil {
		(*hook)(request.Texts)
	}
	vectors, err := e.hash.Embed(r.Context(), embed.Document, request.Texts)
	if err != nil {
		http.Error(w, "no", http.StatusInternalServerError)
		return
	}
	e.calls.Add(int64(len(vectors)))
	for i, v := range vectors {
		n := int(e.turn.Load())
		vectors[i] = slices.Concat(v[n:], v[:n])
		vectors[i][0] += float32(math.Float64frombits(e.drift.Load()))
		if strings.Contains(request.Texts[i], "hopeless") {
			clear(vectors[i])
		}
	}
	json.NewEncoder(w).Encode(map[string]any{"embeddings": vectors, "dimensions": len(vectors[0])})
}

// reasons are the degradations of an answer.
func reasons(a *RecallResponse) (found []string) {
	for _, d := range a.Degraded {
		if d.Reason != "fts_shared_statistics" {
			found = append(found, d.Arm+" "+d.Reason)
		}
	}
	return found
}

func (b *bench) ask(query string) *RecallResponse {
	b.t.Helper()
	return b.recall(RecallRequest{Agent: "mia", Query: query, Gate: "off"})
}

func (b *bench) drain() {
	b.t.Helper()
	// Whatever waits for a retry is due by then.
	b.pass(time.Minute)
	if err := b.Drain(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// RR-448, ARCHITECTURE 6: with the server gone the words still answer, coverage
// and every answer say so, an advisory follows the second failure, in full once;
// what is stored meanwhile is embedded when the server is back, and the notice
// ends by itself.
func TestOutage(t *testing.T) {
	e := newEmbedder(t)
	b := open(t, e.settings("embedding"))
	b.put("mia", days()...)
	b.drain()
	whole := b.ask("staging database")
	if !whole.Coverage.Full || len(reasons(whole)) != 0 || whole.Advisory != nil {
		t.Fatalf("healthy: %s", encode(t, whole))
	}
	e.kill()
	first := b.ask("staging server")
	if got := reasons(first); !slices.Equal(got, []string{"vector unavailable"}) || first.Coverage.Full || len(first.Rows) == 0 {
		t.Errorf("first recall of the outage: %v, %s", got, encode(t, first.Coverage))
	}
	second := b.ask("staging port")
	if second.Advisory == nil || second.Advisory.Severity != "fault" || second.Advisory.Evidence == "" {
		t.Fatalf("no advisory: %s", encode(t, second.Advisory))
	}
	third := b.ask("staging disk")
	if len(third.Advisory.Runbook) >= len(second.Advisory.Runbook) {
		t.Error("the full text is told twice in one outage")
	}
	cached := b.ask("staging database")
	if !slices.Equal(refsIn(cached.Rows), refsIn(whole.Rows)) {
		t.Errorf("a query embedded before the outage: %v, want %v", refsIn(cached.Rows), refsIn(whole.Rows))
	}
	stored, err := b.Store(t.Context(), StoreRequest{Agent: "mia", Items: []StoreItem{say("the staging cluster has three nodes")}})
	if err != nil || stored.Results[0].Embed != EmbedQueued || stored.Advisory == nil {
		t.Errorf("%+v, %v", stored, err)
	}
	if s := b.status(); s.Queue.Pending != 1 || s.Model.Embedded != 8 || s.Model.Records != 9 {
		t.Errorf("%+v", s)
	}
	e.up()
	b.drain()
	back := b.ask("how many nodes has the staging cluster")
	if !back.Coverage.Full || len(reasons(back)) != 0 || back.Advisory != nil || back.Rows[0].Ref != stored.Results[0].Ref {
		t.Errorf("after the outage: %s", encode(t, back))
	}
}

// RR-448, DECISIONS 26: without a model recall works on words, says so at once
// and calls it a hint, no fault.
func TestNoModel(t *testing.T) {
	b := open(t, map[string]string{"embedding.backend": "none"})
	a, err := b.Store(t.Context(), StoreRequest{Agent: "mia", Items: days()})
	if err != nil || a.Results[0].Embed != EmbedOff || a.Advisory == nil || a.Advisory.Severity != "hint" {
		t.Errorf("%+v, %v", a, err)
	}
	got := b.ask("staging database")
	if !slices.Equal(reasons(got), []string{"vector no_model"}) || got.Coverage.Full || got.Coverage.Embedded != 0 || len(got.Rows) == 0 {
		t.Errorf("%s", encode(t, got))
	}
	if words := b.recall(RecallRequest{Agent: "mia", Query: "staging", Arms: []string{"fts"}}); !words.Coverage.Full || len(reasons(words)) != 0 {
		t.Errorf("nobody asked for vectors: %s", encode(t, words))
	}
	quiet := open(t, map[string]string{"embedding.backend": "none", "degraded_advisory": "false"})
	if got := quiet.ask("x"); got.Advisory != nil {
		t.Errorf("switched off: %s", encode(t, got.Advisory))
	}
}

// Issue 2.4, ARCHITECTURE 6: what waits survives a stop of the process and is
// embedded by the next one; nothing is embedded twice.
func TestQueueSurvivesARestart(t *testing.T) {
	e := newEmbedder(t)
	b := open(t, e.settings("embedding"))
	e.kill()
	b.put("mia", days()...)
	b.down()
	e.up()
	b.up()
	b.drain()
	before := e.calls.Load()
	if a := b.ask("staging database"); !a.Coverage.Full || a.Coverage.Embedded != 8 {
		t.Errorf("%s", encode(t, a.Coverage))
	}
	b.restart()
	b.drain()
	if asked := e.calls.Load() - before; asked > 2+2*12 { // one query, and probes
		t.Errorf("%d texts were embedded after everything was", asked)
	}
}

// DECISIONS 26, RR-399: a text that the model has no vector for is counted,
// never tried again, and its lack is said.
func TestUnembeddable(t *testing.T) {
	e := newEmbedder(t)
	b := open(t, e.settings("embedding"))
	b.put("mia", say("a hopeless text"), say("a good text"))
	b.drain()
	if s := b.status(); s.Queue.Unembeddable != 1 || s.Queue.Pending != 0 {
		t.Errorf("%+v", s.Queue)
	}
	calls := e.calls.Load()
	b.drain()
	if e.calls.Load() != calls {
		t.Error("it was tried again")
	}
	a := b.ask("good text")
	if a.Coverage.Full || a.Coverage.Embedded != 1 || a.Coverage.Pending != 0 || !slices.Equal(reasons(a), []string{"vector not_embedded"}) {
		t.Errorf("%s", encode(t, a))
	}
	if a := b.ask("hopeless"); !slices.Contains(reasons(a), "vector unembeddable_query") {
		t.Errorf("%v", reasons(a))
	}
}

// BR-103: a text that changes while it is being embedded does not get the old
// text's vector.
func TestTextChangedWhileEmbedding(t *testing.T) {
	e := newEmbedder(t)
	b := open(t, e.settings("embedding"))
	b.put("mia", say("warm up"))
	b.drain()
	var ref atomic.Pointer[string]
	var once sync.Once
	hook := func(texts []string) {
		if name := ref.Load(); name != nil && slices.Contains(texts, "the old text") {
			once.Do(func() {
				if _, err := b.store.Update(context.Background(), "mia", b.record(*name).Ref, sqlite.Patch{Content: pointer("新しい文章")}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	e.kill()
	name := b.put("mia", say("the old text"))[0]
	ref.Store(&name)
	e.before.Store(&hook)
	e.up()
	b.drain()
	b.drain()
	a := b.recall(RecallRequest{Agent: "mia", Query: "新しい文章", Arms: []string{"vector"}, Gate: "off"})
	if a.Rows[0].Ref != name || a.Rows[0].MatchReason.Arms[0].Score < .999 || !a.Coverage.Full {
		t.Errorf("%s", encode(t, a))
	}
}

// DECISIONS 10: another model behind the same URL is noticed; its vectors are
// not mixed with the stored ones, nothing is embedded again, and everything says
// so, until an operator accepts it or rebuilds.
func TestAnotherModelIsNotMixed(t *testing.T) {
	e := newEmbedder(t)
	b := open(t, e.settings("embedding"))
	b.put("mia", days()...)
	b.drain()
	b.down()
	e.turn.Store(7)
	b.up()
	a := b.ask("staging database")
	if !slices.Equal(reasons(a), []string{"vector model_different"}) || a.Coverage.Full || a.Advisory == nil || a.Advisory.Severity != "fault" {
		t.Errorf("%s", encode(t, a))
	}
	for _, row := range a.Rows {
		for _, v := range row.MatchReason.Arms {
			if v.Arm == "vector" {
				t.Errorf("%s has a vote of mixed vectors", row.Ref)
			}
		}
	}
	b.put("mia", say("stored beside another model"))
	b.pass(time.Minute)
	if err := b.Drain(t.Context()); err == nil {
		t.Error("the queue embeds with another model")
	}
	if s := b.status(); s.Model.Embedded != 8 || s.Model.State != "drifted" {
		t.Errorf("%+v", s.Model)
	}
	m, err := b.ChangeModel(t.Context(), ModelRequest{Action: "accept"})
	if err != nil || m.State != "active" || m.ID != 1 {
		t.Fatalf("%+v, %v", m, err)
	}
	b.drain()
	if a := b.ask("staging database"); len(reasons(a)) != 0 || !a.Coverage.Full || a.Advisory != nil {
		t.Errorf("after accept: %s", encode(t, a))
	}
	b.restart()
	if a := b.ask("staging database again"); len(reasons(a)) != 0 {
		t.Errorf("accept is forgotten: %v", reasons(a))
	}
}

// DECISIONS 10: between .98 and .999 the model goes on and says so.
func TestDrift(t *testing.T) {
	e := newEmbedder(t)
	b := open(t, e.settings("embedding"))
	b.put("mia", days()...)
	b.drain()
	b.down()
	e.drift.Store(math.Float64bits(.12)) // cosine near .993
	b.up()
	a := b.ask("staging database")
	if !slices.Equal(reasons(a), []string{"vector model_drifted"}) || !a.Coverage.Full {
		t.Errorf("%v, %s", reasons(a), encode(t, a.Coverage))
	}
	if m := b.status().Model; m.State != "drifted" || m.Drift < .98 || m.Drift >= .999 {
		t.Errorf("%+v", m)
	}
	if d, err := b.Doctor(t.Context(), DoctorRequest{Checks: []string{"embedding-model"}}); err != nil || d.OK {
		t.Errorf("%s, %v", encode(t, d), err)
	}
	if _, err := b.ChangeModel(t.Context(), ModelRequest{Action: "accept"}); err != nil {
		t.Fatal(err)
	}
	if a := b.ask("staging database"); len(reasons(a)) != 0 {
		t.Errorf("after accept: %v", reasons(a))
	}
}

// DECISIONS 10: a model swapped while the server runs is refused at once, and
// accepted only by an operator.
func TestModelSwappedWhileRunning(t *testing.T) {
	e := newEmbedder(t)
	b := open(t, e.settings("embedding"))
	b.put("mia", days()...)
	b.drain()
	e.kill()
	e.turn.Store(7)
	b.ask("notices the outage")
	e.up()
	a := b.ask("staging database and more")
	if !slices.Equal(reasons(a), []string{"vector model_different"}) {
		t.Errorf("%v", reasons(a))
	}
	if _, err := b.ChangeModel(t.Context(), ModelRequest{Action: "accept"}); err != nil {
		t.Fatal(err)
	}
	if a := b.ask("staging database and more"); len(reasons(a)) != 0 {
		t.Errorf("after accept: %v", reasons(a))
	}
}

// DECISIONS 10: a new model is built beside the old one; meanwhile both are
// asked and merged by rank, and coverage says how far it is; an agent is cut
// over once all its records are embedded; then the old one is kept until it is
// retired, and its vectors are gone after that.
func TestRebuildBesideTheOldModel(t *testing.T) {
	old, fresh := newEmbedder(t), newEmbedder(t)
	fresh.turn.Store(100)
	b := open(t, old.settings("embedding"))
	b.put("mia", days()...)
	b.put("ken", say("ken's staging note"))
	b.drain()
	want := b.recall(RecallRequest{Agent: "mia", Query: "staging database", Arms: []string{"vector"}, Gate: "off"})
	b.down()

	overrides := fresh.settings("embedding")
	for name, value := range old.settings("previous") {
		overrides[name] = value
	}
	b.cfg.Overrides = overrides
	gate := make(chan struct{})
	hold := func(texts []string) {
		if slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, "guitar") }) {
			<-gate
		}
	}
	b.up()
	if a := b.ask("staging database"); !slices.Contains(reasons(a), "vector model_different") {
		t.Errorf("before the operator's word: %v", reasons(a))
	}
	fresh.before.Store(&hold)
	m, err := b.ChangeModel(t.Context(), ModelRequest{Action: "rebuild"})
	if err != nil || m.State != "building" || m.ID != 2 {
		t.Fatalf("%+v, %v", m, err)
	}
	during := b.recall(RecallRequest{Agent: "mia", Query: "staging database", Arms: []string{"vector"}, Gate: "off"})
	if !slices.Contains(reasons(during), "vector two_models") || len(during.Rows) != 8 || during.Rows[0].Ref != want.Rows[0].Ref || !during.Coverage.Full {
		t.Errorf("while both are asked: %s", encode(t, during))
	}
	close(gate)
	fresh.before.Store(nil)
	b.drain()
	after := b.recall(RecallRequest{Agent: "mia", Query: "staging database", Arms: []string{"vector"}, Gate: "off"})
	if len(reasons(after)) != 0 || !slices.Equal(refsIn(after.Rows), refsIn(want.Rows)) || !after.Coverage.Full {
		t.Errorf("after the cut-over: %v, %v, want %v", reasons(after), refsIn(after.Rows), refsIn(want.Rows))
	}
	if states := b.modelStates(); !slices.Equal(states, []string{"kept", "active"}) {
		t.Errorf("states %v", states)
	}
	if _, err := b.ChangeModel(t.Context(), ModelRequest{Action: "retire", Model: "2"}); err == nil {
		t.Error("the active model can be retired")
	}
	if m, err := b.ChangeModel(t.Context(), ModelRequest{Action: "retire", Model: "1"}); err != nil || m.Embedded != 0 || m.State != "retired" {
		t.Errorf("%+v, %v", m, err)
	}
	if a := b.ask("staging database"); !a.Coverage.Full || len(refsIn(a.Rows)) == 0 {
		t.Errorf("after retiring the old one: %s", encode(t, a.Coverage))
	}
}

func (b *bench) modelStates() (states []string) {
	b.t.Helper()
	all, err := b.Models(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, m := range all {
		states = append(states, m.State)
	}
	return states
}

// DECISIONS 10: an agent with a record that still waits is not cut over, and the
// model is not active before every agent is.
func TestCutOverWaitsForFullCoverage(t *testing.T) {
	old, fresh := newEmbedder(t), newEmbedder(t)
	fresh.turn.Store(100)
	b := open(t, old.settings("embedding"))
	l := newLanguage(3)
	for range ingest.QueueBatch {
		b.put("mia", say(l.sentence(8)))
	}
	b.put("ken", say("ken's staging note"))
	b.drain()
	b.down()
	b.cfg.Overrides = fresh.settings("embedding")
	b.up()
	var broken atomic.Bool
	broken.Store(true)
	refuse := func(texts []string) {
		if broken.Load() && len(texts) > 1 { // a whole batch: mia's
			panic(http.ErrAbortHandler)
		}
	}
	fresh.before.Store(&refuse)
	if _, err := b.ChangeModel(t.Context(), ModelRequest{Action: "rebuild"}); err != nil {
		t.Fatal(err)
	}
	for b.Drain(t.Context()) != nil { // mia's batch waits for a retry in the end, ken's is done
	}
	active := func(agent string) int64 {
		m, _, err := b.store.ActiveModel(t.Context(), agent)
		if err != nil {
			t.Fatal(err)
		}
		return m.ID
	}
	if mia, ken := active("mia"), active("ken"); mia != 1 || ken != 2 {
		t.Errorf("mia has model %d, ken %d; want 1 and 2", mia, ken)
	}
	if states := b.modelStates(); !slices.Equal(states, []string{"active", "building"}) {
		t.Errorf("states %v", states)
	}
	broken.Store(false)
	b.drain()
	if mia, ken := active("mia"), active("ken"); mia != 2 || ken != 2 {
		t.Errorf("mia has model %d, ken %d; want 2 for both", mia, ken)
	}
	if states := b.modelStates(); !slices.Equal(states, []string{"kept", "active"}) {
		t.Errorf("states %v", states)
	}
}

// DECISIONS 10: without the old model at hand, only what the new one has
// embedded is found by meaning, and the answer says so; each agent is cut over
// by itself.
func TestRebuildWithoutTheOldModel(t *testing.T) {
	old, fresh := newEmbedder(t), newEmbedder(t)
	fresh.turn.Store(100)
	b := open(t, old.settings("embedding"))
	b.put("mia", days()...)
	b.put("ken", say("ken's staging note"))
	b.drain()
	b.down()
	b.cfg.Overrides = fresh.settings("embedding")
	b.up()
	var blocked atomic.Bool
	blocked.Store(true)
	hold := func(texts []string) {
		for blocked.Load() && slices.Contains(texts, "ken's staging note") {
			time.Sleep(time.Millisecond)
		}
	}
	fresh.before.Store(&hold)
	if _, err := b.ChangeModel(t.Context(), ModelRequest{Action: "rebuild"}); err != nil {
		t.Fatal(err)
	}
	a := b.recall(RecallRequest{Agent: "ken", Query: "staging note", Gate: "off"})
	if !slices.Contains(reasons(a), "vector other_model_closed") || !slices.Contains(reasons(a), "vector not_embedded") || a.Coverage.Full {
		t.Errorf("%v, %s", reasons(a), encode(t, a.Coverage))
	}
	blocked.Store(false)
	b.drain()
	if a := b.recall(RecallRequest{Agent: "ken", Query: "staging note", Gate: "off"}); len(reasons(a)) != 0 || !a.Coverage.Full {
		t.Errorf("%v, %s", reasons(a), encode(t, a.Coverage))
	}
}
