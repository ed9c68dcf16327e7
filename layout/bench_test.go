package layout

import (
	"runtime"
	"testing"

	"recalld/memory"
)

// manyCells writes a segment with one row in each of n cells.
func manyCells(t testing.TB, dir string, n int) string {
	t.Helper()
	w, err := Create(dir, spec(Signs, 64))
	if err != nil {
		t.Fatal(err)
	}
	code := make([]byte, 8)
	for i := range n {
		if err := w.Add(Row{Cell: Cell{Agent: uint64(i) << 20}, Ref: memory.Ref{Kind: memory.KindMemory, ID: int64(i + 1)}, Code: code}); err != nil {
			t.Fatal(err)
		}
	}
	name, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// Opening a segment and finding an agent allocates the same with one cell as with
// many, but for a checksum and a bit for each MiB.
//
// DECISIONS 29
func TestNothingIsKeptForACell(t *testing.T) {
	dir := t.TempDir()
	allocations := func(cells int) (objects float64, kept uint64) {
		name := manyCells(t, dir, cells)
		var before, after runtime.MemStats
		objects = testing.AllocsPerRun(20, func() { openAndFind(t, dir, name, uint64(cells/2)<<20) })
		runtime.ReadMemStats(&before)
		openAndFind(t, dir, name, uint64(cells/2)<<20)
		runtime.ReadMemStats(&after)
		return objects, after.TotalAlloc - before.TotalAlloc
	}
	few, _ := allocations(2)
	many, kept := allocations(100_000)
	// The rest is what a file of any size costs, such as its path.
	if many > few || kept > 16<<10 {
		t.Errorf("%v objects with 2 cells, %v with 100,000 (%d bytes)", few, many, kept)
	}
}

func openAndFind(t testing.TB, dir, name string, agent uint64) {
	s, err := OpenSegment(dir, name, source(64))
	if err != nil {
		t.Fatal(err)
	}
	ranges, err := s.Ranges(Scope{Agent: agent})
	if err != nil || len(ranges) != 1 || ranges[0].Len() != 1 {
		t.Fatal(ranges, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// Opening a segment of 1,000,000 cells and finding an agent in it, against one
// checksum over its directory.
func BenchmarkMillionCells(b *testing.B) {
	dir := b.TempDir()
	const n = 1_000_000
	name := manyCells(b, dir, n)
	s := open(b, dir, name, source(64))
	b.Run("open_and_find", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			openAndFind(b, dir, name, uint64(i*7919%n)<<20)
		}
	})
	b.Run("find", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			if r, err := s.Ranges(Scope{Agent: uint64(i*7919%n) << 20}); err != nil || len(r) != 1 {
				b.Fatal(r, err)
			}
		}
	})
	b.Run("read_directory", func(b *testing.B) {
		b.SetBytes(n * cellBytes)
		for range b.N {
			checksum(s.chunks.section(cells))
		}
	})
}

// Writing and scrubbing a segment, against one SHA-256 and one checksum over as
// many bytes.
func BenchmarkSegment(b *testing.B) {
	const rows, width = 200_000, 128
	dir := b.TempDir()
	code := make([]byte, width)
	build := func(b *testing.B) string {
		w, err := Create(dir, spec(Signs, 8*width))
		if err != nil {
			b.Fatal(err)
		}
		for i := range rows {
			code[i%width]++
			if err := w.Add(Row{Cell: Cell{Agent: uint64(i / 5000)}, Ref: memory.Ref{Kind: memory.KindMemory, ID: int64(i/20 + 1)}, Block: i % 20, Code: code, Value: Pointer{1, uint32(i)}}); err != nil {
				b.Fatal(err)
			}
		}
		name, err := w.Finish()
		if err != nil {
			b.Fatal(err)
		}
		return name
	}
	s := open(b, dir, build(b), source(8*width))
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"write", func() error { build(b); return nil }},
		{"verify", func() error { return s.Verify(b.Context(), nil) }},
		{"sum_and_checksum", func() error {
			checksum(s.Mapped())
			_, err := sumMatches(b.Context(), s.Mapped(), nil)
			return err
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(s.Mapped())))
			b.ReportAllocs()
			for range b.N {
				if err := c.do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
