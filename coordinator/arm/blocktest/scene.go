package blocktest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"recalld/memory"
	"recalld/sqlite"
)

// Dims is the width of the scene's codes: neither whole words nor whole bytes.
const Dims = 77

// Scene is a store with block sets of two models, several agents and cells.
type Scene struct {
	Store  *sqlite.Store
	Models [2]int64
	Refs   []memory.Ref // records that have sets
	random *rand.Rand
}

// Cells are where the scene's records are.
func Cells() []memory.Cell {
	return []memory.Cell{
		{Agent: "mia"}, {Agent: "mia", Project: "atlas"}, {Agent: "mia", Project: "atlas", Channel: "chat"},
		{Agent: "mia", Channel: "chat"}, {Agent: "ken"}, {Agent: "ken", Project: "atlas"},
	}
}

// NewScene fills an empty store, the same for the same seed.
func NewScene(ctx context.Context, store *sqlite.Store, seed uint64, records int) (*Scene, error) {
	s := &Scene{Store: store, random: rand.New(rand.NewPCG(seed, 17))}
	for i, state := range []string{sqlite.ModelActive, sqlite.ModelBuilding} {
		probe := make([]float32, Dims)
		probe[i] = 1
		id, err := store.PutModel(ctx, sqlite.Model{Backend: "test", Name: fmt.Sprint("model ", i), Dims: Dims, State: state, Probes: [][]float32{probe}})
		if err != nil {
			return nil, err
		}
		s.Models[i] = id
	}
	for i := range records {
		n := 2 + s.random.IntN(6)
		if i%10 == 3 {
			n = 60 + s.random.IntN(20) // around the usual cap of a record
		}
		if err := s.Add(ctx, Cells()[s.random.IntN(len(Cells()))], n); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Add stores a record with a set of n blocks under each model.
func (s *Scene) Add(ctx context.Context, cell memory.Cell, n int) error {
	text := Text(s.random, n)
	var ref memory.Ref
	if s.random.IntN(4) == 0 {
		stored, err := s.Store.StoreEpisodes(ctx, []sqlite.NewEpisode{{Cell: cell, Summary: text}})
		if err != nil {
			return err
		}
		ref = stored[0].Ref
	} else {
		stored, err := s.Store.StoreMemories(ctx, []sqlite.NewMemory{{Cell: cell, Content: text, Source: memory.Source{ID: fmt.Sprint("source-", s.random.IntN(3))}}})
		if err != nil {
			return err
		}
		ref = stored[0].Ref
	}
	s.Refs = append(s.Refs, ref)
	for _, model := range s.Models {
		if _, err := s.Store.PutBlockSets(ctx, []sqlite.BlockSet{s.Set(ref, model, text, n)}); err != nil {
			return err
		}
	}
	return nil
}

// Text is a text of n short sentences that no other one equals.
func Text(r *rand.Rand, n int) string {
	words := []string{"ポンプは止まった。", "The pump stopped. ", "水泵停了。", "Bay 3 is dry. "}
	var b strings.Builder
	for range n {
		b.WriteString(words[r.IntN(len(words))])
	}
	return fmt.Sprintf("%s%x", b.String(), r.Uint64())
}

// Set is a block set with random vectors of few directions, so that equal
// distances are common. Some blocks of large sets are unembeddable.
func (s *Scene) Set(ref memory.Ref, model int64, text string, n int) sqlite.BlockSet {
	set := sqlite.BlockSet{Ref: ref, Model: model, Revision: memory.Revision(text), Policy: sqlite.BlockPolicy, Dims: Dims}
	size := memory.Len(text) / n
	for i := range n {
		span := sqlite.BlockSpan{Start: i * size, End: (i + 1) * size, Node: i == 0}
		if i == n-1 {
			span.End = memory.Len(text)
		}
		v := Vector(s.random)
		if n > 10 && s.random.IntN(20) == 0 {
			span.Unembeddable = true
			clear(v)
		}
		values, ok := memory.Int8(v)
		if !ok {
			values = make([]byte, Dims)
		}
		set.Blocks = append(set.Blocks, span)
		set.Bits = append(set.Bits, memory.Signs(v)...)
		set.Values = append(set.Values, values...)
	}
	return set
}

// Vector is one of few directions.
func Vector(r *rand.Rand) []float32 {
	v := make([]float32, Dims)
	base := rand.New(rand.NewPCG(uint64(r.IntN(6)), 5))
	for i := range v {
		v[i] = float32(base.IntN(255)-127) / 127
	}
	for range r.IntN(4) {
		at := r.IntN(Dims)
		v[at] = -v[at]
	}
	v[r.IntN(Dims)] = 1
	return v
}
