package arm

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"recalld/memory"
	"recalld/sqlite"
)

func mem(id int64) memory.Ref { return memory.Ref{Kind: memory.KindMemory, ID: id} }
func ep(id int64) memory.Ref  { return memory.Ref{Kind: memory.KindEpisode, ID: id} }

// far is a code in which exactly the first n bits differ from an empty query.
func far(n, dims int) []byte {
	code := make([]byte, (dims+7)/8)
	for i := range n {
		code[i/8] |= 1 << (i % 8)
	}
	return code
}

// set puts a set into codes: the distances of its blocks, in text order.
func set(t *testing.T, c *codes, ref memory.Ref, distances ...int) {
	t.Helper()
	s := sqlite.BlockCodes{Ref: ref, N: len(distances), Dims: c.dims}
	for _, d := range distances {
		s.Bits = append(s.Bits, far(d, c.dims)...)
	}
	if !c.put(s) {
		t.Fatal("the set was not taken")
	}
}

// example3 are the three records of the ledger's example: 100, 3 and 2 blocks.
func example3(t *testing.T) codes {
	c := codes{dims: 512}
	long := make([]int, 100)
	for i := range long {
		long[i] = 402
	}
	long[63], long[80] = 338, 291
	set(t, &c, mem(29), 500, 338)
	set(t, &c, mem(17), long...)
	set(t, &c, mem(23), 305, 400, 351)
	return c
}

// BR-033, BR-034, BR-035, BR-037, BR-038, BR-142, BR-148, example 3: a record is one candidate, stands
// for its best block, and takes part with its first 64 blocks alone.
func TestRecordsFoldToTheirBestBlock(t *testing.T) {
	c := example3(t)
	q := BlockQuery{Dims: c.dims, Code: make([]byte, 64), Rows: 200, Parents: 200, PerParent: 64}
	want := []BlockHit{{mem(23), 0, 305}, {mem(17), 63, 338}, {mem(29), 1, 338}}
	if got := scan([]codes{c}, q); !slices.Equal(got.Parents, want) || got.Scanned != 64+3+2 {
		t.Errorf("got %+v, want %+v", got, want)
	}
	q.PerParent = 0 // the cap lifted: the far tail is reached
	if got := scan([]codes{c}, q).Parents[0]; got != (BlockHit{mem(17), 80, 291}) {
		t.Errorf("got %+v", got)
	}
}

// BR-036, BR-040: hundreds of near blocks of one record push none out, in the
// rows and in the scan alike, because a record's cap comes before every cut.
func TestLongRecordLeavesRoom(t *testing.T) {
	c := codes{dims: 512}
	near := make([]int, 400)
	for i := range near {
		near[i] = 10
	}
	set(t, &c, mem(1), near...)
	set(t, &c, mem(2), 500, 20)
	q := BlockQuery{Dims: c.dims, Code: make([]byte, 64), Rows: 200, Parents: 200, PerParent: 64, Most: 100}
	got := scan([]codes{c}, q)
	if len(got.Parents) != 2 || got.Parents[1] != (BlockHit{mem(2), 1, 20}) || got.Cut {
		t.Errorf("got %+v", got)
	}
	if !slices.Contains(got.Rows, BlockHit{mem(2), 1, 20}) {
		t.Errorf("the short record's block is not among the %d rows", len(got.Rows))
	}
}

// BR-039, BR-041: a scan that is too large takes the first blocks by kind, parent
// and index, whatever the order in which cells are given, and says so.
func TestScanCapCutsInKeyOrder(t *testing.T) {
	a, b := codes{dims: 512}, codes{dims: 512}
	set(t, &a, mem(5), 1, 1, 1)
	set(t, &b, mem(3), 9, 8, 7)
	set(t, &b, ep(9), 30, 30)
	for _, parts := range [][]codes{{a, b}, {b, a}} {
		got := scan(parts, BlockQuery{Dims: 512, Code: make([]byte, 64), Rows: 10, Parents: 10, PerParent: 64, Most: 4})
		want := []BlockHit{{mem(3), 1, 8}, {mem(3), 0, 9}, {ep(9), 0, 30}, {ep(9), 1, 30}}
		if !slices.Equal(got.Rows, want) || got.Scanned != 4 || !got.Cut {
			t.Errorf("got %+v", got)
		}
	}
}

