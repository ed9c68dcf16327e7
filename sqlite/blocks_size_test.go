package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"recalld/memory"
	"recalld/sqlite"
)

// TestBlocksAreSmall: what a block costs in the file beside its code and its vector,
// page fill and indexes and counters included, over records of all lengths. The log
// of changes is trimmed, as it is in service.
// Issue 6, BR-161
func TestBlocksAreSmall(t *testing.T) {
	for _, c := range []struct{ dims, limit int }{{256, 40}, {384, 40}, {1024, 100}} {
		t.Run(fmt.Sprint(c.dims), func(t *testing.T) {
			s, path := openStore(t, sqlite.Options{Clock: fixed})
			m := measured(t, s, c.dims)
			r := rand.New(rand.NewPCG(1, 2))
			const records = 400
			lengths := make([]int, records)
			texts := make([]string, records)
			for i := range texts {
				lengths[i] = 2 + r.IntN(10) // most records are short, some are long
				if i%4 == 0 {
					lengths[i] = 2 + r.IntN(75)
				}
				texts[i] = text(r, 60*lengths[i])
				store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: texts[i]})
			}
			size := func() int64 {
				v := view(t, s)
				seq := v.Seq()
				v.Close()
				if err := s.TrimChanges(t.Context(), seq-1); err != nil {
					t.Fatal(err)
				}
				if err := s.Vacuum(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				info, err := os.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				return info.Size()
			}
			before := size()
			blocks := 0
			for i := 0; i < records; i += 50 {
				var sets []sqlite.BlockSet
				for j := i; j < i+50; j++ {
					sets = append(sets, setOf(memory.Ref{Kind: memory.KindMemory, ID: int64(j + 1)}, m, texts[j], lengths[j], j, c.dims))
					blocks += lengths[j]
				}
				putSets(t, s, sets...)
			}
			each := float64(size()-before)/float64(blocks) - float64(c.dims) - float64(c.dims)/8
			t.Logf("%d blocks of %d records: %.1f bytes a block beside code and vector", blocks, records, each)
			if each > float64(c.limit) {
				t.Errorf("%.1f bytes a block, at most %d", each, c.limit)
			}
		})
	}
}
