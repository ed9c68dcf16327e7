package layout

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"recalld/memory"
)

const truthID = "5f0c2a9f3c1e4b7d8a6b9c0d1e2f3a4b"

func source(dims int) Source {
	return Source{TruthID: truthID, Model: 7, Identity: [32]byte{1, 2, 3}, Dims: dims}
}

// names of agents, projects and channels, in three languages.
var (
	agents   = []string{"mia", "美咲", "王芳"}
	projects = []string{"", "atlas", "移行計画", "数据库"}
	channels = []string{"", "standup", "障害対応"}
)

// sampleRows returns rows of all sample cells in order, codes that are random and
// some that are absent. Each record is in one cell.
func sampleRows(seed uint64, kind Kind, dims, records int) []Row {
	rng := rand.New(rand.NewPCG(seed, 1))
	var rows []Row
	for id := range records {
		row := Row{
			Cell: CellOf(truthID, memory.Cell{Agent: pick(rng, agents), Project: pick(rng, projects), Channel: pick(rng, channels)}),
			Ref:  memory.Ref{Kind: memory.KindMemory, ID: int64(id/2 + 1)},
		}
		if id%2 == 0 {
			row.Ref.Kind = memory.KindEpisode
		}
		for row.Block = range 1 + rng.IntN(5) {
			rows = append(rows, fill(rng, row, kind, dims))
			if kind == Int8 {
				break
			}
		}
	}
	slices.SortStableFunc(rows, compareRows)
	return rows
}

func fill(rng *rand.Rand, row Row, kind Kind, dims int) Row {
	vector := make([]float32, dims)
	for i := range vector {
		vector[i] = rng.Float32() - .5
	}
	if kind == Int8 {
		row.Code, _ = memory.Int8(vector)
		row.Scale, row.Bound = rng.Float32()/100, rng.Float32()/1000
		row.Value = Pointer{uint32(rng.IntN(3)), rng.Uint32()}
		if rng.IntN(8) == 0 {
			row.Value = NoPointer()
		}
		return row
	}
	row.Code, row.Value = memory.Signs(vector), Pointer{uint32(rng.IntN(3)), rng.Uint32()}
	if rng.IntN(8) == 0 {
		row.Code, row.Value = nil, NoPointer()
	}
	return row
}

