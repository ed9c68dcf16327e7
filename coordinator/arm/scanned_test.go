package arm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"recalld/memory"
	"recalld/scanner/client"
	"recalld/shards"
	"recalld/sqlite"
)

// down is a scanner that has an error, or too much, for every question.
type down struct {
	err  error
	over bool
}

func (d down) Blocks(context.Context, *sqlite.View, shards.BlockQuery) (shards.BlockAnswer, error) {
	return shards.BlockAnswer{Over: d.over}, d.err
}

func (d down) Records(context.Context, *sqlite.View, shards.RecordQuery) (shards.RecordAnswer, error) {
	return shards.RecordAnswer{Over: d.over}, d.err
}

// DECISIONS 4, ARCHITECTURE 6 and 8.6: whatever the scanner says instead of an
// answer, the arms give the answer of this process. What keeps it from answering
// is said; that its files are being built, or that a scan is bounded, is not, since
// nothing is amiss. In an older snapshot than its state, a newer one is asked for,
// except by the patient.
func TestScannerWithoutAnAnswer(t *testing.T) {
	s := newShelf(t, 512)
	s.add(t, "long", slices.Repeat([]block{{3, .5}}, 4)...)
	s.add(t, "short", block{200, .9}, block{201, .9})
	view, matrices := s.view(t), NewMatrices(1<<20)
	local := NewCodes(matrices)
	search := s.search(200)
	wantBlocks, err := NewBlocks(local).Search(t.Context(), view, search)
	if err != nil || len(wantBlocks.Candidates) != 2 {
		t.Fatal(wantBlocks, err)
	}
	q := Query{Scope: search.Scope, Vectors: search.Vectors, Depth: 3, Floor: -1}
	wantVectors, err := NewVector(matrices, nil).Search(t.Context(), view, q)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		down
		said string // "": nothing
	}{
		{down{err: shards.ErrNotBuilt}, ""},
		{down{err: fmt.Errorf("scope: %w", shards.ErrPassed)}, ""},
		{down{over: true}, ""},
		{down{err: fmt.Errorf("%w: process 7 is gone", client.ErrUnavailable)}, "answered without it: the scanner is unavailable"},
		{down{err: fmt.Errorf("%w: 3 of 4", client.ErrBehind)}, "answered without it: the scanner is behind"},
		{down{err: &client.FileError{File: "a.bits", Problem: "short"}}, "answered without it: a derived file cannot be used"},
		{down{err: fmt.Errorf("%w: %w", shards.ErrNotBuilt, &client.FileError{File: "a.bits", Problem: "short"})}, "answered without it: a derived file cannot be used"},
		{down{err: client.ErrRefused}, "answered without it: the scanner refused the request"},
		{down{err: client.ErrClosed}, "answered without it: the scanner's client is closed"},
		{down{err: errors.New("no space left")}, "answered without it: the scanner cannot be asked"},
	} {
		for _, patient := range []bool{true, false} {
			search.Patient, q.Patient = patient, patient
			gotBlocks, err1 := NewBlocks(NewScannedBlocks(c.down, local)).Search(t.Context(), view, search)
			gotVectors, err2 := NewVector(matrices, c.down).Search(t.Context(), view, q)
			if errors.Is(c.err, shards.ErrPassed) && !patient {
				if !errors.Is(err1, shards.ErrPassed) || !errors.Is(err2, shards.ErrPassed) {
					t.Errorf("%v: %v, %v", c.err, err1, err2)
				}
				continue
			}
			var said []Degradation
			if c.said != "" {
				said = []Degradation{{Reason: ReasonScanner, Detail: c.said}}
			}
			if err1 != nil || !slices.Equal(gotBlocks.Candidates, wantBlocks.Candidates) || gotBlocks.Scanned != wantBlocks.Scanned || gotBlocks.Order != wantBlocks.Order || !slices.Equal(gotBlocks.Degraded, said) {
				t.Errorf("%+v: blocks %+v, %v", c.down, gotBlocks, err1)
			}
			if err2 != nil || !slices.Equal(gotVectors.Candidates, wantVectors.Candidates) || gotVectors.Scanned != wantVectors.Scanned || !slices.Equal(gotVectors.Degraded, said) {
				t.Errorf("%+v: vectors %+v, %v", c.down, gotVectors, err2)
			}
		}
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	for _, err := range []error{shards.ErrNotBuilt, client.ErrUnavailable} {
		if _, err := NewVector(matrices, down{err: err}).Search(left, view, q); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller who left: %v", err)
		}
	}
}

