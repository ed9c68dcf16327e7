package scanner

import (
	"math"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
)

// vector is a unit vector in float32, or a zero one, and what int8 keeps of it.
type vector struct {
	floats       []float32
	exact        []float64
	code         []byte
	scale, bound float32
}

// codedVector quantises the direction of a vector; without one it gives a zero
// vector. Its bound covers rounding as well.
func codedVector(t rapid.TB, v []float32) vector {
	t.Helper()
	length, most := 0.0, 0.0
	for _, x := range v {
		length += float64(x) * float64(x)
		most = max(most, math.Abs(float64(x)))
	}
	if length == 0 {
		return vector{floats: v, exact: make([]float64, len(v)), code: make([]byte, len(v)), bound: 1e-5}
	}
	length = math.Sqrt(length)
	code, ok := memory.Int8(v)
	if !ok {
		t.Fatal("a vector without a direction")
	}
	coded := vector{code: code, scale: float32(most / 127 / length)}
	rest := 0.0
	for i, x := range v {
		coded.floats = append(coded.floats, float32(float64(x)/length))
		exact := float64(coded.floats[i])
		coded.exact = append(coded.exact, exact)
		d := exact - float64(coded.scale)*float64(int8(code[i]))
		rest += d * d
	}
	coded.bound = float32(math.Sqrt(rest)*(1+1e-6) + 1e-5)
	return coded
}

// vectorRecord is what a store would know of a record's vector.
type vectorRecord struct {
	cell layout.Cell
	ref  memory.Ref
	vector
}

// vectorWorld is records with vectors from a small pool, so that many tie, beside
// a world.
type vectorWorld struct {
	*world
	rt     *rapid.T
	pool   []vector
	truth  map[memory.Ref]vectorRecord
	change int64
	held   func() bool // whether the next row has its vector beside its code; nil: none has
	whole  bool        // all have
	scored int         // answers with scores
}

func (w *vectorWorld) draw() vectorRecord {
	rec := w.record()
	return vectorRecord{rec.cell, rec.ref, w.pool[w.r.IntN(len(w.pool))]}
}

// addFile writes a segment of record vectors, of which those in gone are dead.
func (w *vectorWorld) addFile(records, gone []vectorRecord) {
	all := slices.Concat(records, gone)
	slices.SortFunc(all, func(a, b vectorRecord) int {
		if c := a.cell.Compare(b.cell); c != 0 {
			return c
		}
		return memory.CompareRefs(a.ref, b.ref)
	})
	file, err := layout.Create(w.dir, layout.Spec{Source: w.source(), Kind: layout.Int8, Sequence: 10, Lineage: 1, Lean: w.held == nil})
	w.must(err)
	number := uint32(len(w.publish.GetValues()) + 1)
	floats, err := layout.CreateValues(w.dir, layout.ValuesSpec{Source: w.source(), Number: number, Floats: true})
	w.must(err)
	dead := roaring.New()
	for _, rec := range all {
		if slices.ContainsFunc(gone, func(g vectorRecord) bool { return g.ref == rec.ref }) {
			dead.Add(uint32(file.Rows()))
		} else {
			w.truth[rec.ref] = rec
		}
		row := layout.Row{Cell: rec.cell, Ref: rec.ref, Code: rec.code, Scale: rec.scale, Bound: rec.bound, Value: layout.NoPointer()}
		if w.held != nil && w.held() {
			row.Value, err = floats.Add(layout.FloatBytes(nil, rec.floats))
			w.must(err)
		}
		w.must(file.Add(row))
	}
	if floats.Slots() > 0 {
		name, err := floats.Finish()
		w.must(err)
		w.publish.Values = append(w.publish.Values, &scannerv1.Values{Model: modelNumber, Number: number, Name: name})
	}
	w.must(floats.Abandon())
	name, err := file.Finish()
	w.must(err)
	bitmap, err := dead.ToBytes()
	w.must(err)
	w.publish.Records = append(w.publish.Records, &scannerv1.Segment{Model: modelNumber, Name: name, Dead: bitmap})
}

