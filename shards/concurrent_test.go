package shards

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"recalld/memory"
	"recalld/sqlite"
)

// DECISIONS 4, ARCHITECTURE 8.5: while others store, change, delete, seal, merge
// and erase, every search gives what reading its own snapshot gives.
func TestSearchesBesideEverythingElse(t *testing.T) {
	besideEverythingElse(newWorld(t, Options{SealRows: 40, BuildText: 500, MaxFile: 1 << 16}), func() {})
}

// besideEverythingElse asks while everything else is done, and calls meanwhile
// again and again.
func besideEverythingElse(w *world, meanwhile func()) {
	t := w.t
	w.flood(cellOf("mia"), 100, words)
	w.flood(cellOf("ken"), 60, words)
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	var running sync.WaitGroup
	var asked [3]int
	for i := range asked {
		running.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for ctx.Err() == nil {
				view := w.view()
				agent := []string{"mia", "ken"}[r.IntN(2)]
				for range 1 + r.IntN(3) { // the snapshot grows old
					if _, err := w.ask(view, memory.Scope{Agent: agent}, words(r.IntN(400)), memory.KindMemory); err != nil {
						t.Error(err)
						stop()
					}
					asked[i]++
				}
				view.Close()
			}
		})
	}
	running.Go(func() {
		r := rand.New(rand.NewPCG(9, 1))
		for n := 1_000; ctx.Err() == nil; n++ {
			agent := []string{"mia", "ken"}[r.IntN(2)]
			ref := memory.Ref{Kind: memory.KindMemory, ID: 1 + r.Int64N(300)}
			switch r.IntN(6) {
			case 0:
				w.delete(agent, ref)
			case 1:
				text := words(n) + " again"
				_ = w.update(agent, ref, sqlite.Patch{Content: &text}) // it may be gone
			case 2:
				project := []string{"", "atlas"}[r.IntN(2)]
				_ = w.update(agent, ref, sqlite.Patch{Project: &project})
			default:
				w.say(cellOf(agent), fmt.Sprint("s", n/5), words(n))
			}
		}
	})
	running.Go(func() {
		r := rand.New(rand.NewPCG(7, 1))
		for ctx.Err() == nil {
			var err error
			switch r.IntN(3) {
			case 0:
				err = w.index.Seal(context.Background())
			case 1:
				err = w.index.Erase(context.Background())
			default:
				err = w.index.publish(context.Background(), r.IntN(2) == 0, func(f []*file) []*file { return f })
			}
			if err != nil {
				t.Error(err)
				return
			}
			meanwhile()
			time.Sleep(time.Duration(r.IntN(10)) * time.Millisecond)
		}
	})
	running.Wait()
	for i, n := range asked {
		if n == 0 {
			t.Errorf("searcher %d asked nothing", i)
		}
	}
}
