package layout

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"unsafe"

	"recalld/memory"
)

// What is written is what is read, for every width and kind; the same rows give
// the same file.
//
// DECISIONS 29, BR-024, BR-045
func TestRowsComeBack(t *testing.T) {
	for _, dims := range []int{256, 384, 512, 768, 1024, 1536, 100} {
		for _, s := range []Spec{spec(Signs, dims), {Source: source(dims), Kind: Signs, Lean: true}, spec(Int8, dims), {Source: source(dims), Kind: Int8, Lean: true}} {
			t.Run(fmt.Sprintf("%d_%d_%v", dims, s.Kind, s.Lean), func(t *testing.T) {
				dir, rows := t.TempDir(), sampleRows(uint64(dims), s.Kind, dims, 200)
				name := write(t, dir, s, rows)
				if again := write(t, t.TempDir(), s, rows); again != name {
					t.Error("the same rows give another file")
				}
				checkAgainst(t, open(t, dir, name, s.Source), s, rows)
			})
		}
	}
}

func checkAgainst(t *testing.T, s *Segment, want Spec, rows []Row) {
	t.Helper()
	if err := s.Verify(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	h := s.Header()
	if h.Source != want.Source || h.Kind != want.Kind || h.Lean != want.Lean || h.Sequence != want.Sequence || h.Lineage != want.Lineage || h.Rows != len(rows) {
		t.Errorf("the header is %+v", h)
	}
	if len(s.Codes()) != len(rows)*s.RowBytes() || uintptr(unsafe.Pointer(unsafe.SliceData(s.Codes())))%64 != 0 {
		t.Errorf("codes are %d bytes at %p", len(s.Codes()), s.Codes())
	}
	table, err := s.Rows()
	if err != nil {
		t.Fatal(err)
	}
	var absents []uint32
	for i, r := range rows {
		ref, block := table.At(i)
		at, err := s.Pointer(i)
		if err != nil || ref != r.Ref || block != r.Block {
			t.Fatalf("row %d is block %d of %v, %v", i, block, ref, err)
		}
		if want.Lean && at != NoPointer() || !want.Lean && at != r.Value {
			t.Fatalf("row %d has values at %v, not %v", i, at, r.Value)
		}
		code := s.Codes()[i*s.RowBytes():][:s.RowBytes()]
		if !bytes.Equal(code[:len(r.Code)], r.Code) || !zero(code[len(r.Code):]) {
			t.Fatalf("row %d has another code", i)
		}
		if want.Kind == Int8 && (s.Scales()[i] != r.Scale || s.Bounds()[i] != r.Bound) {
			t.Fatalf("row %d has another scale or bound", i)
		}
		if r.Code == nil {
			absents = append(absents, uint32(i))
		}
		first, end := table.Run(i)
		for _, other := range []struct {
			row  int
			same bool
		}{{first - 1, false}, {first, true}, {end - 1, true}, {end, false}} {
			if other.row >= 0 && other.row < len(rows) && other.same != (rows[other.row].Ref == r.Ref && rows[other.row].Cell == r.Cell) {
				t.Fatalf("the record of row %d has rows %d to %d", i, first, end)
			}
		}
	}
	if none, err := s.Absent(); err != nil || fmt.Sprint(none) != fmt.Sprint(absents) {
		t.Errorf("absent rows are %v, %v", none, err)
	}
}

// A file's name is the SHA-256 of its header, which has that of the rest; it is
// read-only, and nothing else is left.
//
// DECISIONS 30
func TestContentAddress(t *testing.T) {
	dir := t.TempDir()
	names := []string{write(t, dir, spec(Signs, 256), sampleRows(1, Signs, 256, 30)), writeValues(t, dir, 256, 4, sampleValues(1, 256, 30))}
	for _, name := range names {
		b := read(t, dir, name)
		sum := sha256.Sum256(b[:4096])
		if want := hex.EncodeToString(sum[:]) + filepath.Ext(name); name != want {
			t.Errorf("%s should be %s", name, want)
		}
		rest := sha256.Sum256(b[4096:])
		if !bytes.Equal(b[384:416], rest[:]) {
			t.Errorf("%s has another sum of its rows", name)
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o400 {
			t.Errorf("%s has mode %v, %v", name, info.Mode(), err)
		}
	}
	if got := left(t, dir); len(got) != 2 {
		t.Errorf("the folder has %v", got)
	}
}

// DECISIONS 2
func TestPrecedesIsTheOrderOfRows(t *testing.T) {
	dir, rows := t.TempDir(), sampleRows(3, Signs, 256, 60)
	s := open(t, dir, write(t, dir, spec(Signs, 256), rows), source(256))
	table, err := s.Rows()
	if err != nil {
		t.Fatal(err)
	}
	for a, x := range rows {
		for b, y := range rows {
			want := memory.CompareRows(memory.Candidate{Ref: x.Ref, Block: int32(x.Block)}, memory.Candidate{Ref: y.Ref, Block: int32(y.Block)}) < 0
			if table.Precedes(uint32(a), uint32(b)) != want {
				t.Fatalf("row %d precedes row %d: %v", a, b, !want)
			}
		}
	}
}

// A record is found in its cell and in no other.
func TestFind(t *testing.T) {
	dir, rows := t.TempDir(), sampleRows(4, Signs, 256, 90)
	s := open(t, dir, write(t, dir, spec(Signs, 256), rows), source(256))
	table, err := s.Rows()
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Header().Cells {
		cell, in, err := s.Cell(i)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := s.CellRows(cell); err != nil || same != in {
			t.Fatalf("cell %d has rows %v and %v, %v", i, in, same, err)
		}
		for id := range int64(47) {
			for _, kind := range []memory.Kind{memory.KindEpisode, memory.KindMemory} {
				var want Range
				for row, r := range rows {
					if r.Cell == cell && r.Ref == (memory.Ref{Kind: kind, ID: id}) {
						if want.To == 0 {
							want.From = row
						}
						want.To = row + 1
					}
				}
				if got, found := table.Find(in, memory.Ref{Kind: kind, ID: id}); got != want || found != (want.To > 0) {
					t.Fatalf("%v:%d is at %v, not %v", kind, id, got, want)
				}
			}
		}
	}
	if got, found := table.Find(Range{}, rows[0].Ref); found {
		t.Errorf("found at %v of no rows", got)
	}
	for _, cell := range []Cell{{}, {^uint64(0), 0, 0}, {rows[0].Cell.Agent, 1, 1}} {
		if got, err := s.CellRows(cell); err != nil || got != (Range{}) {
			t.Errorf("a cell that is not there has rows %v, %v", got, err)
		}
	}
}

// A record's first row may be any block.
func TestBlocksMayBeginAnywhere(t *testing.T) {
	dir := t.TempDir()
	var rows []Row
	for _, r := range []struct{ id, block int }{{1, 3}, {1, 4}, {2, 0}, {3, 1_000_000}, {3, 1_000_001}} {
		rows = append(rows, Row{Ref: memory.Ref{Kind: memory.KindEpisode, ID: int64(r.id)}, Block: r.block, Code: make([]byte, 8)})
	}
	s := spec(Signs, 64)
	checkAgainst(t, open(t, dir, write(t, dir, s, rows), s.Source), s, rows)
}

// A segment without rows is one.
func TestEmptyFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, write(t, dir, spec(Signs, 256), nil), source(256))
	if err := errors.Join(s.Touch(Range{}), s.Verify(t.Context(), nil)); err != nil {
		t.Error(err)
	}
	if got, err := s.Ranges(Scope{Agent: 1}); len(got) > 0 || err != nil {
		t.Errorf("ranges are %v, %v", got, err)
	}
	v := openValues(t, dir, writeValues(t, dir, 256, 1, nil), source(256))
	if err := v.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if _, _, err := v.Row(0); !errors.Is(err, ErrDamaged) {
		t.Errorf("a slot that is not there gives %v", err)
	}
}

