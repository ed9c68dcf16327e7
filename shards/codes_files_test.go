package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"recalld/layout"
	"recalld/memory"
	"recalld/sqlite"
)

// planted are the bytes of a vector as files have them: its signs, and its int8
// row.
func planted(n, dims int) [2][]byte {
	v := vectorOfWidth(n, dims)
	values, _ := memory.Int8(v)
	return [2][]byte{memory.Signs(v), values}
}

// DECISIONS 14: when an erasure returns, the codes and values of what was deleted
// or changed are in no file, also not in one that was set aside, and not those of
// vectors that the record had before.
func TestCodesOfDeletedTextsAreInNoFile(t *testing.T) {
	const dims = 64
	for _, lean := range []bool{false, true} {
		t.Run(fmt.Sprint("lean ", lean), func(t *testing.T) {
			w := newCodesWorld(t, dims, CodesOptions{Lean: lean})
			w.fill(cellOf("mia"), 20)
			var refs []memory.Ref
			for i := range 4 {
				ref := w.keep(memory.KindMemory, cellOf("mia"))
				w.embed("mia", w.model, ref, w.vector(70_000+i))
				w.block("mia", w.model, dims, ref, 3, 80_000+3*i)
				refs = append(refs, ref)
			}
			everywhere := func(i int) (all [][]byte) {
				record := planted(70_000+i, dims)
				all = append(all, record[1])
				if !lean {
					all = append(all, layout.FloatBytes(nil, w.vector(70_000+i)))
				}
				for b := range 3 {
					block := planted(80_000+3*i+b, dims)
					all = append(all, block[0])
					if !lean {
						all = append(all, block[1])
					}
				}
				return all
			}
			check := func(i int, there bool) {
				t.Helper()
				for _, b := range everywhere(i) {
					if in := w.holding(b); there != (len(in) > 0) {
						t.Errorf("%x of record %d is in %v", b[:8], i, in)
					}
				}
			}
			w.tidy()
			for i := range refs {
				check(i, true)
			}
			// Deleted, changed, deleted after its blocks were made anew and compacted.
			w.deleteAndErase("mia", refs[0])
			check(0, false)
			check(1, true)
			text := "another text with another meaning, long enough for blocks."
			if _, err := w.store.Update(t.Context(), "mia", refs[1], sqlite.Patch{Content: &text}); err != nil {
				t.Fatal(err)
			}
			if err := w.codes.Erase(t.Context()); err != nil {
				t.Fatal(err)
			}
			check(1, false)
			w.block("mia", w.model, dims, refs[2], 3, 90_000)
			w.embed("mia", w.model, refs[2], w.vector(90_010))
			if err := w.codes.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := w.codes.Compact(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			w.deleteAndErase("mia", refs[2])
			check(2, false)
			// Set aside, then deleted.
			for _, name := range w.filesOf() {
				w.codes.mu.take()
				w.codes.dismiss(name, errors.New("for the test"))
				w.codes.unsure = true
				w.codes.mu.unlock()
			}
			check(3, true)
			if _, err := w.store.Delete(t.Context(), "mia", refs[3:]); err != nil {
				t.Fatal(err)
			}
			if err := w.codes.Erase(t.Context()); err != nil {
				t.Fatal(err)
			}
			check(3, false)
			w.heal()
			w.same("mia")
			check(3, false)
			if _, err := w.store.DeleteAgent(t.Context(), "mia"); err != nil {
				t.Fatal(err)
			}
			if err := w.codes.Erase(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.same("mia")
			if files := w.filesOf(); len(files) > 0 {
				t.Errorf("nothing is stored, and there are %v", files)
			}
		})
	}
}

func (w *codesWorld) deleteAndErase(agent string, ref memory.Ref) {
	w.t.Helper()
	if _, err := w.store.Delete(context.Background(), agent, []memory.Ref{ref}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.codes.Erase(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	w.same(agent)
}

// DECISIONS 14: cells that went with their agent before the process began are
// found in files by their records.
func TestCodesOfAgentsThatAreGoneAreFound(t *testing.T) {
	w := newCodesWorld(t, 64, CodesOptions{})
	w.fill(cellOf("mia"), 6)
	w.fill(memory.Cell{Agent: "ken", Project: "p"}, 5)
	w.tidy()
	w.closeCodes()
	if _, err := w.store.DeleteAgent(t.Context(), "ken"); err != nil {
		t.Fatal(err)
	}
	w.open()
	w.tidy()
	again := w.fill(memory.Cell{Agent: "ken", Project: "p"}, 1)
	w.same("ken")
	if err := w.codes.Erase(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.same("ken")
	w.same("mia")
	if s := w.codes.State(t.Context()); s.Rows != 4*6 || s.DeltaRows != 4*int64(len(again)) {
		t.Errorf("%+v", s)
	}
}

// DECISIONS 30: a compaction writes no row of a value file of which most is in use,
// neither of int8 nor of float32, and says what it wrote.
func TestCodesCompactionLeavesValuesAlone(t *testing.T) {
	w := newCodesWorld(t, 64, CodesOptions{})
	w.codes.valueBytes = 1 << 20
	refs := w.fill(cellOf("mia"), 20)
	w.tidy()
	for range 3 {
		w.fill(cellOf("mia"), 10)
		if err := w.codes.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	values := func() (names []string) {
		return slices.DeleteFunc(w.filesOf(), func(s string) bool { return strings.HasSuffix(s, layout.SegmentSuffix) })
	}
	before := values()
	report, err := w.codes.Compact(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(before) != 8 || !slices.Equal(values(), before) || report.ValueBytes != 0 || report.CodeBytes == 0 || report.Amplification <= 1 || report.Amplification > 2 {
		t.Errorf("%v, then %v; %+v", before, values(), report)
	}
	runs := make(map[uint64]bool)
	for _, s := range w.codes.current().Segments {
		runs[s.Run] = true
	}
	if len(runs) != 2 {
		t.Errorf("%d runs of two kinds", len(runs))
	}
	w.same("mia")

	// Most of the first files is of no use: what is left of them moves, and they go.
	for i, ref := range refs[:15] {
		w.embed("mia", w.model, ref, w.vector(5000+i))
		w.block("mia", w.model, 64, ref, 2, 500+2*i)
	}
	if err := w.codes.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	before = values()
	if report, err = w.codes.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	gone := 0
	for _, name := range before {
		if _, err := os.Stat(filepath.Join(w.opts.Folder, name)); err != nil {
			gone++
		}
	}
	if report.ValueBytes != 5*3*64+5*4*64 || report.DeadRows == 0 || gone != 2 {
		t.Errorf("%d of %d value files are gone; %+v", gone, len(before), report)
	}
	w.same("mia")
	if again, err := w.codes.Compact(t.Context(), nil); err != nil || again.CodeBytes != 0 || again.ValueBytes != 0 {
		t.Errorf("a second one wrote %+v, %v", again, err)
	}
}

// DECISIONS 30: of runs of like size at most four stay beside one another, whatever
// was sealed.
func TestCodesSealedRunsAreMerged(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{SealRows: 1})
	w.fill(cellOf("mia"), 5)
	for range 14 {
		w.fill(cellOf("mia"), 2)
		w.fill(cellOf("ken"), 1)
		w.tidy()
		w.tidy()
		w.same("mia")
		runs := make(map[string]bool)
		for _, s := range w.codes.current().Segments {
			runs[fmt.Sprint(s.Kind, s.Run)] = true
		}
		if len(runs) > 2*runsPerTier {
			t.Fatalf("%d runs of two kinds", len(runs))
		}
	}
	w.same("ken")
}

// DECISIONS 29: segments are cut between records, and a scope reads its own rows
// in each of them.
func TestCodesSegmentsAreCutBetweenRecords(t *testing.T) {
	w := newCodesWorld(t, 64, CodesOptions{})
	w.fill(cellOf("mia"), 60)
	w.fill(cellOf("ken"), 7)
	w.tidy()
	m, err := w.codes.newMaker(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	segments := 0
	seen := make(map[string]bool)
	for _, e := range m.next.Segments {
		if e.Kind != layout.Signs {
			continue
		}
		segments++
		err := m.inSegment(e, func(s *layout.Segment) error {
			return eachRecord(s, func(_ layout.Cell, ref memory.Ref, rows layout.Range) error {
				if rows.Len() != 3 || seen[ref.String()] {
					t.Errorf("%v has %d rows in %s, seen before: %v", ref, rows.Len(), e.Name, seen[ref.String()])
				}
				seen[ref.String()] = true
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if segments < 5 || len(seen) != 67 {
		t.Errorf("%d segments, %d records", segments, len(seen))
	}
	w.same("mia")
	w.same("ken")
}

// A build in pieces publishes each of them: agents that are built answer, the
// others wait, and what is stored, moved and deleted meanwhile is right in the
// end.
func TestCodesAreBuiltInPieces(t *testing.T) {
	w := newCodesWorld(t, 64, CodesOptions{})
	var agents []string
	for i := range 12 {
		agents = append(agents, fmt.Sprint("agent", i))
		w.fill(cellOf(agents[i]), 6)
	}
	if begun, err := w.codes.load(t.Context()); err != nil || !begun {
		t.Fatal(begun, err)
	}
	if err := w.codes.revive(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.codes.pieceBytes = 2_000
	var s *schedule
	pieces := 0
	for done := false; !done; pieces++ {
		var err error
		if s, done, err = w.codes.buildPiece(t.Context(), s, nil); err != nil {
			t.Fatal(err)
		}
		built := 0
		for i, agent := range agents {
			view := w.view()
			switch err := w.ask(view, agent); {
			case err == nil:
				built++
			case !errors.Is(err, ErrNotBuilt):
				t.Fatal(err)
			}
			view.Close()
			if i%4 == pieces%4 {
				w.fill(memory.Cell{Agent: agent, Project: fmt.Sprint("p", pieces)}, 1)
			}
		}
		if done != (built == len(agents)) && pieces > 0 && built == 0 {
			t.Errorf("after piece %d %d agents answer", pieces, built)
		}
		w.fill(cellOf(fmt.Sprint("late", pieces)), 1)
		if pieces%3 == 2 {
			if err := w.codes.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if pieces < 5 {
		t.Errorf("%d pieces", pieces)
	}
	for _, agent := range agents {
		w.same(agent)
	}
	for i := range pieces {
		w.same(fmt.Sprint("late", i))
	}
}

// An erasure does not wait for the whole build, and a build ends however many
// there are.
func TestCodesBuildGivesWayToAnErasure(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	w.fill(cellOf("mia"), 10)
	if begun, err := w.codes.load(t.Context()); err != nil || !begun {
		t.Fatal(begun, err)
	}
	w.codes.erasing.Add(1)
	for range maxYields {
		if _, _, err := w.codes.buildPiece(t.Context(), nil, nil); !errors.Is(err, errYield) {
			t.Fatalf("the build ends with %v", err)
		}
		if files := w.filesOf(); len(files) > 0 {
			t.Errorf("it leaves %v", files)
		}
	}
	if err := w.codes.build(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	w.codes.erasing.Add(-1)
	w.tidy()
	w.same("mia")
}

// What an operator asks for reports its progress and is whole in the end.
func TestCodesRebuild(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	w.fill(cellOf("mia"), 20)
	w.tidy()
	before := w.codes.current()
	var last, total int64
	progress := func(done, of int64) {
		if done < last || done > of {
			t.Errorf("%d of %d after %d", done, of, last)
		}
		last, total = done, of
	}
	if err := w.codes.Rebuild(t.Context(), progress); err != nil {
		t.Fatal(err)
	}
	if last == 0 || last != total {
		t.Errorf("the last progress is %d of %d", last, total)
	}
	if after := w.codes.current(); after.Number <= before.Number || len(w.filesOf()) != len(after.names()) {
		t.Errorf("generation %d after %d, files %v", after.Number, before.Number, w.filesOf())
	}
	w.same("mia")
	last, total = 0, 0
	if damaged, err := w.codes.Verify(t.Context(), false, progress); err != nil || len(damaged) > 0 || last != total || total == 0 {
		t.Errorf("%v, %v, %d of %d", damaged, err, last, total)
	}
}

// What is worth sealing when the matrices are closed is sealed.
func TestCodesCloseKeepsWhatCameLast(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	w.fill(cellOf("mia"), 3)
	w.tidy()
	w.fill(cellOf("mia"), 3)
	w.same("mia")
	w.codes.mu.take()
	w.codes.deltaRows = rowsAtClose + 1
	w.codes.mu.unlock()
	w.closeCodes()
	k, err := readCatalog(w.opts.Folder, false)
	if err != nil || k.Sequence != w.newest() {
		t.Errorf("the catalog is at change %d, %v", k.Sequence, err)
	}
	if err := w.ask(w.view(), "mia"); !errors.Is(err, errClosed) {
		t.Errorf("a question after the end: %v", err)
	}
	w.open()
	w.tidy()
	w.same("mia")
}

// DECISIONS 20: the inner product that decides lies within the bounds that the
// scanner has, whatever the vectors are.
func TestBoundsOfCodesHold(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dims := rapid.SampledFrom([]int{1, 2, 3, 7, 64, 257}).Draw(r, "dims")
		draw := func(name string) []float32 {
			size := rapid.SampledFrom([]float64{1, 1, 1, 1e-3, 30, 1e-20, 1e15}).Draw(r, name+" size")
			v := make([]float32, dims)
			for i := range v {
				v[i] = float32(size * rapid.Float64Range(-1, 1).Draw(r, name))
			}
			if rapid.Bool().Draw(r, name+" of length 1") {
				var sum float64
				for _, x := range v {
					sum += float64(float64(x) * float64(x))
				}
				for i := range v {
					v[i] = float32(float64(v[i]) / max(1e-300, math.Sqrt(sum)))
				}
			}
			return v
		}
		v, w := draw("row"), draw("query")
		width, ok := withinBounds(r, v, w)
		if !ok {
			return
		}
		if short := rapid.Bool().Draw(r, "look at the width"); short && math.Sqrt(sumOfSquares(v)) <= 1.0001 && width > .03 && dims >= 64 {
			t.Fatalf("bounds of ± %g choose everything", width)
		}
	})
	// All components alike: the codes leave out nothing, and float32 alone errs.
	for dims := 1; dims <= 4096; dims += dims/3 + 1 {
		v := make([]float32, dims)
		for i := range v {
			v[i] = float32(1 / math.Sqrt(float64(dims)))
		}
		withinBounds(t, v, v)
	}
	if row := encodeRecord([]float32{float32(math.NaN()), 1}); row.bound != math.MaxFloat32 {
		t.Errorf("a vector that is no number has a bound of %g", row.bound)
	}
	if row := encodeRecord(make([]float32, 8)); row.bound > 1e-4 || row.scale != 0 {
		t.Errorf("nothing has a scale of %g, ± %g", row.scale, row.bound)
	}
}

// withinBounds fails unless the inner product of a row and a query is within their
// bounds, and returns how wide these are; ok is false for a query without a
// direction.
func withinBounds(t interface{ Fatalf(string, ...any) }, v, w []float32) (width float64, ok bool) {
	row := encodeRecord(v)
	code, scale, bound, ok := encodeQuery(w)
	if !ok {
		return 0, false
	}
	if bound > 1 {
		t.Fatalf("the code leaves out %g of a query", bound)
	}
	var whole int32
	for i := range code {
		whole += int32(int8(code[i])) * int32(int8(row.code[i]))
	}
	estimate := float64(float64(float64(whole)*float64(row.scale)) * scale)
	width = float64(row.bound) + bound + float64(float64(row.bound)*bound)
	decides := float64(dot(w, v)) / math.Sqrt(sumOfSquares(w))
	if !(math.Abs(decides-estimate) <= width) {
		t.Fatalf("%d components: %g is not %g ± %g", len(v), decides, estimate, width)
	}
	return width, true
}

func sumOfSquares(v []float32) (sum float64) {
	for _, x := range v {
		sum += float64(float64(x) * float64(x))
	}
	return sum
}

// DECISIONS 20: the exact K best are among few candidates, ties included.
func TestCodesCandidatesAreFew(t *testing.T) {
	w := newCodesWorld(t, 256, CodesOptions{})
	for range 300 {
		ref := w.keep(memory.KindMemory, cellOf("mia"))
		w.embed("mia", w.model, ref, w.vector(w.seed%250)) // the last fifty are there twice
	}
	w.tidy()
	view := w.view()
	for n := range 10 {
		got, err := w.askRecords(view, RecordQuery{Model: w.model, Scope: memory.Scope{Agent: "mia"}, Vector: w.vector(n * 7), K: 5, Approximate: true})
		if err != nil || got < 5 || got > 60 {
			t.Errorf("%d candidates, %v", got, err)
		}
	}
	q := RecordQuery{Model: w.model, Scope: memory.Scope{Agent: "mia"}, Vector: w.vector(3), K: 5, Most: 4, Approximate: true}
	if a, err := w.codes.Records(t.Context(), view, q); err != nil || !a.Over || len(a.Refs) > 0 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestKeySpans(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var s keySpans
		var in [40]bool
		edge := func(i int) uint64 { // both ends of what there is
			if i < 20 {
				return uint64(i)
			}
			return math.MaxUint64 - uint64(39-i)
		}
		for range rapid.IntRange(0, 12).Draw(r, "steps") {
			a, b := rapid.IntRange(0, 39).Draw(r, "a"), rapid.IntRange(0, 39).Draw(r, "b")
			a, b = min(a, b), max(a, b)
			span := keySpan{edge(a), edge(b)}
			add := rapid.Bool().Draw(r, "add")
			if add {
				s = s.with(span)
			} else {
				s = s.without(span)
			}
			for i := a; i <= b; i++ {
				in[i] = add
			}
			for i, want := range in {
				if s.contains(edge(i)) != want {
					t.Fatalf("%v has %d: %v", s, edge(i), !want)
				}
			}
			if !slices.IsSortedFunc(s, func(a, b keySpan) int { return cmp.Compare(a.First, b.First) }) {
				t.Fatalf("%v is not in order", s)
			}
			for i := 1; i < len(s); i++ {
				if s[i-1].Last >= s[i].First || s[i-1].Last+1 == s[i].First {
					t.Fatalf("%v overlap or touch", s)
				}
			}
		}
	})
}

// DECISIONS 14: what an erasure could not do is done in the background, and what was
// deleted by a process that did not come to erase it by the next one.
func TestCodesErasuresThatFailedAreMadeUp(t *testing.T) {
	const dims = 64
	w := newCodesWorld(t, dims, CodesOptions{})
	w.fill(cellOf("mia"), 20)
	var refs []memory.Ref
	for i := range 2 {
		ref := w.keep(memory.KindMemory, cellOf("mia"))
		w.embed("mia", w.model, ref, w.vector(70_000+i))
		refs = append(refs, ref)
	}
	w.tidy()
	left := func(i int) []string { return w.holding(layout.FloatBytes(nil, w.vector(70_000+i))) }
	for i, ref := range refs {
		if _, err := w.store.Delete(t.Context(), "mia", []memory.Ref{ref}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			gone, leave := context.WithCancel(t.Context())
			leave()
			if err := w.codes.Erase(gone); !errors.Is(err, context.Canceled) {
				t.Fatalf("an erasure whose caller has left: %v", err)
			}
		} else {
			w.closeCodes()
			w.open()
		}
		if len(left(i)) == 0 {
			t.Fatalf("the vector of %v is in no file before it is erased", ref)
		}
		w.tidy()
		if in := left(i); len(in) > 0 {
			t.Errorf("the vector of %v, deleted, is in %v", ref, in)
		}
	}
	w.same("mia")
}

// DECISIONS 29: a segment that was written anew without its dead rows keeps its
// place in its run.
func TestCodesErasedRunsAreMerged(t *testing.T) {
	w := newCodesWorld(t, 64, CodesOptions{})
	refs := w.fill(cellOf("mia"), 40)
	w.tidy()
	w.deleteAndErase("mia", refs[0])
	w.fill(cellOf("mia"), 3)
	if err := w.codes.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.codes.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	w.same("mia")
}

// DECISIONS 14: an erasure also finds what died before the text did: of a record
// that moved, or whose blocks and vector were made anew.
func TestCodesOfTextsThatChangedPlacesAreInNoFile(t *testing.T) {
	const dims = 64
	q := "q"
	for name, between := range map[string]func(w *codesWorld, ref memory.Ref){
		"moved": func(w *codesWorld, ref memory.Ref) {
			if _, err := w.store.Update(context.Background(), "mia", ref, sqlite.Patch{Project: &q}); err != nil {
				w.t.Fatal(err)
			}
		},
		"made anew": func(w *codesWorld, ref memory.Ref) {
			w.block("mia", w.model, dims, ref, 2, 8_001)
			w.embed("mia", w.model, ref, w.vector(7_778))
		},
	} {
		for _, merged := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", merged ", merged), func(t *testing.T) {
				w := newCodesWorld(t, dims, CodesOptions{})
				w.codes.segmentBytes, w.codes.valueBytes = 1<<20, 1<<20
				home := memory.Cell{Agent: "mia", Project: "p"}
				w.fill(home, 20)
				ref := w.keep(memory.KindMemory, home)
				w.embed("mia", w.model, ref, w.vector(7_777))
				w.block("mia", w.model, dims, ref, 2, 9_001)
				w.tidy()
				between(w, ref)
				if err := w.codes.Seal(t.Context()); err != nil {
					t.Fatal(err)
				}
				if merged {
					if _, err := w.codes.Compact(t.Context(), nil); err != nil {
						t.Fatal(err)
					}
				}
				w.deleteAndErase("mia", ref)
				for _, n := range []int{7_777, 7_778, 8_001, 9_001, 9_002} {
					for _, b := range planted(n, dims) {
						if in := w.holding(b); len(in) > 0 {
							t.Errorf("%x of %d is in %v", b[:8], n, in)
						}
					}
				}
			})
		}
	}
}

// DECISIONS 14: matrices that are not used any more are removed as a whole.
func TestCodesThatAreNotUsedAreRemoved(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	w.fill(cellOf("mia"), 5)
	w.tidy()
	aside := slices.IndexFunc(w.filesOf(), func(s string) bool { return strings.HasSuffix(s, layout.ValuesSuffix) })
	w.codes.mu.take()
	w.codes.dismiss(w.filesOf()[aside], errors.New("for the test"))
	w.codes.mu.unlock()
	w.closeCodes()
	if err := RemoveCodes(w.opts.Folder); err != nil {
		t.Fatal(err)
	}
	if items, err := os.ReadDir(w.opts.Folder); err != nil || len(items) > 0 {
		t.Errorf("%v, %v", items, err)
	}
	if err := RemoveCodes(filepath.Join(w.folder, "recall.db")); err != nil {
		t.Errorf("a file is no folder: %v", err)
	}
	w.open()
	w.tidy()
	w.same("mia")
}
