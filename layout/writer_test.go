package layout

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"recalld/memory"
)

// A row that does not follow the one before is refused, and changes nothing.
//
// DECISIONS 29
func TestRowsOutOfOrder(t *testing.T) {
	dir := t.TempDir()
	code := make([]byte, 8)
	ep := func(id int64) memory.Ref { return memory.Ref{Kind: memory.KindEpisode, ID: id} }
	mem := func(id int64) memory.Ref { return memory.Ref{Kind: memory.KindMemory, ID: id} }
	last := Row{Cell: Cell{5, 5, 5}, Ref: mem(5), Block: 5, Code: code}
	for _, c := range []struct {
		next Row
		ok   bool
	}{
		{Row{Cell: Cell{4, 9, 9}, Ref: mem(9)}, false},
		{Row{Cell: Cell{5, 4, 9}, Ref: mem(9)}, false},
		{Row{Cell: Cell{5, 5, 4}, Ref: mem(9)}, false},
		{Row{Cell: Cell{5, 5, 5}, Ref: ep(9)}, false},
		{Row{Cell: Cell{5, 5, 5}, Ref: mem(4)}, false},
		{Row{Cell: Cell{5, 5, 5}, Ref: mem(5), Block: 4}, false},
		{Row{Cell: Cell{5, 5, 5}, Ref: mem(5), Block: 5}, false},
		{Row{Cell: Cell{5, 5, 5}, Ref: mem(5), Block: 7}, false},
		{Row{Cell: Cell{5, 5, 5}, Ref: mem(5), Block: 6}, true},
		{Row{Cell: Cell{5, 5, 5}, Ref: mem(6)}, true},
		{Row{Cell: Cell{5, 5, 6}, Ref: ep(1)}, true},
		{Row{Cell: Cell{5, 6, 0}, Ref: ep(1), Block: 3}, true},
		{Row{Cell: Cell{6, 0, 0}, Ref: ep(1)}, true},
		{Row{Cell: Cell{6, 0, 0}, Ref: ep(0)}, false},
		{Row{Cell: Cell{6, 0, 0}, Ref: memory.Ref{Kind: 3, ID: 1}}, false},
		{Row{Cell: Cell{6, 0, 0}, Ref: ep(1), Block: -1}, false},
	} {
		w, err := Create(dir, spec(Signs, 64))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Add(last); err != nil {
			t.Fatal(err)
		}
		c.next.Code = code
		err = w.Add(c.next)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, memory.ErrInvalid) || w.Rows() > 1 != c.ok {
			t.Errorf("%v after %v: %v", c.next, last, err)
		}
		name, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if err := open(t, dir, name, source(64)).Verify(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
}

func TestCodesThatDoNotFit(t *testing.T) {
	dir := t.TempDir()
	ref := memory.Ref{Kind: memory.KindMemory, ID: 1}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		kind Kind
		row  Row
	}{
		{Signs, Row{Code: make([]byte, 12)}}, {Signs, Row{Code: make([]byte, 14)}}, {Signs, Row{Code: []byte{}}},
		{Int8, Row{Code: make([]byte, 99)}}, {Int8, Row{Code: make([]byte, 101)}}, {Int8, Row{}},
		{Int8, Row{Code: make([]byte, 100), Scale: -1}}, {Int8, Row{Code: make([]byte, 100), Bound: nan}},
		{Int8, Row{Code: make([]byte, 100), Scale: inf}}, {Int8, Row{Code: make([]byte, 100), Bound: inf}},
	} {
		w, err := Create(dir, spec(c.kind, 100))
		if err != nil {
			t.Fatal(err)
		}
		c.row.Ref = ref
		if err := w.Add(c.row); !errors.Is(err, memory.ErrInvalid) || w.Rows() != 0 {
			t.Errorf("%+v: %v", c, err)
		}
		if err := w.Abandon(); err != nil {
			t.Error(err)
		}
	}
	if names := left(t, dir); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}

func TestSpecsThatAreNone(t *testing.T) {
	dir := t.TempDir()
	for _, s := range []Spec{
		{Source: source(64)}, {Source: source(64), Kind: 3},
		{Source: source(0), Kind: Signs}, {Source: source(MaxDims + 1), Kind: Signs},
		{Source: Source{Dims: 64}, Kind: Signs}, {Source: Source{Dims: 64, TruthID: strings.Repeat("真", 22)}, Kind: Signs},
	} {
		if _, err := Create(dir, s); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if _, err := CreateValues(dir, ValuesSpec{Source: source(0)}); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("values without dims: %v", err)
	}
	if names := left(t, dir); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}