// DECISIONS 19: without the scanner a scan is bounded, and says when that cut it.
func TestBoundWithoutTheScanner(t *testing.T) {
	s := newShelf(t, 512)
	s.add(t, "long", slices.Repeat([]block{{3, .5}}, 4)...)
	index := NewScannedBlocks(down{err: shards.ErrNotBuilt}, AtMost(NewCodes(NewMatrices(1<<20)), 3))
	for scan, cut := range map[int]bool{0: true, 2: true, 4: false} {
		search := s.search(4)
		search.Limits.Scan = scan
		if got, err := NewBlocks(index).Search(t.Context(), s.view(t), search); err != nil || got.Cut != cut {
			t.Errorf("scan cap %d: %+v, %v", scan, got, err)
		}
	}
}

// openCodes opens the matrices of a store behind a scanner that is this test
// binary.
func openCodes(t testing.TB, store *sqlite.Store, folder string) *shards.Codes {
	t.Helper()
	return openCodesWith(t, store, shards.CodesOptions{Folder: folder})
}

// openCodesWith is openCodes with other options.
func openCodesWith(t testing.TB, store *sqlite.Store, o shards.CodesOptions) *shards.Codes {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sockets, err := os.MkdirTemp("", "rs") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	o.Command, o.Runtime = []string{program}, sockets
	codes, err := shards.OpenCodes(t.Context(), store, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(codes.Close(), os.RemoveAll(sockets)); err != nil {
			t.Error(err)
		}
	})
	return codes
}

// within asks again until the scanner has an answer, which it has once everything
// is built that there is.
type within struct {
	t testing.TB
	*shards.Codes
}

func (w within) until(ask func() error) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		state := w.State(w.t.Context())
		if !errors.Is(ask(), shards.ErrNotBuilt) || state.Built == state.Total && !state.Building {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("not built: %+v", state)
		}
	}
}

func (w within) Blocks(ctx context.Context, view *sqlite.View, q shards.BlockQuery) (a shards.BlockAnswer, err error) {
	w.t.Helper()
	w.until(func() error {
		a, err = w.Codes.Blocks(ctx, view, q)
		return err
	})
	return a, err
}

func (w within) Records(ctx context.Context, view *sqlite.View, q shards.RecordQuery) (a shards.RecordAnswer, err error) {
	w.t.Helper()
	w.until(func() error {
		a, err = w.Codes.Records(ctx, view, q)
		return err
	})
	return a, err
}

// DECISIONS 2, 4, 20: the scanner's scores are those of the vectors in the file, and
// where it has no vectors the records that it names have the whole ranking among
// them, whatever was stored, rewritten, moved, embedded and deleted since its files
// were made: the arm gives what all vectors of the scope give, with the same word on
// whether the depth cut any.
func TestScannedVectorsEqualTheFile(t *testing.T) {
	for _, lean := range []bool{false, true} {
		t.Run(fmt.Sprint("lean ", lean), func(t *testing.T) { scannedVectorsEqualTheFile(t, lean) })
	}
}