// vectorChange is a change; that of a world has vectors as w.held says.
func (w *vectorWorld) vectorChange(rec vectorRecord) *scannerv1.VectorChange {
	c := vectorChange(rec)
	if len(rec.code) > 0 && w.held != nil && w.held() {
		c.Vector = rec.floats
	}
	return c
}

func vectorChange(rec vectorRecord) *scannerv1.VectorChange {
	return &scannerv1.VectorChange{Model: modelNumber, Cell: &scannerv1.Cell{Agent: rec.cell.Agent, Project: rec.cell.Project, Channel: rec.cell.Channel},
		Ref: &scannerv1.Ref{Kind: scannerv1.Kind(rec.ref.Kind), Id: rec.ref.ID}, Code: rec.code, Scale: rec.scale, Bound: rec.bound}
}

// changes draws new records, new vectors, moves and deletions.
func (w *vectorWorld) changes() (changes []*scannerv1.VectorChange) {
	for range rapid.IntRange(0, 12).Draw(w.rt, "changes") {
		refs := make([]memory.Ref, 0, len(w.truth))
		for ref := range w.truth {
			refs = append(refs, ref)
		}
		slices.SortFunc(refs, memory.CompareRefs)
		what := w.r.IntN(4)
		if len(refs) == 0 || what == 0 {
			rec := w.draw()
			w.truth[rec.ref] = rec
			changes = append(changes, w.vectorChange(rec))
			continue
		}
		rec := w.truth[refs[w.r.IntN(len(refs))]]
		gone := rec
		gone.vector = vector{}
		switch what {
		case 1: // another vector
			rec.vector = w.pool[w.r.IntN(len(w.pool))]
			w.truth[rec.ref] = rec
			changes = append(changes, w.vectorChange(rec))
		case 2: // another cell
			rec.cell = w.cell()
			w.truth[rec.ref] = rec
			if rec.cell != gone.cell {
				changes = append(changes, w.vectorChange(gone))
			}
			changes = append(changes, w.vectorChange(rec))
		case 3:
			delete(w.truth, rec.ref)
			changes = append(changes, w.vectorChange(gone))
		}
	}
	return changes
}

// check compares an answer with that of looking at every record: exactly those
// that the bounds allow, each with the middle of its bounds, among them the k nearest by their exact cosines and all
// that tie with the last of them.
func (w *vectorWorld) check() {
	query := w.pool[w.r.IntN(len(w.pool))]
	if w.r.IntN(2) == 0 || query.scale == 0 {
		query = w.randomVector()
	}
	r := &scannerv1.RankRequest{Sequence: 10, Model: modelNumber, Scope: w.scope(), Only: w.only(), Batch: w.r.IntN(4) == 0,
		Code: query.code, Scale: float64(query.scale), Error: float64(query.bound), K: uint32(1 + w.r.IntN(9))}
	reply, err := w.server.Rank(w.rt.Context(), r)
	if err != nil {
		w.rt.Fatal(err)
	}
	type row struct {
		ref               memory.Ref
		cosine, low, high float64
	}
	var rows []row
	for _, rec := range w.truth {
		if !visible(r.GetScope(), rec.cell) || !listed(r.Only, rec.ref) {
			continue
		}
		dot, cosine := 0, 0.0
		for i, c := range rec.code {
			dot += int(int8(c)) * int(int8(query.code[i]))
			cosine += rec.exact[i] * query.exact[i]
		}
		estimate := float64(dot) * float64(rec.scale) * float64(query.scale)
		width := float64(rec.bound) + float64(query.bound) + float64(rec.bound)*float64(query.bound)
		rows = append(rows, row{rec.ref, cosine, estimate - width, estimate + width})
	}
	if reply.GetRowsScanned() != uint64(len(rows)) || reply.GetOver() {
		w.rt.Fatalf("%d rows scanned, over %v; %d take part", reply.GetRowsScanned(), reply.GetOver(), len(rows))
	}
	floor, nearest := math.Inf(-1), math.Inf(-1)
	if k := int(r.GetK()); len(rows) >= k {
		slices.SortFunc(rows, func(a, b row) int { return -compareFloats(a.low, b.low) })
		floor = rows[k-1].low
		slices.SortFunc(rows, func(a, b row) int { return -compareFloats(a.cosine, b.cosine) })
		nearest = rows[k-1].cosine
	}
	slices.SortFunc(rows, func(a, b row) int { return memory.CompareRefs(a.ref, b.ref) })
	want := &scannerv1.RankReply{State: reply.GetState(), RowsScanned: reply.GetRowsScanned()}
	for _, x := range rows {
		if x.high >= floor {
			want.Refs = append(want.Refs, &scannerv1.Ref{Kind: scannerv1.Kind(x.ref.Kind), Id: x.ref.ID})
			want.Cosines = append(want.Cosines, float32(min(max((x.low+x.high)/2, -1), 1)))
		} else if x.cosine >= nearest {
			w.rt.Fatalf("%v has cosine %g, at least the k-th, and is left out by its bounds", x.ref, x.cosine)
		}
	}
	if !proto.Equal(reply, want) {
		w.rt.Fatalf("for %s\ngot  %s\nwant %s", prototext.Format(r), prototext.Format(reply), prototext.Format(want))
	}
	r.Vector = query.floats
	w.checkScores(r)
}

