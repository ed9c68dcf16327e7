package arm

import (
	"math"
	"path/filepath"
	"testing"

	"recalld/memory"
	"recalld/sqlite"
)

// turned is a vector in the plane of the first two components, at a cosine to the
// first.
func turned(cosine float64, n int) []float32 {
	v := make([]float32, n)
	v[0], v[1] = float32(cosine), float32(math.Sqrt(1-cosine*cosine))
	return v
}

// shelf is a store whose records have block sets of chosen distances and cosines.
type shelf struct {
	store *sqlite.Store
	model int64
	dims  int
}

func newShelf(t testing.TB, dims int) *shelf {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "recall.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	model, err := store.PutModel(t.Context(), sqlite.Model{Backend: "test", Name: "m", Dims: dims, State: sqlite.ModelActive, Probes: [][]float32{turned(1, dims)}})
	if err != nil {
		t.Fatal(err)
	}
	return &shelf{store, model, dims}
}

// block is one block as a test wants it. The query's code is empty of bits.
type block struct {
	distance int
	cosine   float64
}

func (s *shelf) add(t testing.TB, text string, blocks ...block) memory.Ref {
	t.Helper()
	stored, err := s.store.StoreMemories(t.Context(), []sqlite.NewMemory{{Cell: memory.Cell{Agent: "mia"}, Content: text}})
	if err != nil {
		t.Fatal(err)
	}
	s.fill(t, stored[0].Ref, text, blocks...)
	return stored[0].Ref
}

func (s *shelf) fill(t testing.TB, ref memory.Ref, text string, blocks ...block) {
	t.Helper()
	set := sqlite.BlockSet{Ref: ref, Model: s.model, Revision: memory.Revision(text), Policy: sqlite.BlockPolicy, Dims: s.dims}
	for i, b := range blocks {
		values, _ := memory.Int8(turned(b.cosine, s.dims))
		set.Blocks = append(set.Blocks, sqlite.BlockSpan{Start: i, End: i + 1, Node: i == 0})
		set.Bits = append(set.Bits, far(b.distance, s.dims)...)
		set.Values = append(set.Values, values...)
	}
	if written, err := s.store.PutBlockSets(t.Context(), []sqlite.BlockSet{set}); err != nil || !written[0] {
		t.Fatal(written, err)
	}
}

func (s *shelf) view(t testing.TB) *sqlite.View {
	t.Helper()
	view, err := s.store.ViewRecords(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { view.Close() })
	return view
}
