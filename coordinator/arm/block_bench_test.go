package arm

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"recalld/memory"
	"recalld/sqlite"
)

// BenchmarkBlockSearch is the whole arm over 100,000 blocks of 5,000 records at
// 256 dimensions; "scan" is the comparison of codes alone.
func BenchmarkBlockSearch(b *testing.B) {
	const records, each, width = 5_000, 20, 256
	s := newShelf(b, width)
	r := rand.New(rand.NewPCG(1, 1))
	vector := func() []float32 {
		v := make([]float32, width)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		return v
	}
	for i := range records {
		text := "record " + strconv.Itoa(i) + " of the benchmark"
		stored, err := s.store.StoreMemories(b.Context(), []sqlite.NewMemory{{Cell: memory.Cell{Agent: "mia"}, Content: text}})
		if err != nil {
			b.Fatal(err)
		}
		set := sqlite.BlockSet{Ref: stored[0].Ref, Model: s.model, Revision: memory.Revision(text), Policy: sqlite.BlockPolicy, Dims: width}
		for j := range each {
			v := vector()
			values, _ := memory.Int8(v)
			set.Blocks = append(set.Blocks, sqlite.BlockSpan{Start: j, End: j + 1})
			set.Bits, set.Values = append(set.Bits, memory.Signs(v)...), append(set.Values, values...)
		}
		if _, err := s.store.PutBlockSets(b.Context(), []sqlite.BlockSet{set}); err != nil {
			b.Fatal(err)
		}
	}
	view := s.view(b)
	matrices := NewMatrices(64 << 20)
	search := BlockSearch{Scope: memory.Scope{Agent: "mia"}, Limits: BlockLimits{PerParent: 64, Scan: 250_000, Rerank: 200}}
	b.Run("arm", func(b *testing.B) {
		arm := NewBlocks(NewCodes(matrices))
		for b.Loop() {
			search.Vectors = []ModelVector{{Model: s.model, Vector: vector()}}
			if got, err := arm.Search(b.Context(), view, search); err != nil || got.Scanned != records*each {
				b.Fatal(got.Scanned, err)
			}
		}
	})
	b.Run("scan", func(b *testing.B) {
		cells, err := view.Cells(search.Scope)
		if err != nil {
			b.Fatal(err)
		}
		q := BlockQuery{Model: s.model, Dims: width, Code: memory.Signs(vector()), Rows: 200, Parents: 200, PerParent: 64, Most: 250_000}
		part, err := matrices.codes(view, cells[0].ID, q)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			scan([]codes{part}, q)
		}
	})
}