// A segment ends at 256 MiB of codes, and where a record does.
//
// DECISIONS 29
func TestFits(t *testing.T) {
	const most = MaxCodes / 2048 // rows of 16,384 bits
	w, err := Create(t.TempDir(), spec(Signs, MaxDims))
	if err != nil {
		t.Fatal(err)
	}
	if !w.Fits(2 * most) {
		t.Error("a large record does not fit alone")
	}
	code := make([]byte, 2048)
	add := func(id, block int) error {
		return w.Add(Row{Ref: memory.Ref{Kind: memory.KindMemory, ID: int64(id)}, Block: block, Code: code})
	}
	if err := add(1, 0); err != nil {
		t.Fatal(err)
	}
	w.header.Rows = most - 1 // as if so many had been written
	if !w.Fits(1) || w.Fits(2) {
		t.Error("the last row does not fit, or more than that")
	}
	w.header.Rows = most
	if err := add(2, 0); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("another record: %v", err)
	}
	if err := add(1, 1); err != nil {
		t.Errorf("the same record: %v", err)
	}
	if err := w.Abandon(); err != nil {
		t.Error(err)
	}
}

// Sections that do not stay in memory are the same.
func TestSpilledSections(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir, spec(Signs, 64))
	if err != nil {
		t.Fatal(err)
	}
	const n = 150_000 // 1.2 MB of pointers, 2.4 MB of records, 4.8 MB of cells
	for i := range n {
		if err := w.Add(Row{Cell: Cell{Agent: uint64(i) * 3}, Ref: memory.Ref{Kind: memory.KindMemory, ID: int64(n - i)}, Code: make([]byte, 8), Value: Pointer{1, uint32(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(left(t, dir)); got != 4 {
		t.Errorf("%d files while writing, not the segment and three sections", got)
	}
	name, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if names := left(t, dir); !slices.Equal(names, []string{name}) {
		t.Errorf("left behind: %v", names)
	}
	s := open(t, dir, name, source(64))
	if err := s.Verify(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 1, 32_767, 32_768, n - 1} {
		r, err := s.Ranges(Scope{Agent: uint64(i) * 3})
		if err != nil || !slices.Equal(r, []Range{{i, i + 1}}) {
			t.Errorf("agent %d has rows %v, %v", i, r, err)
		}
		if at, err := s.Pointer(i); err != nil || at.Slot != uint32(i) {
			t.Errorf("row %d has values at %v, %v", i, at, err)
		}
	}
}

// After a failure there is no file, and the error is not forgotten.
func TestFailedWrites(t *testing.T) {
	begin := func() (string, *Writer, *ValuesWriter) {
		dir := t.TempDir()
		w, err := Create(dir, spec(Signs, 64))
		v, err2 := CreateValues(dir, ValuesSpec{Source: source(64)})
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		return dir, w, v
	}
	row := Row{Ref: memory.Ref{Kind: memory.KindMemory, ID: 1}, Code: make([]byte, 8)}

	// The disk refuses the bytes.
	dir, w, v := begin()
	if err := errors.Join(w.body.file.Close(), v.body.file.Close(), w.Add(row)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the segment ends with %v", err)
	}
	if _, err := v.Finish(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the values end with %v", err)
	}
	if names := left(t, dir); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}

	// The folder is gone.
	dir, w, v = begin()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(); err == nil {
		t.Error("a segment is finished in no folder")
	}
	if _, err := v.Finish(); err == nil {
		t.Error("values are finished in no folder")
	}

	// An earlier failure.
	_, w, _ = begin()
	w.err = os.ErrDeadlineExceeded
	if err := w.Add(row); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a row is added: %v", err)
	}
	if _, err := w.Finish(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the segment ends with %v", err)
	}
}

// A scrub sees rows that are not in order, though their checksums are right.
func TestVerifySeesOrder(t *testing.T) {
	row := func(agent uint64, id int64) Row {
		return Row{Cell: Cell{Agent: agent}, Ref: memory.Ref{Kind: memory.KindMemory, ID: id}, Code: make([]byte, 8)}
	}
	for what, rows := range map[string][]Row{
		"cells":            {row(2, 1), row(1, 2)},
		"a cell twice":     {row(1, 1), row(2, 2), row(1, 3)},
		"records":          {row(1, 2), row(1, 1)},
		"a record twice":   {row(1, 1), row(1, 2), row(1, 1)},
		"an absurd record": {row(1, 0)},
	} {
		dir := t.TempDir()
		w, err := Create(dir, spec(Signs, 64))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			w.addUnchecked(r, w.last.Cell != r.Cell || w.header.Rows == 0, true)
		}
		name, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if err := open(t, dir, name, source(64)).Verify(t.Context(), nil); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A scrub can be ended, and says how far it is.
func TestVerifyReports(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, write(t, dir, spec(Signs, 1024), sampleRows(1, Signs, 1024, 300)), source(1024))
	v := openValues(t, dir, writeValues(t, dir, 256, 1, sampleValues(1, 256, 3000)), source(256))
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		verify func(context.Context, func(int64)) error
		bytes  int
	}{{s.Verify, len(s.Mapped())}, {v.Verify, len(v.Mapped())}} {
		var seen []int64
		if err := c.verify(t.Context(), func(done int64) { seen = append(seen, done) }); err != nil {
			t.Error(err)
		}
		if !slices.IsSorted(seen) || len(seen) < 3 || seen[len(seen)-1] != int64(c.bytes) {
			t.Errorf("progress of %d bytes is %v", c.bytes, seen)
		}
		if err := c.verify(ended, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("an ended scrub says %v", err)
		}
	}
}