// Rows and cells outside the file are refused.
func TestRowsOutside(t *testing.T) {
	dir := t.TempDir()
	rows := sampleRows(5, Signs, 256, 10)
	s := open(t, dir, write(t, dir, spec(Signs, 256), rows), source(256))
	n := len(rows)
	for _, r := range []Range{{-1, 1}, {2, 1}, {0, n + 1}, {n + 1, n + 1}} {
		if err := s.Touch(r); err == nil {
			t.Errorf("rows %v are touched", r)
		}
	}
	for _, row := range []int{-1, n} {
		if _, err := s.Pointer(row); err == nil {
			t.Errorf("row %d has a pointer", row)
		}
	}
	for _, i := range []int{-1, s.Header().Cells} {
		if _, _, err := s.Cell(i); err == nil {
			t.Errorf("there is a cell %d", i)
		}
	}
}

// Any number of goroutines may read and verify.
func TestConcurrentReaders(t *testing.T) {
	dir, rows := t.TempDir(), sampleRows(6, Signs, 256, 400)
	s := open(t, dir, write(t, dir, spec(Signs, 256), rows), source(256))
	want, err := dump(open(t, dir, s.Name(), source(256)))
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if got, err := dump(s); err != nil || got != want {
				t.Errorf("another answer, %v", err)
			}
		})
	}
	wait.Wait()
}