func scannedVectorsEqualTheFile(t *testing.T, lean bool) {
	dir := t.TempDir()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		folder := filepath.Join(dir, strconv.Itoa(run))
		if err := os.Mkdir(folder, 0o700); err != nil {
			rt.Fatal(err)
		}
		w := newWorld(rt, folder, rapid.Uint64().Draw(rt, "seed"))
		defer w.store.Close()
		// Nothing is built for a store without a vector.
		first := sqlite.NewMemory{Cell: w.cell(), Content: "the first", Vector: unit(w.random), Model: w.model}
		if _, err := w.store.StoreMemories(context.Background(), []sqlite.NewMemory{first}); err != nil {
			rt.Fatal(err)
		}
		codes := openCodesWith(t, w.store, shards.CodesOptions{Folder: filepath.Join(folder, "codes"), Lean: lean})
		defer codes.Close()
		scanned, local := NewVector(NewMatrices(0), within{t, codes}), NewVector(NewMatrices(0), nil)
		for range rapid.IntRange(1, 5).Draw(rt, "rounds") {
			for range rapid.IntRange(1, 12).Draw(rt, "changes") {
				if err := w.change(); err != nil {
					rt.Fatal(err)
				}
			}
			view, err := w.store.ViewRecords(context.Background())
			if err != nil {
				rt.Fatal(err)
			}
			defer view.Close() // after a failure: a store waits for its views
			for range 3 {
				q := w.query()
				q.Floor = []float64{-1, 0, .4}[w.random.IntN(3)]
				got, err1 := scanned.Search(t.Context(), view, q)
				want, err2 := local.Search(t.Context(), view, q)
				if err1 != nil || err2 != nil || !slices.Equal(got.Candidates, want.Candidates) || got.Truncated != want.Truncated || got.Scanned != want.Scanned || len(got.Degraded) > 0 {
					rt.Fatalf("got %+v, want %+v (%v, %v)", got, want, err1, err2)
				}
			}
			if err := view.Close(); err != nil {
				rt.Fatal(err)
			}
			switch w.random.IntN(4) {
			case 0:
				err = codes.Seal(t.Context())
			case 1:
				_, err = codes.Compact(t.Context(), nil)
			}
			if err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// scored answers for records that no store has.
type scored struct {
	Scanner
	answer shards.RecordAnswer
}

func (s scored) Records(context.Context, *sqlite.View, shards.RecordQuery) (shards.RecordAnswer, error) {
	return s.answer, nil
}

// DECISIONS 2, 20: scores of the scanner decide, and no vector is read for them; the
// floor and the depth are applied to them as to vectors. With scores of some records
// alone the vectors decide.
func TestScannedScoresDecide(t *testing.T) {
	s := newShelf(t, 512)
	s.add(t, "one", block{3, .5}, block{4, .5})
	ref := func(id int64) memory.Ref { return memory.Ref{Kind: memory.KindMemory, ID: id} }
	answer := shards.RecordAnswer{Refs: []memory.Ref{ref(70), ref(40), ref(60)}, Scores: []float32{.75, .5, .5}, Scanned: 9}
	q := Query{Scope: memory.Scope{Agent: "mia"}, Vectors: s.search(200).Vectors, Depth: 2, Floor: -1}
	all := []memory.Candidate{{Ref: ref(70), Key: .75}, {Ref: ref(40), Key: .5}}
	for _, c := range []struct {
		floor     float64
		want      []memory.Candidate
		truncated bool
	}{{-1, all, true}, {.5, all, true}, {.6, all[:1], false}} {
		q.Floor = c.floor
		got, err := NewVector(NewMatrices(0), scored{answer: answer}).Search(t.Context(), s.view(t), q)
		if err != nil || !slices.Equal(got.Candidates, c.want) || got.Truncated != c.truncated || got.Scanned != 9 || len(got.Degraded) > 0 {
			t.Errorf("floor %v: %+v, %v", c.floor, got, err)
		}
	}
	answer.Scores = answer.Scores[:2]
	got, err := NewVector(NewMatrices(0), scored{answer: answer}).Search(t.Context(), s.view(t), q)
	if err != nil || len(got.Degraded) != 1 || got.Degraded[0].Reason != ReasonScanner {
		t.Errorf("%+v, %v", got, err)
	}
}

// lacking has no vector of one of the rows that it finds.
type lacking struct{ Scanner }

func (l lacking) Blocks(ctx context.Context, view *sqlite.View, q shards.BlockQuery) (shards.BlockAnswer, error) {
	a, err := l.Scanner.Blocks(ctx, view, q)
	if len(a.Rows) > 0 {
		a.Rows[0].Dot, a.Rows[0].Norm = 0, 0
	}
	return a, err
}

// BR-046, BR-049, BR-050, DECISIONS 22: the order by vectors is the same from the
// scanner's products and from the vectors in the file, which are read as soon as
// the scanner lacks one.
func TestProductsOrderAsVectorsDo(t *testing.T) {
	s := newShelf(t, 512)
	for i := range 12 {
		s.add(t, strconv.Itoa(i), block{20 * i, 1 - float64(i%5)/10}, block{3, float64(i%7) / 10}, block{40, .4})
	}
	view := s.view(t)
	codes := within{t, openCodes(t, s.store, filepath.Join(t.TempDir(), "codes"))}
	local := NewCodes(NewMatrices(1 << 20))
	for _, rerank := range []int{3, 20, 200} {
		search := s.search(rerank)
		want, err := NewBlocks(local).Search(t.Context(), view, search)
		if err != nil || want.Order != OrderVector {
			t.Fatal(want, err)
		}
		for _, scanner := range []Scanner{codes, lacking{codes}} {
			got, err := NewBlocks(NewScannedBlocks(scanner, local)).Search(t.Context(), view, search)
			if err != nil || got.Order != want.Order || !slices.Equal(got.Candidates, want.Candidates) || len(got.Degraded) > 0 {
				t.Errorf("%T, %d rows: got %+v, want %+v, %v", scanner, rerank, got, want, err)
			}
		}
	}
	var all []memory.Ref
	a, err := codes.Blocks(t.Context(), view, shards.BlockQuery{Model: s.model, Scope: memory.Scope{Agent: "mia"}, Code: make([]byte, 64), Rows: 100})
	for _, h := range a.Rows {
		if h.Norm != 0 {
			t.Errorf("%+v has a norm, and no cosines were asked for", h)
		}
		all = append(all, h.Ref)
	}
	if err != nil || len(all) != 36 {
		t.Errorf("%d rows, %v", len(all), err)
	}
}