func compareRows(a, b Row) int {
	if c := a.Cell.Compare(b.Cell); c != 0 {
		return c
	}
	if c := memory.CompareRefs(a.Ref, b.Ref); c != 0 {
		return c
	}
	return a.Block - b.Block
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// spec of a sample segment.
func spec(kind Kind, dims int) Spec {
	return Spec{Source: source(dims), Kind: kind, Sequence: 91, Lineage: -4_611_686_018_427_387_905}
}

// write makes a segment of a folder and returns its name.
func write(t testing.TB, dir string, s Spec, rows []Row) string {
	t.Helper()
	w, err := Create(dir, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := w.Add(r); err != nil {
			t.Fatal(err, errors.Join(w.Abandon()))
		}
	}
	name, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// open opens a segment that is closed when the test ends.
func open(t testing.TB, dir, name string, of Source) *Segment {
	t.Helper()
	s, err := OpenSegment(dir, name, of)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// sampleValues returns int8 rows, every seventh nil: to be skipped.
func sampleValues(seed uint64, dims, n int) [][]byte {
	rng := rand.New(rand.NewPCG(seed, 2))
	all := make([][]byte, n)
	for i := range all {
		if i%7 == 3 {
			continue
		}
		all[i] = fill(rng, Row{}, Int8, dims).Code
	}
	return all
}

// sampleFloats returns rows of float32, one of them zero, every seventh nil.
func sampleFloats(seed uint64, dims, n int) [][]byte {
	rng := rand.New(rand.NewPCG(seed, 3))
	all := make([][]byte, n)
	for i := range all {
		if i%7 == 3 {
			continue
		}
		vector := make([]float32, dims)
		for j := range vector {
			if i > 0 {
				vector[j] = rng.Float32() - .5
			}
		}
		all[i] = FloatBytes(nil, vector)
	}
	return all
}

func writeValues(t testing.TB, dir string, dims int, number uint32, rows [][]byte) string {
	t.Helper()
	return writeRows(t, dir, ValuesSpec{Source: source(dims), Number: number}, rows)
}

func writeFloats(t testing.TB, dir string, dims int, number uint32, rows [][]byte) string {
	t.Helper()
	return writeRows(t, dir, ValuesSpec{Source: source(dims), Number: number, Floats: true}, rows)
}

func writeRows(t testing.TB, dir string, spec ValuesSpec, rows [][]byte) string {
	t.Helper()
	w, err := CreateValues(dir, spec)
	if err != nil {
		t.Fatal(err)
	}
	for slot, row := range rows {
		if row == nil {
			err = w.Skip()
		} else {
			var at Pointer
			if at, err = w.Add(row); at != (Pointer{spec.Number, uint32(slot)}) {
				t.Fatalf("row %d is at %v", slot, at)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	name, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func openValues(t testing.TB, dir, name string, of Source) *Values {
	t.Helper()
	v, err := OpenValues(dir, name, of)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

// dump reads everything that a segment holds, as a scan would, into text. It stops
// at the first error.
func dump(s *Segment) (text string, err error) {
	var b strings.Builder
	h := s.Header()
	fmt.Fprintf(&b, "kind %d, dims %d, model %d, store %s, lean %v, change %d/%d\n", h.Kind, h.Dims, h.Model, h.TruthID, h.Lean, h.Sequence, h.Lineage)
	err = Guard(func() error {
		if err := s.Intact(); err != nil {
			return err
		}
		rows, err := s.Rows()
		if err != nil {
			return err
		}
		none, err := s.Absent()
		if err != nil {
			return err
		}
		for i := range h.Cells {
			cell, r, err := s.Cell(i)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "cell %016x %016x %016x\n", cell.Agent, cell.Project, cell.Channel)
			if err := s.Touch(r); err != nil {
				return err
			}
			for row := r.From; row < r.To; row++ {
				if err := dumpRow(&b, s, rows, none, row); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return b.String(), err
}

func dumpRow(b *strings.Builder, s *Segment, rows Rows, none []uint32, row int) error {
	ref, block := rows.At(row)
	at, err := s.Pointer(row)
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "%v block %d", ref, block)
	if _, absent := slices.BinarySearch(none, uint32(row)); absent {
		b.WriteString(" absent")
	}
	if at != NoPointer() {
		fmt.Fprintf(b, " at %d/%d", at.File, at.Slot)
	}
	fmt.Fprintf(b, " %x", s.Codes()[row*s.RowBytes():][:s.RowBytes()])
	if s.Header().Kind == Int8 {
		fmt.Fprintf(b, " %v %v", s.Scales()[row], s.Bounds()[row])
	}
	b.WriteByte('\n')
	return nil
}

// dumpValues reads every slot into text.
func dumpValues(v *Values) (text string, err error) {
	var b strings.Builder
	h := v.Header()
	fmt.Fprintf(&b, "values %d, dims %d, model %d, store %s\n", h.Number, h.Dims, h.Model, h.TruthID)
	err = Guard(func() error {
		if err := v.Intact(); err != nil {
			return err
		}
		for slot := range uint32(h.Slots) {
			row, norm, err := v.Row(slot)
			switch {
			case errors.Is(err, ErrErased):
				b.WriteString("erased\n")
			case err != nil:
				return err
			default:
				fmt.Fprintf(&b, "%d %x\n", norm, row)
			}
		}
		return nil
	})
	return b.String(), err
}

func read(t testing.TB, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// replace puts other bytes in the place of a file.
func replace(t testing.TB, dir, name string, b []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o400); err != nil {
		t.Fatal(err)
	}
}

// left returns the names of a folder.
func left(t testing.TB, dir string) (names []string) {
	t.Helper()
	items, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range items {
		names = append(names, item.Name())
	}
	return names
}

func equalLines(t testing.TB, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("line %d is\n%s\nnot\n%s", i+1, g[i], w[i])
		}
	}
	t.Fatalf("%d lines, not %d", len(g), len(w))
}

func zero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
