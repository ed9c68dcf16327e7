package shards

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"recalld/memory"
	"recalld/scanner"
	"recalld/sqlite"
)

// The test's own program is the scanner: a process like any other.
func init() {
	if os.Getenv(scanner.Handshake().MagicCookieKey) != "" {
		scanner.Serve(scanner.Options{})
		os.Exit(0)
	}
}

// codesWorld is a real store with matrices in a real scanner process beside it.
// Only what a test asks for is done: the goroutine is not started, unless the test
// starts it.
type codesWorld struct {
	t      testing.TB
	folder string
	opts   CodesOptions
	store  *sqlite.Store
	codes  *Codes
	model  int64
	dims   int
	seed   int
	small  bool // small segments, value files and pieces
}

func newCodesWorld(t testing.TB, dims int, o CodesOptions) *codesWorld {
	t.Helper()
	w := &codesWorld{t: t, folder: tempFolder(t), opts: o, dims: dims, small: true}
	w.opts.Folder = filepath.Join(w.folder, "derived", "codes")
	w.opts.Command = []string{os.Args[0]}
	w.opts.Runtime = shortFolder(t)
	w.opts.Stderr, w.opts.Patience = io.Discard, time.Minute
	w.openStore()
	w.model = w.putModel("test", dims)
	w.open()
	t.Cleanup(w.close)
	return w
}

// tempFolder is a folder that is removed after the test, and after processes that
// still end in it.
func tempFolder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "codes")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// shortFolder is one whose sockets have short enough paths.
func shortFolder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "r")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func (w *codesWorld) openStore() {
	w.t.Helper()
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	store, err := sqlite.Open(context.Background(), filepath.Join(w.folder, "recall.db"), sqlite.Options{Clock: func() time.Time { return now }})
	if err != nil {
		w.t.Fatal(err)
	}
	w.store = store
}

func (w *codesWorld) putModel(name string, dims int) int64 {
	w.t.Helper()
	id, err := w.store.PutModel(context.Background(), sqlite.Model{Backend: "static", Name: name, Dims: dims, Probes: [][]float32{make([]float32, dims)}, State: sqlite.ModelActive})
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *codesWorld) open() {
	w.t.Helper()
	c, err := newCodes(w.store, w.opts)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.small {
		c.segmentBytes, c.valueBytes, c.pieceBytes = 256, 4096, 1<<14
		c.pageSets, c.pageVectors, c.changesRenewed = 2, 3, 20
	}
	c.stop = func() {} // of no goroutine
	w.codes = c
}

func (w *codesWorld) closeCodes() {
	w.t.Helper()
	if err := w.codes.Close(); err != nil {
		w.t.Error(err)
	}
}

func (w *codesWorld) close() {
	if w.codes == nil {
		return
	}
	w.closeCodes()
	w.codes = nil
	if err := w.store.Close(); err != nil {
		w.t.Error(err)
	}
}

// tidy does what the goroutine does.
func (w *codesWorld) tidy() {
	w.t.Helper()
	if err := w.codes.tidy(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *codesWorld) view() *sqlite.View {
	w.t.Helper()
	view, err := w.store.ViewRecords(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { view.Close() }) // a test that fails must not leave the store waiting for it
	return view
}

// vector is one that its number alone decides, of about length 1; numbers far
// apart are not alike.
func (w *codesWorld) vector(n int) []float32 { return vectorOfWidth(n, w.dims) }

func vectorOfWidth(n, dims int) []float32 {
	v := make([]float32, dims)
	x := uint64(n)*0x9e3779b97f4a7c15 + 1
	var sum float64
	for i := range v {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		v[i] = float32(int64(x>>40)%2001-1000) / 1000
		sum += float64(float64(v[i]) * float64(v[i]))
	}
	if sum == 0 {
		v[0], sum = 1, 1
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(sum))
	}
	return v
}