// checkScores compares an answer to a question with a vector with the order of the
// vectors themselves. Only one that has some of them may be without scores; then it
// has all that could be among the nearest.
func (w *vectorWorld) checkScores(r *scannerv1.RankRequest) {
	reply, err := w.server.Rank(w.rt.Context(), r)
	if err != nil {
		w.rt.Fatal(err)
	}
	var rows []memory.Candidate
	for _, rec := range w.truth {
		if visible(r.GetScope(), rec.cell) && listed(r.Only, rec.ref) {
			rows = append(rows, memory.Candidate{Ref: rec.ref, Key: float64(memory.Dot(r.GetVector(), rec.floats))})
		}
	}
	slices.SortFunc(rows, memory.Compare)
	all := len(rows)
	rows = rows[:min(all, int(r.GetK()))]
	if reply.GetRowsScanned() != uint64(all) || len(reply.GetCosines()) > 0 || reply.GetOver() {
		w.rt.Fatalf("for %s\ngot %s; %d take part", prototext.Format(r), prototext.Format(reply), all)
	}
	if len(reply.GetScores()) == 0 {
		if len(rows) > 0 && w.whole {
			w.rt.Fatalf("no scores for %s: %s", prototext.Format(r), prototext.Format(reply))
		}
		for _, row := range rows {
			if !slices.ContainsFunc(reply.GetRefs(), func(ref *scannerv1.Ref) bool { return refOf(ref) == row.Ref }) {
				w.rt.Fatalf("%v, of the nearest, is left out", row.Ref)
			}
		}
		return
	}
	w.scored++
	got := make([]memory.Candidate, len(reply.GetRefs()))
	for i, ref := range reply.GetRefs() {
		got[i] = memory.Candidate{Ref: refOf(ref), Key: float64(reply.GetScores()[i])}
	}
	if w.held == nil || !slices.Equal(got, rows) {
		w.rt.Fatalf("for %s\ngot  %v\nwant %v", prototext.Format(r), got, rows)
	}
}