// BR-044, BR-052, BR-194: as many rows as the depth are ordered by vectors, counted in
// rows, and a record whose best block is one past it is no candidate.
func TestDepthCountsRows(t *testing.T) {
	c := codes{dims: 512}
	for i := range int64(201) {
		set(t, &c, mem(i+1), 300, int(i))
	}
	got := scan([]codes{c}, BlockQuery{Dims: 512, Code: make([]byte, 64), Rows: 200, Parents: 200})
	if len(got.Rows) != 200 || got.Rows[199].Ref != mem(200) {
		t.Errorf("%d rows, last %+v", len(got.Rows), got.Rows[len(got.Rows)-1])
	}
}

// BR-039, BR-041: a cell that is larger than what may be kept is read no further
// than the cap of the scan, one record more to know of it, and is not kept.
func TestLargeCellIsReadInPart(t *testing.T) {
	s := newShelf(t, 64)
	for i := range 5 {
		s.add(t, strconv.Itoa(1000+i), slices.Repeat([]block{{3, .5}}, 4)...)
	}
	view := s.view(t)
	mia := memory.Scope{Agent: "mia"}
	cells, err := view.Cells(mia)
	if err != nil {
		t.Fatal(err)
	}
	size := int64(5*bytesPerSet + 20*8)
	for _, c := range []struct {
		limit      int64
		most, per  int
		only       *Subset
		read, kept int
		scanned    int64
	}{
		{limit: size, most: 6, read: 5, kept: 1, scanned: 6},
		{limit: size - 1, most: 6, read: 2, scanned: 6},
		{limit: 0, most: 6, read: 2, scanned: 6},
		{limit: 0, most: 8, read: 3, scanned: 8},
		{limit: 0, most: 20, read: 5, scanned: 20},
		{limit: 0, most: 0, read: 5, scanned: 20},
		{limit: 0, most: 6, per: 2, read: 4, scanned: 6},
		{limit: 0, most: 6, only: &Subset{Memories: []int64{4, 5}}, read: 2, scanned: 6},
	} {
		m := NewMatrices(c.limit)
		q := BlockQuery{Model: s.model, Scope: mia, Dims: 64, Code: make([]byte, 8), Only: c.only, Rows: 30, Parents: 30, PerParent: c.per, Most: c.most}
		part, err := m.codes(view, cells[0].ID, q)
		if err != nil || len(part.sets) != c.read || len(m.entries) != c.kept {
			t.Errorf("%+v: %d sets read, %d cells kept, %v", c, len(part.sets), len(m.entries), err)
		}
		if got, err := NewCodes(m).Nearest(t.Context(), view, q); err != nil || got.Scanned != c.scanned || got.Cut != (c.scanned < 20) {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
}

// DECISIONS 10: what becomes of one model's sets is no matter of another's.
func TestOtherModelsSetsGo(t *testing.T) {
	s := newShelf(t, 64)
	other := *s
	var err error
	if other.model, err = s.store.PutModel(t.Context(), sqlite.Model{Backend: "test", Name: "old", Dims: 64, State: sqlite.ModelKept, Probes: [][]float32{turned(.5, 64)}}); err != nil {
		t.Fatal(err)
	}
	ref := s.add(t, "甲。乙。", block{3, .5}, block{4, .5})
	other.fill(t, ref, "甲。乙。", block{5, .5}, block{6, .5})
	index := NewCodes(NewMatrices(1 << 20))
	ask := func(model int64) int {
		view, err := s.store.ViewRecords(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer view.Close()
		q := s.search(10)
		q.Vectors[0].Model = model
		got, err := NewBlocks(index).Search(t.Context(), view, q)
		if err != nil {
			t.Fatal(err)
		}
		return len(got.Candidates)
	}
	if a, b := ask(s.model), ask(other.model); a != 1 || b != 1 {
		t.Fatalf("%d and %d candidates", a, b)
	}
	if err := s.store.SetModelState(t.Context(), other.model, sqlite.ModelRetired); err != nil {
		t.Fatal(err)
	}
	if a, b := ask(s.model), ask(other.model); a != 1 || b != 0 {
		t.Errorf("%d and %d candidates after one model's sets went", a, b)
	}
}

// zeroCode asks with an empty code, whatever the query's vector, so that a test
// says distances and cosines apart.
type zeroCode struct{ BlockIndex }

func (z zeroCode) Nearest(ctx context.Context, view *sqlite.View, q BlockQuery) (BlockAnswer, error) {
	q.Code = make([]byte, len(q.Code))
	return z.BlockIndex.Nearest(ctx, view, q)
}

// lists is an index that lists one row more, which the file has no vector of: an
// index that has not heard yet of a set that was dropped.
type lists struct {
	BlockIndex
	row BlockHit
}

func (l lists) Nearest(ctx context.Context, view *sqlite.View, q BlockQuery) (BlockAnswer, error) {
	k := q.Rows
	a, err := l.BlockIndex.Nearest(ctx, view, q)
	a.Rows, a.Parents = append(a.Rows, l.row), append(a.Parents, l.row)
	slices.SortFunc(a.Rows, CompareHits)
	slices.SortFunc(a.Parents, CompareHits)
	a.Rows = a.Rows[:min(k, len(a.Rows))]
	return a, err
}

func (s *shelf) search(depth int) BlockSearch {
	return BlockSearch{Scope: memory.Scope{Agent: "mia"}, Vectors: []ModelVector{{Model: s.model, Vector: turned(1, s.dims)}}, Limits: BlockLimits{PerParent: 64, Scan: 1_000, Rerank: depth}}
}

// BR-043, BR-049, BR-050, BR-051, BR-053, BR-055, BR-151, example 4: rows are ordered by their vectors,
// all or none. One row without a vector puts the whole answer into the order of
// codes; one past the depth does not.
func TestRerankIsAllOrNothing(t *testing.T) {
	s := newShelf(t, 512)
	p := s.add(t, "一二三四五六七八九十", append(slices.Repeat([]block{{480, -.9}}, 4), block{301, .41}, block{480, -.9}, block{480, -.9}, block{480, -.9}, block{480, -.9}, block{309, .58})...)
	q := s.add(t, "費用が倍になった。", block{305, .62}, block{480, -.9})
	late := s.add(t, "第二拠点は遅延が大きく、廃止した。", block{480, -.9}, block{480, -.9}, block{315, .71})
	real := NewCodes(NewMatrices(1 << 20))
	absent := mem(99)
	for _, c := range []struct {
		name  string
		index BlockIndex
		depth int
		order string
		want  []BlockHit
	}{
		{"every row has a vector", real, 4, OrderVector, []BlockHit{{late, 2, 315}, {q, 0, 305}, {p, 9, 309}}},
		{"one has none", lists{real, BlockHit{absent, 2, 312}}, 5, OrderHamming, []BlockHit{{p, 4, 301}, {q, 0, 305}, {absent, 2, 312}, {late, 2, 315}}},
		{"one past the depth has none", lists{real, BlockHit{absent, 2, 400}}, 4, OrderVector, []BlockHit{{late, 2, 315}, {q, 0, 305}, {p, 9, 309}}},
	} {
		got, err := NewBlocks(zeroCode{c.index}).Search(t.Context(), s.view(t), s.search(c.depth))
		if err != nil {
			t.Fatal(err)
		}
		var hits []BlockHit
		for _, candidate := range got.Candidates {
			hits = append(hits, candidate.BlockHit)
		}
		if got.Order != c.order || !slices.Equal(hits, c.want) {
			t.Errorf("%s: %s %+v, want %s %+v", c.name, got.Order, hits, c.order, c.want)
		}
	}
}

// BR-053, DECISIONS 22: the fallback has the nearest records by best block, not
// only those that the nearest rows name.
func TestFallbackReachesBeyondTheRows(t *testing.T) {
	s := newShelf(t, 512)
	s.add(t, "long", slices.Repeat([]block{{3, .5}}, 4)...)
	other := s.add(t, "short", block{200, .9}, block{201, .9})
	index := lists{NewCodes(NewMatrices(1 << 20)), BlockHit{mem(50), 0, 1}}
	got, err := NewBlocks(zeroCode{index}).Search(t.Context(), s.view(t), s.search(4))
	if err != nil {
		t.Fatal(err)
	}
	if got.Order != OrderHamming || len(got.Candidates) != 3 || got.Candidates[2].Ref != other {
		t.Errorf("got %+v", got)
	}
}

// BR-050: equal cosines stand in the order of kind, parent and index.
func TestEqualCosinesHaveAnOrder(t *testing.T) {
	query, _ := memory.Int8(turned(1, 8))
	var products []Product
	rows := []BlockHit{{mem(2), 1, 4}, {ep(7), 3, 5}, {mem(2), 0, 6}, {mem(1), 9, 1}}
	for range rows {
		code, _ := memory.Int8(turned(.5, 8))
		products = append(products, Product{Dot: dot8(query, code), Norm: normOf(code)})
	}
	var got []BlockHit
	for _, h := range rerank(normOf(query), rows, products) {
		got = append(got, h.BlockHit)
	}
	if want := []BlockHit{{ep(7), 3, 5}, {mem(1), 9, 1}, {mem(2), 0, 6}, {mem(2), 1, 4}}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// BR-047, BR-049, DECISIONS 6, 22: the cosine is that of the bytes, does not know
// their scale, and needs vectors of one width with a length.
func TestCosine8(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "n")
		draw := func(name string) []byte { return rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, name) }
		a, b := draw("a"), draw("b")
		var dot, aa, bb float64
		for i := range a {
			x, y := float64(int8(a[i])), float64(int8(b[i]))
			dot, aa, bb = dot+float64(x*y), aa+float64(x*x), bb+float64(y*y)
		}
		got, ok := Cosine8(a, b)
		if ok != (aa > 0 && bb > 0) || ok && math.Abs(got-dot/math.Sqrt(float64(aa*bb))) > 1e-12 {
			t.Fatalf("got %v %v", got, ok)
		}
		if back, _ := Cosine8(b, a); back != got {
			t.Fatalf("%v and %v", got, back)
		}
	})
	if _, ok := Cosine8([]byte{1, 2}, []byte{1}); ok {
		t.Error("two widths")
	}
}