// keep stores a memory or an episode and returns its reference.
func (w *codesWorld) keep(kind memory.Kind, cell memory.Cell) memory.Ref {
	w.t.Helper()
	w.seed++
	text := fmt.Sprintf("the text with number %d has two blocks. And more of it here.", w.seed)
	var results []sqlite.StoreResult
	var err error
	if kind == memory.KindEpisode {
		results, err = w.store.StoreEpisodes(context.Background(), []sqlite.NewEpisode{{Cell: cell, Summary: text}})
	} else {
		results, err = w.store.StoreMemories(context.Background(), []sqlite.NewMemory{{Cell: cell, Content: text}})
	}
	if err != nil || results[0].Err != nil {
		w.t.Fatal(err, results)
	}
	return results[0].Ref
}

// textOf returns a record's text; ok is false when it is gone.
func (w *codesWorld) textOf(agent string, ref memory.Ref) (text string, ok bool) {
	w.t.Helper()
	view := w.view()
	defer view.Close()
	records, err := view.Hydrate(memory.Scope{Agent: agent}, []memory.Ref{ref})
	if err != nil {
		w.t.Fatal(err)
	}
	if len(records) == 0 {
		return "", false
	}
	return records[0].Content, true
}

// embed gives a record a vector of a model.
func (w *codesWorld) embed(agent string, model int64, ref memory.Ref, v []float32) {
	w.t.Helper()
	text, ok := w.textOf(agent, ref)
	if !ok {
		return
	}
	if _, err := w.store.PutVectors(context.Background(), []sqlite.Vector{{Ref: ref, Model: model, Revision: memory.Revision(text), Values: v}}); err != nil {
		w.t.Fatal(err)
	}
}

// block gives a record a set of n blocks under a model, with the vectors of seed,
// seed+1 and so on; without names blocks that have none.
func (w *codesWorld) block(agent string, model int64, dims int, ref memory.Ref, n, seed int, without ...int) {
	w.t.Helper()
	text, ok := w.textOf(agent, ref)
	if !ok {
		return
	}
	set := sqlite.BlockSet{Ref: ref, Model: model, Revision: memory.Revision(text), Policy: sqlite.BlockPolicy, Dims: dims}
	for i := range n {
		span := sqlite.BlockSpan{Start: i * memory.Len(text) / n, End: (i + 1) * memory.Len(text) / n, Node: i == 0}
		v := vectorOfWidth(seed+i, dims)
		signs := memory.Signs(v)
		values, _ := memory.Int8(v)
		if slices.Contains(without, i) {
			span.Unembeddable = true
			clear(signs)
			clear(values)
		}
		set.Blocks = append(set.Blocks, span)
		set.Bits, set.Values = append(set.Bits, signs...), append(set.Values, values...)
	}
	if _, err := w.store.PutBlockSets(context.Background(), []sqlite.BlockSet{set}); err != nil {
		w.t.Fatal(err)
	}
}

// fill stores n memories with vectors and three blocks each.
func (w *codesWorld) fill(cell memory.Cell, n int) (refs []memory.Ref) {
	w.t.Helper()
	for range n {
		ref := w.keep(memory.KindMemory, cell)
		w.embed(cell.Agent, w.model, ref, w.vector(w.seed))
		w.block(cell.Agent, w.model, w.dims, ref, 3, 1000+3*w.seed)
		refs = append(refs, ref)
	}
	return refs
}

