package scanner

import (
	"crypto/sha256"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
)

const truthID = "truth-1"

const modelNumber = 3

// block is one block of a record of the tests; code nil: none, values nil: none.
type block struct{ code, values []byte }

// record is what a store would know.
type record struct {
	cell   layout.Cell
	ref    memory.Ref
	blocks []block
}

// world is records, a folder with files of some of them, and a server.
type world struct {
	t       testing.TB
	r       *rand.Rand
	dims    int
	dir     string
	server  *Server
	truth   map[memory.Ref]record
	publish *scannerv1.PublishRequest
	next    int64 // id of a new record
}

func newWorld(t testing.TB, seed uint64, dims int) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 7)), dims: dims, dir: t.TempDir(), server: NewServer(Options{Threads: 2}), truth: make(map[memory.Ref]record)}
	t.Cleanup(w.server.Close)
	w.open()
	identity := sha256.Sum256([]byte("model"))
	w.publish = &scannerv1.PublishRequest{Generation: 1, Sequence: 10, Models: []*scannerv1.Model{{Number: modelNumber, Identity: identity[:], Dims: uint32(dims)}}}
	return w
}

func (w *world) open() {
	_, err := w.server.Open(w.t.Context(), &scannerv1.OpenRequest{Folder: w.dir, TruthId: truthID})
	w.must(err)
}

func (w *world) source() layout.Source {
	return layout.Source{TruthID: truthID, Model: modelNumber, Identity: sha256.Sum256([]byte("model")), Dims: w.dims}
}

// cell draws one of few, so that scopes see several: two agents, three projects
// and three channels, each with the empty one.
func (w *world) cell() layout.Cell {
	return layout.Cell{Agent: 1 + w.r.Uint64N(2), Project: 10 * w.r.Uint64N(3), Channel: 100 * w.r.Uint64N(3)}
}

// code has so few different bits that most distances tie.
func (w *world) code() []byte {
	code := make([]byte, (w.dims+7)/8)
	code[0] = byte(w.r.UintN(8))
	return code
}

func (w *world) vector() []byte {
	v := make([]byte, w.dims)
	for i := range v {
		v[i] = byte(int8(w.r.IntN(255) - 127))
	}
	v[0] = 1
	return v
}

func (w *world) blocks() []block {
	blocks := make([]block, 1+w.r.IntN(5))
	for i := range blocks {
		if w.r.IntN(9) > 0 {
			blocks[i].code = w.code()
			if w.r.IntN(9) > 0 {
				blocks[i].values = w.vector()
			}
		}
	}
	return blocks
}

// record draws a new one, under an id that none before it had; ids do not
// ascend with cells.
func (w *world) record() record {
	w.next++
	kind := memory.KindMemory
	if w.r.IntN(3) == 0 {
		kind = memory.KindEpisode
	}
	return record{w.cell(), memory.Ref{Kind: kind, ID: w.next}, w.blocks()}
}

// addSegment writes records, their values and a segment, and lists both. Rows of
// the records in gone are listed as dead.
func (w *world) addSegment(records, gone []record) {
	w.t.Helper()
	all := slices.Concat(records, gone)
	slices.SortFunc(all, func(a, b record) int {
		if c := a.cell.Compare(b.cell); c != 0 {
			return c
		}
		return memory.CompareRefs(a.ref, b.ref)
	})
	number := uint32(len(w.publish.GetValues()) + 1)
	values, err := layout.CreateValues(w.dir, layout.ValuesSpec{Source: w.source(), Number: number})
	w.must(err)
	segment, err := layout.Create(w.dir, layout.Spec{Source: w.source(), Kind: layout.Signs, Sequence: 10, Lineage: 1})
	w.must(err)
	dead := roaring.New()
	for _, rec := range all {
		isGone := slices.ContainsFunc(gone, func(g record) bool { return g.ref == rec.ref })
		for i, b := range rec.blocks {
			row := layout.Row{Cell: rec.cell, Ref: rec.ref, Block: i, Code: b.code, Value: layout.NoPointer()}
			if b.values != nil {
				row.Value, err = values.Add(b.values)
				w.must(err)
			}
			if isGone {
				dead.Add(uint32(segment.Rows()))
			}
			w.must(segment.Add(row))
		}
		if !isGone {
			w.truth[rec.ref] = rec
		}
	}
	name, err := segment.Finish()
	w.must(err)
	valuesName, err := values.Finish()
	w.must(err)
	bitmap, err := dead.ToBytes()
	w.must(err)
	w.publish.Segments = append(w.publish.Segments, &scannerv1.Segment{Model: modelNumber, Name: name, Dead: bitmap})
	w.publish.Values = append(w.publish.Values, &scannerv1.Values{Model: modelNumber, Number: number, Name: valuesName})
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Helper()
		w.t.Fatal(err)
	}
}