// BR-042: sets of another width than the query's are not seen, and a query
// without direction finds nothing.
func TestOtherWidthsAreNotSeen(t *testing.T) {
	s := newShelf(t, 512)
	s.add(t, "something", block{3, .5}, block{4, .5})
	view := s.view(t)
	for _, index := range []BlockIndex{NewCodes(NewMatrices(1 << 20)), NewCodes(NewMatrices(0))} {
		q := s.search(5)
		q.Vectors = []ModelVector{{Model: s.model, Vector: turned(1, 256)}}
		got, err := NewBlocks(index).Search(t.Context(), view, q)
		if err != nil || len(got.Candidates) != 0 || got.Scanned != 0 {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

// DECISIONS 10: candidates of two models merge by rank; a record that both know
// has its better rank, and a tie of ranks is settled by the reference.
func TestModelsMergeByRank(t *testing.T) {
	ranking := func(model int64, ids ...int64) (out []BlockCandidate) {
		for i, id := range ids {
			out = append(out, BlockCandidate{BlockHit{mem(id), int(model), i}, model})
		}
		return out
	}
	var got []string
	for _, c := range mergeBlocks([][]BlockCandidate{ranking(1, 5, 2, 3), ranking(2, 3, 2, 9)}) {
		got = append(got, c.Ref.String()+" of "+strconv.FormatInt(c.Model, 10))
	}
	if want := []string{"mem:3 of 2", "mem:5 of 1", "mem:2 of 1", "mem:9 of 2"}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// BR-053, DECISIONS 10: while two models are searched, a vector that one of them
// lacks puts the ranks of both into the order of codes: one answer has one order.
func TestModelsShareOneOrder(t *testing.T) {
	s := newShelf(t, 64)
	next := *s
	var err error
	if next.model, err = s.store.PutModel(t.Context(), sqlite.Model{Backend: "test", Name: "next", Dims: 64, State: sqlite.ModelBuilding, Probes: [][]float32{turned(.5, 64)}}); err != nil {
		t.Fatal(err)
	}
	a := s.add(t, "甲。乙。", block{9, .9}, block{60, .1})
	b := s.add(t, "One. Two.", block{8, .2}, block{60, .1})
	next.fill(t, a, "甲。乙。", block{5, .3}, block{60, .1})
	q := s.search(10)
	q.Vectors = append(q.Vectors, ModelVector{Model: next.model, Vector: turned(1, 64)})
	real := NewCodes(NewMatrices(1 << 20))
	for order, index := range map[string]BlockIndex{OrderVector: real, OrderHamming: lists{real, BlockHit{mem(99), 0, 61}}} {
		got, err := NewBlocks(zeroCode{index}).Search(t.Context(), s.view(t), q)
		if err != nil || got.Order != order || !got.TwoModels || got.Scanned != 4 && order == OrderVector {
			t.Fatalf("%s: %+v, %v", order, got, err)
		}
		seen := map[memory.Ref]int{}
		for _, c := range got.Candidates {
			seen[c.Ref]++
		}
		// By code the first model has b before a; by vector a is first in both.
		if seen[a] != 1 || seen[b] != 1 || got.Candidates[0].Ref != a || order == OrderVector && got.Candidates[0].Model != s.model {
			t.Errorf("%s: %+v", order, got.Candidates)
		}
	}
}

// BR-200: the block that a record is quoted from is the nearest by vector, the
// first of equal ones, and never one without a vector.
func TestBestBlock(t *testing.T) {
	s := newShelf(t, 64)
	ref := s.add(t, "甲乙丙丁", block{60, .2}, block{50, .8}, block{1, .1}, block{2, .8})
	none := s.store
	stored, err := none.StoreMemories(t.Context(), []sqlite.NewMemory{{Cell: memory.Cell{Agent: "mia"}, Content: "no set"}})
	if err != nil {
		t.Fatal(err)
	}
	view := s.view(t)
	if _, ok, err := view.BlocksOf(s.model, stored[0].Ref); ok || err != nil {
		t.Errorf("a record without a set: %v, %v", ok, err)
	}
	set, ok, err := view.BlocksOf(s.model, ref)
	if !ok || err != nil || len(set.Spans) != 4 || len(set.Values) != 4*64 {
		t.Fatalf("%+v, %v, %v", set, ok, err)
	}
	if i, ok := Best(ModelVector{Model: s.model, Vector: turned(1, 64)}, set); i != 1 || !ok {
		t.Errorf("got %d, %v", i, ok)
	}
	for name, vector := range map[string][]float32{"without direction": make([]float32, 64), "of another width": turned(1, 32)} {
		if _, ok := Best(ModelVector{Model: s.model, Vector: vector}, set); ok {
			t.Errorf("a query %s", name)
		}
	}
}

// An abandoned recall does not go on scanning.
func TestBlockSearchEndsWithItsContext(t *testing.T) {
	s := newShelf(t, 64)
	s.add(t, "text", block{1, .5}, block{2, .5})
	view := s.view(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewBlocks(NewCodes(NewMatrices(0))).Search(ctx, view, s.search(5)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
