package shards

import (
	"context"
	"fmt"
	"testing"
	"time"

	"recalld/memory"
	"recalld/sqlite"
)

// benchWorld is a store of so many records of twenty blocks each.
func benchWorld(b *testing.B, records, dims int) *codesWorld {
	b.Helper()
	w := newCodesWorld(b, dims, CodesOptions{})
	w.closeCodes()
	w.small = false
	w.open()
	ctx := context.Background()
	const blocks = 20
	for first := 0; first < records; first += 500 {
		n := min(500, records-first)
		items := make([]sqlite.NewMemory, n)
		for i := range items {
			items[i] = sqlite.NewMemory{Cell: memory.Cell{Agent: fmt.Sprint("agent", (first+i)%7)}, Content: fmt.Sprintf("record %d of those that are read, long enough to be cut into its blocks", first+i), Vector: w.vector(first + i), Model: w.model}
		}
		stored, err := w.store.StoreMemories(ctx, items)
		if err != nil {
			b.Fatal(err)
		}
		sets := make([]sqlite.BlockSet, n)
		for i := range sets {
			text := items[i].Content
			sets[i] = sqlite.BlockSet{Ref: stored[i].Ref, Model: w.model, Revision: memory.Revision(text), Policy: sqlite.BlockPolicy, Dims: dims}
			for k := range blocks {
				sets[i].Blocks = append(sets[i].Blocks, sqlite.BlockSpan{Start: k * memory.Len(text) / blocks, End: (k + 1) * memory.Len(text) / blocks})
				v := w.vector((first+i)*blocks + k)
				values, _ := memory.Int8(v)
				sets[i].Bits, sets[i].Values = append(sets[i].Bits, memory.Signs(v)...), append(sets[i].Values, values...)
			}
		}
		if _, err := w.store.PutBlockSets(ctx, sets); err != nil {
			b.Fatal(err)
		}
	}
	return w
}

// BenchmarkCodesBuild reports how long a build takes, for the time of reading the
// same columns through the same driver in the same order.
func BenchmarkCodesBuild(b *testing.B) {
	w := benchWorld(b, 10_000, 512)
	var reading, building time.Duration
	for b.Loop() {
		start := time.Now()
		view := w.view()
		var cells []sqlite.CellName
		if err := view.CellNames(0, 100, func(c sqlite.CellName) error { cells = append(cells, c); return nil }); err != nil {
			b.Fatal(err)
		}
		for _, cell := range cells {
			var after memory.Ref
			for n := 1; n > 0; {
				n = 0
				err := view.CodedSets(w.model, cell.ID, after, setsPerPage, true, func(s sqlite.CodedSet) error { n, after = n+1, s.Ref; return nil })
				if err != nil {
					b.Fatal(err)
				}
			}
			if err := view.Vectors(w.model, []int64{cell.ID}, func(memory.Ref, int64, []float32) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
		view.Close()
		reading += time.Since(start)
		start = time.Now()
		if err := w.codes.Rebuild(b.Context(), nil); err != nil {
			b.Fatal(err)
		}
		if begun, err := w.codes.load(b.Context()); err != nil || !begun {
			b.Fatal(err)
		}
		building += time.Since(start)
	}
	s := w.codes.State(b.Context())
	b.ReportMetric(building.Seconds()/reading.Seconds(), "x-read")
	b.ReportMetric(float64(s.Bytes)/(1<<20), "MB-files")
	b.ReportMetric(float64(s.Bytes)*float64(b.N)/(1<<20)/building.Seconds(), "MB/s")
}

// BenchmarkCodesNextCall reports how much longer a question takes when a record was
// stored before it.
func BenchmarkCodesNextCall(b *testing.B) {
	w := benchWorld(b, 2_000, 512)
	w.tidy()
	if err := w.codes.revive(b.Context()); err != nil {
		b.Fatal(err)
	}
	scope := memory.Scope{Agent: "agent3"}
	ask := func() (took time.Duration) {
		view := w.view()
		defer view.Close()
		start := time.Now()
		if _, err := w.codes.Blocks(b.Context(), view, w.blockQuery(scope, 3)); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	var quiet, after time.Duration
	for b.Loop() {
		quiet += ask()
		w.fill(cellOf("agent3"), 1)
		after += ask()
	}
	b.ReportMetric(quiet.Seconds()*1000/float64(b.N), "ms-quiet")
	b.ReportMetric(after.Seconds()*1000/float64(b.N), "ms-after-a-store")
}

// BenchmarkCodesErase reports what a deletion costs beside files of full size.
func BenchmarkCodesErase(b *testing.B) {
	w := benchWorld(b, 10_000, 512)
	w.tidy()
	var refs []memory.Ref
	view := w.view()
	err := view.Vectors(w.model, []int64{1, 2, 3}, func(ref memory.Ref, _ int64, _ []float32) error { refs = append(refs, ref); return nil })
	if err != nil {
		b.Fatal(err)
	}
	view.Close()
	for n := 0; b.Loop(); n++ {
		if _, err := w.store.Delete(b.Context(), "agent0", refs[n*7:n*7+1]); err != nil {
			b.Fatal(err)
		}
		if err := w.codes.Erase(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