// blockRows are the blocks of a scope that have a code, as the snapshot has them,
// and, with values, with the sums that give their cosines.
func (w *codesWorld) blockRows(view *sqlite.View, q BlockQuery) (hits []BlockHit) {
	w.t.Helper()
	cells, err := view.Cells(q.Scope)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, cell := range cells {
		err := view.BlockBits(q.Model, []int64{cell.ID}, func(s sqlite.BlockCodes) error {
			width := len(s.Bits) / s.N
			for i := range s.N {
				if slices.Contains(s.Unembeddable, i) || q.PerParent > 0 && i >= q.PerParent || !q.Only.has(s.Ref) {
					continue
				}
				d := 0
				for j, b := range s.Bits[i*width : (i+1)*width] {
					d += bits.OnesCount8(b ^ q.Code[j])
				}
				hits = append(hits, BlockHit{Ref: s.Ref, Index: i, Distance: d})
			}
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	slices.SortFunc(hits, compareHits)
	return hits
}

func (o *Only) has(ref memory.Ref) bool {
	if o == nil {
		return true
	}
	if ref.Kind == memory.KindEpisode {
		return o.Episodes
	}
	return slices.Contains(o.Memories, ref.ID)
}

func compareHits(a, b BlockHit) int {
	return cmp.Or(cmp.Compare(a.Distance, b.Distance), memory.CompareRefs(a.Ref, b.Ref), cmp.Compare(a.Index, b.Index))
}

// wantBlocks is what [Codes.Blocks] must answer, from the store alone.
func (w *codesWorld) wantBlocks(view *sqlite.View, q BlockQuery) (a BlockAnswer) {
	w.t.Helper()
	hits := w.blockRows(view, q)
	a.Scanned = int64(len(hits))
	if q.Most > 0 && len(hits) > q.Most {
		return BlockAnswer{Over: true}
	}
	a.Rows = slices.Clone(hits[:min(len(hits), q.Rows)])
	seen := make(map[memory.Ref]bool)
	for _, h := range hits {
		if !seen[h.Ref] && len(a.Parents) < q.Parents {
			seen[h.Ref] = true
			a.Parents = append(a.Parents, h)
		}
	}
	if q.Values == nil || w.opts.Lean {
		return a
	}
	rows := make([]sqlite.BlockRow, len(a.Rows))
	for i, h := range a.Rows {
		rows[i] = sqlite.BlockRow{Ref: h.Ref, Index: h.Index}
	}
	values, err := view.BlockValues(q.Model, rows)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range a.Rows {
		for j, b := range values[i] {
			a.Rows[i].Dot += int32(int8(b)) * int32(int8(q.Values[j]))
			a.Rows[i].Norm += uint32(int32(int8(b)) * int32(int8(b)))
		}
	}
	return a
}

// askBlocks compares an answer with the store. An error is the caller's to judge.
func (w *codesWorld) askBlocks(view *sqlite.View, q BlockQuery) error {
	w.t.Helper()
	got, err := w.codes.Blocks(context.Background(), view, q)
	if err != nil {
		return err
	}
	want := w.wantBlocks(view, q)
	if len(got.Rows)+len(want.Rows) == 0 {
		got.Rows, want.Rows = nil, nil
	}
	if len(got.Parents)+len(want.Parents) == 0 {
		got.Parents, want.Parents = nil, nil
	}
	if !reflect.DeepEqual(got, want) {
		w.t.Fatalf("blocks of %+v at change %d\n got %+v\nwant %+v", q.Scope, view.Seq(), got, want)
	}
	return nil
}

// dot is the inner product that decides (see coordinator/memory.Dot).
func dot(a, b []float32) float32 {
	var s [4]float32
	n := len(a) / 4 * 4
	for i := range a {
		k := i % 4
		if i >= n {
			k = 0
		}
		s[k] += float32(a[i] * b[i])
	}
	return (s[0] + s[1]) + (s[2] + s[3])
}

// askRecords checks that an answer is the K highest with their scores, or, where
// codes alone are held or asked for, that it has every record that is among the K
// highest, and no record that is not there.
func (w *codesWorld) askRecords(view *sqlite.View, q RecordQuery) (candidates int, err error) {
	w.t.Helper()
	got, err := w.codes.Records(context.Background(), view, q)
	if err != nil {
		return 0, err
	}
	cells, err := view.Cells(q.Scope)
	if err != nil {
		w.t.Fatal(err)
	}
	var all []memory.Candidate
	for _, cell := range cells {
		err := view.Vectors(q.Model, []int64{cell.ID}, func(ref memory.Ref, _ int64, v []float32) error {
			if q.Only.has(ref) {
				all = append(all, memory.Candidate{Ref: ref, Key: float64(dot(q.Vector, v))})
			}
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	if got.Scanned != int64(len(all)) {
		w.t.Fatalf("%d records of %+v were scanned, it has %d", got.Scanned, q.Scope, len(all))
	}
	if got.Over {
		return 0, nil
	}
	slices.SortFunc(all, memory.Compare)
	if !w.opts.Lean && !q.Approximate {
		best := all[:min(q.K, len(all))]
		if len(got.Refs) != len(best) || len(got.Scores) != len(best) || got.Cosines != nil {
			w.t.Fatalf("%d records, %d scores, %d cosines of %+v, not %d", len(got.Refs), len(got.Scores), len(got.Cosines), q.Scope, len(best))
		}
		for i, c := range best {
			if got.Refs[i] != c.Ref || math.Float64bits(float64(got.Scores[i])) != math.Float64bits(c.Key) {
				w.t.Fatalf("number %d of %+v is %v with %v, not %v with %v", i, q.Scope, got.Refs[i], got.Scores[i], c.Ref, c.Key)
			}
		}
		return len(best), nil
	}
	if got.Scores != nil || q.Approximate && len(got.Cosines) != len(got.Refs) {
		w.t.Fatalf("%d records of %+v have %d scores and %d cosines", len(got.Refs), q.Scope, len(got.Scores), len(got.Cosines))
	}
	for i, c := range all {
		if i < q.K && !slices.Contains(got.Refs, c.Ref) {
			w.t.Fatalf("%v, number %d of %+v, is no candidate of %v", c.Ref, i, q.Scope, got.Refs)
		}
	}
	for i, ref := range got.Refs {
		if !slices.ContainsFunc(all, func(c memory.Candidate) bool { return c.Ref == ref }) || i > 0 && memory.CompareRefs(got.Refs[i-1], ref) >= 0 {
			w.t.Fatalf("candidates %v of %+v", got.Refs, q.Scope)
		}
	}
	return len(got.Refs), nil
}

// blockQuery asks for the blocks nearest to a vector.
func (w *codesWorld) blockQuery(scope memory.Scope, n int) BlockQuery {
	v := w.vector(n)
	values, _ := memory.Int8(v)
	return BlockQuery{Model: w.model, Scope: scope, Code: memory.Signs(v), Values: values, Rows: 5, Parents: 4}
}

// same asks for everything of an agent in a new snapshot and fails unless the
// answers are right.
func (w *codesWorld) same(agent string) {
	w.t.Helper()
	view := w.view()
	defer view.Close()
	if err := w.ask(view, agent); err != nil {
		w.t.Fatalf("%s: %v", agent, err)
	}
}

func (w *codesWorld) ask(view *sqlite.View, agent string) error {
	w.t.Helper()
	scope := memory.Scope{Agent: agent}
	if err := w.askBlocks(view, w.blockQuery(scope, 7)); err != nil {
		return err
	}
	q := RecordQuery{Model: w.model, Scope: scope, Vector: w.vector(7), K: 3}
	if _, err := w.askRecords(view, q); err != nil {
		return err
	}
	q.Approximate = true
	_, err := w.askRecords(view, q)
	return err
}

// notBuilt fails unless the agent's scope is not built.
func (w *codesWorld) notBuilt(agent string) {
	w.t.Helper()
	view := w.view()
	defer view.Close()
	if err := w.ask(view, agent); !errors.Is(err, ErrNotBuilt) {
		w.t.Fatalf("the answer is %v", err)
	}
}

// filesOf are the names of the files of codes that are there.
func (w *codesWorld) filesOf() (names []string) {
	w.t.Helper()
	items, err := os.ReadDir(w.opts.Folder)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, item := range items {
		if !item.IsDir() && item.Name() != catalogName {
			names = append(names, item.Name())
		}
	}
	return names
}

// holding are the files below the folder that hold bytes.
func (w *codesWorld) holding(b []byte) (names []string) {
	w.t.Helper()
	err := filepath.WalkDir(w.opts.Folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, b) {
			names = append(names, d.Name())
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return names
}

// eventually waits until the goroutine has made something true.
func eventually(t testing.TB, c *Codes, what string, is func() bool) {
	t.Helper()
	for range 1_000 {
		if is() {
			return
		}
		c.Wake()
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("after five seconds it is not so that %s: %+v", what, c.State(context.Background()))
}
