package shards

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"recalld/lexical"
	"recalld/memory"
	"recalld/sqlite"
)

// world is a real store with the index beside it.
type world struct {
	t      testing.TB
	folder string
	opts   Options
	store  *sqlite.Store
	index  *Lexical
}

func newWorld(t testing.TB, o Options) *world {
	t.Helper()
	w := &world{t: t, folder: t.TempDir(), opts: o}
	w.opts.Folder = filepath.Join(w.folder, "derived", "lexical")
	w.openStore()
	w.open()
	t.Cleanup(w.close)
	return w
}

func (w *world) openStore() {
	w.t.Helper()
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	store, err := sqlite.Open(context.Background(), filepath.Join(w.folder, "recall.db"), sqlite.Options{Clock: func() time.Time { return now }})
	if err != nil {
		w.t.Fatal(err)
	}
	w.store = store
}

func (w *world) open() {
	w.t.Helper()
	index, err := Open(context.Background(), w.store, w.opts)
	if err != nil {
		w.t.Fatal(err)
	}
	w.index = index
}

func (w *world) closeIndex() {
	w.t.Helper()
	if err := w.index.Close(); err != nil {
		w.t.Error(err)
	}
}

func (w *world) close() {
	if w.index == nil {
		return
	}
	w.closeIndex()
	if err := w.store.Close(); err != nil {
		w.t.Error(err)
	}
	w.index = nil
}

// settled waits until every cell is built.
func (w *world) settled() {
	w.t.Helper()
	w.eventually("every cell is built", func() bool { return !w.index.State().Building })
}

// eventually waits until the goroutine has made something true.
func (w *world) eventually(what string, is func() bool) {
	w.t.Helper()
	for range 1_000 {
		if is() {
			return
		}
		w.index.Wake()
		time.Sleep(5 * time.Millisecond)
	}
	w.t.Fatalf("after five seconds it is not so that %s", what)
}

func (w *world) view() *sqlite.View {
	w.t.Helper()
	view, err := w.store.ViewRecords(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return view
}

func cellOf(agent string) memory.Cell { return memory.Cell{Agent: agent} }

// say stores one memory and returns its reference.
func (w *world) say(cell memory.Cell, session, text string) memory.Ref {
	w.t.Helper()
	results, err := w.store.StoreMemories(context.Background(), []sqlite.NewMemory{{Cell: cell, Content: text, Source: memory.Source{ID: session}}})
	if err != nil || results[0].Err != nil {
		w.t.Fatal(err, results)
	}
	if results[0].Ref.ID == 0 {
		return results[0].Existing
	}
	return results[0].Ref
}

// flood stores n memories of an agent in one call.
func (w *world) flood(cell memory.Cell, n int, text func(i int) string) {
	w.t.Helper()
	for done := 0; done < n; {
		part := min(n-done, 5_000)
		items := make([]sqlite.NewMemory, part)
		for i := range items {
			items[i] = sqlite.NewMemory{Cell: cell, Content: text(done + i), Source: memory.Source{ID: fmt.Sprint("s", (done+i)/20)}}
		}
		if _, err := w.store.StoreMemories(context.Background(), items); err != nil {
			w.t.Fatal(err)
		}
		done += part
	}
}

func (w *world) update(agent string, ref memory.Ref, p sqlite.Patch) error {
	_, err := w.store.Update(context.Background(), agent, ref, p)
	return err
}

func (w *world) delete(agent string, refs ...memory.Ref) {
	w.t.Helper()
	if _, err := w.store.Delete(context.Background(), agent, refs); err != nil {
		w.t.Fatal(err)
	}
}

// ask searches the index in a snapshot and compares with reading the snapshot
// directly: hits, scores, explanations and statistics must be the same.
func (w *world) ask(view *sqlite.View, scope memory.Scope, text string, kind memory.Kind) (Answer, error) {
	cells, err := view.Cells(scope)
	if err != nil {
		return Answer{}, err
	}
	q := lexical.Query{Text: text, Kind: kind, K: 10, Explain: true}
	got, err := w.index.Search(context.Background(), view, cells, WordQuery{Query: q, Patient: true})
	if err != nil {
		return got, err
	}
	for _, c := range cells {
		q.Cells = append(q.Cells, lexical.Cell(c.ID))
	}
	want, err := lexical.Scan(context.Background(), texts(view, q.Cells), q)
	if err != nil {
		return got, err
	}
	if got.NotBuilt > 0 {
		return got, nil
	}
	if !reflect.DeepEqual(got.Hits, want.Hits) || !reflect.DeepEqual(got.Terms, want.Terms) || got.Rows != want.Rows {
		return got, fmt.Errorf("%q in %s:\nindex  %d rows %v %+v\ndirect %d rows %v %+v", text, scope.Agent, got.Rows, got.Terms, got.Hits, want.Rows, want.Terms, want.Hits)
	}
	return got, nil
}

// same asks in a new snapshot and fails unless index and direct reading agree.
func (w *world) same(agent, text string) Answer {
	w.t.Helper()
	view := w.view()
	defer view.Close()
	a, err := w.ask(view, memory.Scope{Agent: agent}, text, memory.KindMemory)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func refs(hits []lexical.Hit) []memory.Ref {
	var out []memory.Ref
	for _, h := range hits {
		out = append(out, h.Ref)
	}
	return out
}

// words gives texts whose words meet again and again.
func words(i int) string {
	vocabulary := strings.Fields("harbor lantern copper violet engine ledger 会議 予算 数据库 迁移 velvet orchard signal timber")
	n := len(vocabulary)
	return strings.Join([]string{vocabulary[i%n], vocabulary[i*7%n], vocabulary[i*i%n], fmt.Sprint("n", i)}, " ")
}

// closeIndexKeepingFiles opens the same files again without closing the index
// that has them mapped, so that checksums are looked at anew.
func (w *world) closeIndexKeepingFiles() {
	w.t.Helper()
	for _, f := range w.index.files {
		fresh, err := lexical.Open(f.mapped)
		if err != nil {
			continue
		}
		w.index.mu.Lock()
		if err := w.index.index.Replace([]*lexical.File{f.File}, false, fresh); err != nil {
			w.t.Error(err)
		}
		f.File = fresh
		f.own = lexical.NewIndex(fresh)
		w.index.mu.Unlock()
	}
}