func (w *world) doPublish() {
	w.t.Helper()
	_, err := w.server.Publish(w.t.Context(), w.publish)
	w.must(err)
}

// change is what a record has in a cell from now on.
func change(cell layout.Cell, ref memory.Ref, blocks []block) *scannerv1.Change {
	c := &scannerv1.Change{Model: modelNumber, Cell: &scannerv1.Cell{Agent: cell.Agent, Project: cell.Project, Channel: cell.Channel},
		Ref: &scannerv1.Ref{Kind: scannerv1.Kind(ref.Kind), Id: ref.ID}}
	for _, b := range blocks {
		c.Blocks = append(c.Blocks, &scannerv1.Block{Code: b.code, Values: b.values})
	}
	return c
}

// someChanges draws new records, new texts, moves and deletions, and changes the
// truth with them.
func (w *world) someChanges(n int) []*scannerv1.Change {
	var changes []*scannerv1.Change
	for range n {
		refs := make([]memory.Ref, 0, len(w.truth))
		for ref := range w.truth {
			refs = append(refs, ref)
		}
		slices.SortFunc(refs, memory.CompareRefs)
		what := w.r.IntN(4)
		if len(refs) == 0 {
			what = 0
		}
		if what == 0 {
			rec := w.record()
			w.truth[rec.ref] = rec
			changes = append(changes, change(rec.cell, rec.ref, rec.blocks))
			continue
		}
		rec := w.truth[refs[w.r.IntN(len(refs))]]
		switch what {
		case 1:
			rec.blocks = w.blocks()
			changes = append(changes, change(rec.cell, rec.ref, rec.blocks))
			w.truth[rec.ref] = rec
		case 2:
			from := rec.cell
			rec.cell = w.cell()
			if rec.cell != from {
				changes = append(changes, change(from, rec.ref, nil))
			}
			changes = append(changes, change(rec.cell, rec.ref, rec.blocks))
			w.truth[rec.ref] = rec
		case 3:
			changes = append(changes, change(rec.cell, rec.ref, nil))
			delete(w.truth, rec.ref)
		}
	}
	return changes
}