func compareFloats(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (w *vectorWorld) randomVector() vector {
	v := make([]float32, w.dims)
	for i := range v {
		v[i] = float32(w.r.NormFloat64())
	}
	return codedVector(w.rt, v)
}

// However record vectors are cut into files, dead rows and a delta, a rank finds
// every record that could be among the nearest, and no other; and where all vectors
// are held, the nearest, bit for bit as their inner products order them.
//
// DECISIONS 2, 3, 20
func TestAnyCutRanksTheSame(t *testing.T) {
	scored := 0
	rapid.Check(t, func(rt *rapid.T) {
		dims := rapid.SampledFrom([]int{8, 33, 128}).Draw(rt, "dims")
		w := &vectorWorld{world: newWorld(t, rapid.Uint64().Draw(rt, "seed"), dims), rt: rt, truth: make(map[memory.Ref]vectorRecord), change: 10}
		switch rapid.SampledFrom([]string{"none", "some", "all", "all"}).Draw(rt, "vectors held") {
		case "some":
			w.held = func() bool { return w.r.IntN(8) > 0 }
		case "all":
			w.held, w.whole = func() bool { return true }, true
		}
		for range rapid.IntRange(1, 20).Draw(rt, "different vectors") {
			w.pool = append(w.pool, w.randomVector())
		}
		if rapid.Bool().Draw(rt, "zero vectors") {
			w.pool = append(w.pool, codedVector(rt, make([]float32, dims)))
		}
		for range rapid.IntRange(0, 3).Draw(rt, "files") {
			var records, gone []vectorRecord
			for range rapid.IntRange(1, 40).Draw(rt, "records") {
				if rec := w.draw(); w.r.IntN(6) == 0 {
					gone = append(gone, rec)
				} else {
					records = append(records, rec)
				}
			}
			w.addFile(records, gone)
		}
		w.doPublish()
		for range 3 {
			for range 5 {
				w.check()
			}
			w.change++
			apply := &scannerv1.ApplyRequest{Generation: 1, Sequence: w.change, Vectors: w.changes()}
			for range rapid.IntRange(1, 2).Draw(rt, "times") { // a repetition changes nothing
				if _, err := w.server.Apply(rt.Context(), apply); err != nil {
					rt.Fatal(err)
				}
			}
		}
		w.server.Close()
		scored += w.scored
	})
	if scored == 0 {
		t.Error("no answer had scores")
	}
}

// Vectors that codes cannot tell apart are ordered by the vectors, the likeliest of
// which are read first, and equal ones by their records, though there are more than
// are read at once, and more than the caller would take.
//
// DECISIONS 2, 20
func TestRankReadsOnUntilNoneCanBeNearer(t *testing.T) {
	w := newWorld(t, 1, 8)
	vw := &vectorWorld{world: w, truth: make(map[memory.Ref]vectorRecord), held: func() bool { return true }}
	const n = 3*decideRows + 20
	var records []vectorRecord
	for i := range n {
		v := codedVector(t, []float32{1, 2, 3, 4, 5, 6, 7, 8 + float32(i/2%300)*1e-6})
		records = append(records, vectorRecord{layout.Cell{Agent: 1}, memory.Ref{Kind: memory.KindMemory, ID: int64(n - i)}, v})
	}
	vw.addFile(records, nil)
	w.doPublish()
	near := records[n/2].vector
	r := &scannerv1.RankRequest{Model: modelNumber, Scope: &scannerv1.Scope{Agent: 1}, Code: near.code, Scale: float64(near.scale), Error: float64(near.bound), Vector: near.floats, K: 7, Most: 10}
	reply, err := w.server.Rank(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	var want []memory.Candidate
	for _, rec := range records {
		want = append(want, memory.Candidate{Ref: rec.ref, Key: float64(memory.Dot(r.GetVector(), rec.floats))})
	}
	slices.SortFunc(want, memory.Compare)
	if len(reply.GetScores()) != 7 {
		t.Fatal(reply)
	}
	for i, ref := range reply.GetRefs() {
		if got := (memory.Candidate{Ref: refOf(ref), Key: float64(reply.GetScores()[i])}); got != want[i] {
			t.Errorf("number %d is %v, not %v", i, got, want[i])
		}
	}
}

// alike is a server with so many records of one vector, half of them in a file.
func alike(t *testing.T, n int) (*world, *scannerv1.RankRequest) {
	w := newWorld(t, 1, 8)
	v := codedVector(t, []float32{1, 2, 3, 4, 5, 6, 7, 8})
	vw := &vectorWorld{world: w, truth: make(map[memory.Ref]vectorRecord)}
	var records []vectorRecord
	for i := range n {
		records = append(records, vectorRecord{layout.Cell{Agent: 1}, memory.Ref{Kind: memory.KindMemory, ID: int64(i) + 1}, v})
	}
	vw.addFile(records[:n/2], nil)
	w.doPublish()
	apply := &scannerv1.ApplyRequest{Generation: 1, Sequence: 11}
	for _, rec := range records[n/2:] {
		apply.Vectors = append(apply.Vectors, vectorChange(rec))
	}
	_, err := w.server.Apply(t.Context(), apply)
	w.must(err)
	return w, &scannerv1.RankRequest{Sequence: 11, Model: modelNumber, Scope: &scannerv1.Scope{Agent: 1}, Code: v.code, Scale: float64(v.scale), Error: float64(v.bound), K: 1}
}

// More candidates than the caller wants are said to be over.
func TestRankOverMost(t *testing.T) {
	w, r := alike(t, 10)
	for most, over := range map[uint64]bool{0: false, 9: true, 10: false} {
		r.Most = most
		reply, err := w.server.Rank(t.Context(), r)
		if err != nil || reply.GetOver() != over || over != (len(reply.GetRefs()) == 0) {
			t.Errorf("most %d: %v, %v", most, reply, err)
		}
	}
}

// What does not fit is refused by name, and changes nothing.
func TestBadRanksAreRefused(t *testing.T) {
	w, r := alike(t, 2)
	for what, spoil := range map[string]func(*scannerv1.RankRequest){
		"model": func(r *scannerv1.RankRequest) { r.Model = 9 }, "scope": func(r *scannerv1.RankRequest) { r.Scope = nil },
		"code": func(r *scannerv1.RankRequest) { r.Code = r.GetCode()[1:] }, "k": func(r *scannerv1.RankRequest) { r.K = 0 },
		"many": func(r *scannerv1.RankRequest) { r.K = maxWanted + 1 }, "vector": func(r *scannerv1.RankRequest) { r.Vector = []float32{1} }, "scale": func(r *scannerv1.RankRequest) { r.Scale = math.NaN() },
		"error": func(r *scannerv1.RankRequest) { r.Error = -1 },
		"order": func(r *scannerv1.RankRequest) { r.Only = &scannerv1.Only{Memories: []int64{2, 2}} },
		"id":    func(r *scannerv1.RankRequest) { r.Only = &scannerv1.Only{Memories: []int64{0, 2}} },
		"long":  func(r *scannerv1.RankRequest) { r.Only = &scannerv1.Only{Memories: make([]int64, MaxOnly+1)} },
	} {
		bad := proto.CloneOf(r)
		spoil(bad)
		if _, err := w.server.Rank(t.Context(), bad); reason(err).GetReason() != scannerv1.Reason_REASON_INVALID {
			t.Errorf("rank, %s: %v", what, err)
		}
	}
	good := func() *scannerv1.VectorChange {
		return vectorChange(vectorRecord{layout.Cell{Agent: 1}, memory.Ref{Kind: memory.KindMemory, ID: 9}, codedVector(t, []float32{1, 2, 3, 4, 5, 6, 7, 8})})
	}
	for what, spoil := range map[string]func(*scannerv1.VectorChange){
		"model": func(c *scannerv1.VectorChange) { c.Model = 9 }, "kind": func(c *scannerv1.VectorChange) { c.Ref.Kind = 0 }, "id": func(c *scannerv1.VectorChange) { c.Ref.Id = 0 },
		"code": func(c *scannerv1.VectorChange) { c.Code = c.GetCode()[1:] }, "-128": func(c *scannerv1.VectorChange) { c.Code[0] = 0x80 },
		"scale": func(c *scannerv1.VectorChange) { c.Scale = float32(math.Inf(1)) }, "bound": func(c *scannerv1.VectorChange) { c.Bound = -1 },
		"vector": func(c *scannerv1.VectorChange) { c.Vector = []float32{1, 2} },
	} {
		bad := good()
		spoil(bad)
		a := &scannerv1.ApplyRequest{Generation: 1, Sequence: 12, Vectors: []*scannerv1.VectorChange{good(), bad}}
		if _, err := w.server.Apply(t.Context(), a); reason(err).GetReason() != scannerv1.Reason_REASON_INVALID {
			t.Errorf("apply, %s: %v", what, err)
		}
	}
	p := proto.CloneOf(w.publish)
	p.Segments = p.GetRecords() // int8 where signs must be
	if _, err := w.server.Publish(t.Context(), p); reason(err).GetReason() != scannerv1.Reason_REASON_INVALID {
		t.Errorf("publish: %v", err)
	}
	if stats, err := w.server.Stats(t.Context(), nil); err != nil || stats.GetDeltaRecords() != 1 || stats.GetRecordRows() != 1 || stats.GetState().GetSequence() != 11 {
		t.Errorf("something was changed: %v, %v", stats, err)
	}
}

// Damage in a file of record vectors is an error that names the file.
func TestDamagedVectorsAreNoAnswer(t *testing.T) {
	w, r := alike(t, 2)
	name := w.publish.GetRecords()[0].GetName()
	w.damage(name, layout.HeaderBytes)
	if _, err := w.server.Rank(t.Context(), r); reason(err).GetReason() != scannerv1.Reason_REASON_FILE || reason(err).GetFile() != name {
		t.Error(err)
	}
}

// Damage in a file of vectors is found when the vector is used, and by nobody who
// does not use it; a pointer that leads nowhere is damage of the segment.
//
// DECISIONS 20, 30
func TestDamagedFloatsAreNoAnswer(t *testing.T) {
	w := newWorld(t, 1, 8)
	vw := &vectorWorld{world: w, truth: make(map[memory.Ref]vectorRecord), held: func() bool { return true }}
	v := codedVector(t, []float32{1, 2, 3, 4, 5, 6, 7, 8})
	vw.addFile([]vectorRecord{{layout.Cell{Agent: 1}, memory.Ref{Kind: memory.KindMemory, ID: 1}, v}, {layout.Cell{Agent: 2}, memory.Ref{Kind: memory.KindMemory, ID: 2}, v}}, nil)
	name := w.publish.GetValues()[0].GetName()
	w.damage(name, layout.HeaderBytes+9)
	w.doPublish()
	r := &scannerv1.RankRequest{Model: modelNumber, Scope: &scannerv1.Scope{Agent: 1}, Code: v.code, Scale: float64(v.scale), Error: float64(v.bound), Vector: v.floats, K: 1}
	if _, err := w.server.Rank(t.Context(), r); reason(err).GetReason() != scannerv1.Reason_REASON_FILE || reason(err).GetFile() != name {
		t.Error(err)
	}
	r.Scope.Agent = 2
	if reply, err := w.server.Rank(t.Context(), r); err != nil || len(reply.GetScores()) != 1 {
		t.Errorf("another's vector: %v, %v", reply, err)
	}
	r.Scope.Agent, r.Vector = 1, nil
	if reply, err := w.server.Rank(t.Context(), r); err != nil || len(reply.GetCosines()) != 1 {
		t.Errorf("codes alone: %v, %v", reply, err)
	}
	// A number that stands for another kind of file.
	int8s, err := layout.CreateValues(w.dir, layout.ValuesSpec{Source: w.source(), Number: 1})
	w.must(err)
	for range 2 {
		_, err := int8s.Add(v.code)
		w.must(err)
	}
	w.publish.Values[0].Name, err = int8s.Finish()
	w.must(err)
	w.publish.Generation++
	w.doPublish()
	r.Vector = v.floats
	if _, err := w.server.Rank(t.Context(), r); reason(err).GetReason() != scannerv1.Reason_REASON_FILE || reason(err).GetFile() != w.publish.GetRecords()[0].GetName() {
		t.Error(err)
	}
}