// nearest is the answer by looking at every record.
func (w *world) nearest(r *scannerv1.ScanRequest, q *scannerv1.Query) (answer *scannerv1.Answer, scanned uint64) {
	type row struct {
		memory.Candidate
		values []byte
	}
	var rows []row
	for _, rec := range w.truth {
		if !visible(r.GetScope(), rec.cell) || !listed(r.Only, rec.ref) {
			continue
		}
		for i, b := range rec.blocks {
			if b.code == nil || r.GetPerParent() > 0 && i >= int(r.GetPerParent()) {
				continue
			}
			d := 0
			for j := range b.code {
				d += bits.OnesCount8(b.code[j] ^ q.GetCode()[j])
			}
			rows = append(rows, row{memory.Candidate{Ref: rec.ref, Block: int32(i), Key: float64(-d)}, b.values})
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return memory.Compare(a.Candidate, b.Candidate) })
	var nearest, parents scannerv1.Hits
	seen := make(map[memory.Ref]bool)
	for i, c := range rows {
		if !seen[c.Ref] && len(parents.Ids) < int(q.GetParents()) {
			addHit(&parents, c.Candidate)
		}
		seen[c.Ref] = true
		if i >= int(q.GetRows()) {
			continue
		}
		addHit(&nearest, c.Candidate)
		if q.GetValues() != nil {
			dot, norm := int32(0), uint32(0)
			for j, b := range c.values {
				x := int32(int8(b))
				dot += x * int32(int8(q.GetValues()[j]))
				norm += uint32(x * x)
			}
			nearest.Dots, nearest.Norms = append(nearest.Dots, dot), append(nearest.Norms, norm)
		}
	}
	answer = &scannerv1.Answer{}
	if len(nearest.Ids) > 0 {
		answer.Rows = &nearest
	}
	if len(parents.Ids) > 0 {
		answer.Parents = &parents
	}
	return answer, uint64(len(rows))
}

func addHit(h *scannerv1.Hits, c memory.Candidate) {
	h.Kinds, h.Ids = append(h.Kinds, scannerv1.Kind(c.Ref.Kind)), append(h.Ids, c.Ref.ID)
	h.Blocks, h.Distances = append(h.Blocks, uint32(c.Block)), append(h.Distances, uint32(-c.Key))
}

// visible is the isolation predicate, written out.
func visible(s *scannerv1.Scope, c layout.Cell) bool {
	return c.Agent == s.GetAgent() &&
		(s.Project == nil || c.Project == s.GetProject() || c.Project == 0) &&
		(s.GetChannel() == 0 || c.Channel == s.GetChannel() || c.Channel == 0)
}

// listed says which records take part, written out.
func listed(o *scannerv1.Only, ref memory.Ref) bool {
	return o == nil || ref.Kind == memory.KindEpisode && o.GetEpisodes() || ref.Kind == memory.KindMemory && slices.Contains(o.GetMemories(), ref.ID)
}

// only draws records that take part, some of which do not exist; nil for all.
func (w *world) only() *scannerv1.Only {
	if w.r.IntN(3) > 0 {
		return nil
	}
	o := &scannerv1.Only{Episodes: w.r.IntN(2) == 0}
	one := 1 + w.r.IntN(6) // of how many
	for id := int64(1); id < w.next+3; id++ {
		if w.r.IntN(one) == 0 {
			o.Memories = append(o.Memories, id)
		}
	}
	return o
}

// scope draws one.
func (w *world) scope() *scannerv1.Scope {
	scope := &scannerv1.Scope{Agent: 1 + w.r.Uint64N(2)}
	if w.r.IntN(2) == 0 {
		project := 10 * w.r.Uint64N(4)
		scope.Project = &project
	}
	if w.r.IntN(2) == 0 {
		channel := 100 * w.r.Uint64N(4)
		scope.Channel = &channel
	}
	return scope
}

// request draws a scan.
func (w *world) request() *scannerv1.ScanRequest {
	r := &scannerv1.ScanRequest{Sequence: 10, Model: modelNumber, Scope: w.scope(), PerParent: uint32(w.r.IntN(4)), Only: w.only(), Batch: w.r.IntN(4) == 0}
	for range 1 + w.r.IntN(3) {
		q := &scannerv1.Query{Code: w.code(), Rows: uint32(w.r.IntN(20)), Parents: uint32(w.r.IntN(8))}
		if w.r.IntN(2) == 0 {
			q.Values = w.vector()
		}
		r.Queries = append(r.Queries, q)
	}
	return r
}

// damage flips a bit of a file.
func (w *world) damage(name string, at int64) {
	w.t.Helper()
	path := strings.Join([]string{w.dir, name}, "/")
	content, err := os.ReadFile(path)
	w.must(err)
	content[at] ^= 1
	w.must(os.Chmod(path, 0o600))
	w.must(os.WriteFile(path, content, 0o600))
}
