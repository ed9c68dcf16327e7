package arm_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"recalld/coordinator/arm"
	"recalld/coordinator/arm/blocktest"
	"recalld/memory"
	"recalld/shards"
	"recalld/sqlite"
)

var rewrite = flag.Bool("rewrite-blocks", false, "write blocktest/testdata/answers.txt anew")

// BR-029, BR-032, BR-033: the index in process gives the recorded answers, from a
// cache, from one that keeps nothing, and from one that holds a single cell.
// Rewrite them with -rewrite-blocks after the property below has passed.
func TestBlockIndexConforms(t *testing.T) {
	if *rewrite {
		text := blocktest.Answers(t, func(*testing.T, *sqlite.Store) arm.BlockIndex { return arm.NewCodes(arm.NewMatrices(1 << 20)) })
		if err := os.WriteFile("blocktest/testdata/answers.txt", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, limit := range []int64{1 << 20, 0, 2_000} {
		blocktest.Conform(t, func(*testing.T, *sqlite.Store) arm.BlockIndex { return arm.NewCodes(arm.NewMatrices(limit)) })
	}
}

// BR-029, BR-032, BR-033, DECISIONS 2: the index behind a scanner process gives the
// recorded answers, from what it holds beside its files and from files, without the
// index in process: too many blocks for a bounded scan are that one's alone.
func TestScannedIndexConforms(t *testing.T) {
	for _, change := range []func(context.Context, *shards.Codes) error{
		func(context.Context, *shards.Codes) error { return nil },
		func(ctx context.Context, c *shards.Codes) error { return c.Seal(ctx) },
	} {
		var codes *shards.Codes
		blocktest.Conform(t, func(t *testing.T, store *sqlite.Store) arm.BlockIndex {
			codes = arm.OpenCodes(t, store, filepath.Join(t.TempDir(), "codes"))
			return settled{t, change, codes, arm.NewScannedBlocks(arm.Within(t, codes), arm.NewCodes(arm.NewMatrices(0)))}
		})
	}
}

// settled does something to the matrices before each question.
type settled struct {
	t      *testing.T
	change func(context.Context, *shards.Codes) error
	codes  *shards.Codes
	index  arm.BlockIndex
}

func (s settled) Nearest(ctx context.Context, view *sqlite.View, q arm.BlockQuery) (arm.BlockAnswer, error) {
	if err := s.change(ctx, s.codes); err != nil {
		s.t.Error(err)
	}
	a, err := s.index.Nearest(ctx, view, q)
	if len(a.Degraded) > 0 {
		s.t.Errorf("%+v: %+v", q, a.Degraded)
	}
	return a, err
}

// plain is the written rule, from the file and without a heap: the cap of a
// record, then the cap of the scan in the order of keys, then the order of blocks.
func plain(view *sqlite.View, q arm.BlockQuery) (a arm.BlockAnswer, err error) {
	var sets []sqlite.BlockCodes
	cells, err := view.Cells(q.Scope)
	if err != nil {
		return a, err
	}
	var ids []int64
	for _, c := range cells {
		ids = append(ids, c.ID)
	}
	err = view.BlockBits(q.Model, ids, func(s sqlite.BlockCodes) error {
		s.Bits = slices.Clone(s.Bits)
		sets = append(sets, s)
		return nil
	})
	slices.SortFunc(sets, func(a, b sqlite.BlockCodes) int {
		return cmp.Or(cmp.Compare(a.Ref.Kind, b.Ref.Kind), cmp.Compare(a.Ref.ID, b.Ref.ID))
	})
	var hits []arm.BlockHit
	for _, s := range sets {
		if !q.Only.Has(s.Ref) {
			continue
		}
		width := len(s.Bits) / s.N
		for i := range s.N {
			if q.PerParent > 0 && i >= q.PerParent {
				break
			}
			if slices.Contains(s.Unembeddable, i) {
				continue
			}
			if q.Most > 0 && a.Scanned == int64(q.Most) {
				a.Cut = true
				break
			}
			a.Scanned++
			d := 0
			for j, x := range s.Bits[i*width : (i+1)*width] {
				d += bits.OnesCount8(x ^ q.Code[j])
			}
			hits = append(hits, arm.BlockHit{Ref: s.Ref, Index: i, Distance: d})
		}
	}
	slices.SortFunc(hits, func(a, b arm.BlockHit) int {
		return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.Ref.Kind, b.Ref.Kind), cmp.Compare(a.Ref.ID, b.Ref.ID), cmp.Compare(a.Index, b.Index))
	})
	seen := map[memory.Ref]bool{}
	for _, h := range hits {
		if len(a.Rows) < q.Rows {
			a.Rows = append(a.Rows, h)
		}
		if !seen[h.Ref] && len(a.Parents) < q.Parents {
			seen[h.Ref] = true
			a.Parents = append(a.Parents, h)
		}
	}
	return a, err
}

// BR-031 to BR-041, BR-092, DECISIONS 4: whatever happens to the file, in
// whatever order, the answer is that of the written rule over the snapshot: the
// index follows the change log, keeps older snapshots apart, and survives a
// trimmed log.
func TestBlockIndexEqualsTheFile(t *testing.T) {
	dir := t.TempDir()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		folder := filepath.Join(dir, fmt.Sprint(run))
		if err := os.Mkdir(folder, 0o700); err != nil {
			rt.Fatal(err)
		}
		ctx := context.Background()
		store, err := sqlite.Open(ctx, filepath.Join(folder, "recall.db"), sqlite.Options{})
		if err != nil {
			rt.Fatal(err)
		}
		defer store.Close()
		seed := rapid.Uint64().Draw(rt, "seed")
		scene, err := blocktest.NewScene(ctx, store, seed, rapid.IntRange(1, 12).Draw(rt, "records"))
		if err != nil {
			rt.Fatal(err)
		}
		index := arm.NewCodes(arm.NewMatrices(rapid.SampledFrom([]int64{0, 1_500, 1 << 20}).Draw(rt, "limit")))
		random := rand.New(rand.NewPCG(seed, 2))
		ask := func(view *sqlite.View) {
			q := question(scene.Models, scene.Refs, random)
			got, err := index.Nearest(ctx, view, q)
			if err != nil {
				rt.Fatal(err)
			}
			want, err := plain(view, q)
			if err != nil {
				rt.Fatal(err)
			}
			if !slices.Equal(got.Rows, want.Rows) || !slices.Equal(got.Parents, want.Parents) || got.Scanned != want.Scanned || got.Cut != want.Cut {
				rt.Fatalf("%+v at %d:\ngot  %+v\nwant %+v", q, view.Seq(), got, want)
			}
		}
		view := func() *sqlite.View {
			v, err := store.ViewRecords(ctx)
			if err != nil {
				rt.Fatal(err)
			}
			return v
		}
		for range rapid.IntRange(1, 6).Draw(rt, "rounds") {
			old, open := view(), true
			ask(old)
			for range rapid.IntRange(0, 3).Draw(rt, "changes") {
				var err error
				ref := scene.Refs[random.IntN(len(scene.Refs))]
				switch n := random.IntN(4); n {
				case 0:
					err = scene.Add(ctx, blocktest.Cells()[random.IntN(6)], 2+random.IntN(5))
				case 1, 2:
					open = false
					old.Close() // an edit erases text, which waits for open snapshots
					err = scene.Rewrite(ctx, ref, n == 1)
				default:
					err = scene.Move(ctx, ref)
				}
				if err != nil {
					rt.Fatal(err)
				}
			}
			fresh := view()
			ask(fresh)
			ask(fresh)
			if open {
				ask(old)
			}
			old.Close()
			fresh.Close()
			switch random.IntN(4) {
			case 0:
				if err := store.TrimChanges(ctx, fresh.Seq()-int64(random.IntN(3))); err != nil {
					rt.Fatal(err)
				}
			case 1:
				if len(scene.Refs) > 1 {
					if err := scene.Remove(ctx, scene.Refs[0]); err != nil {
						rt.Fatal(err)
					}
				}
			}
		}
	})
}

// DECISIONS 4: searches on snapshots of different ages share the kept codes while
// sets come and move.
func TestConcurrentBlockSearchesSeeTheirSnapshots(t *testing.T) {
	ctx := t.Context()
	store, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "recall.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	scene, err := blocktest.NewScene(ctx, store, 11, 20)
	if err != nil {
		t.Fatal(err)
	}
	refs := slices.Clone(scene.Refs)
	index := arm.NewCodes(arm.NewMatrices(1 << 20))
	var readers sync.WaitGroup
	for i := range 4 {
		r := rand.New(rand.NewPCG(uint64(i), 21))
		readers.Go(func() {
			for range 60 {
				view, err := store.ViewRecords(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				q := question(scene.Models, refs, r)
				got, err1 := index.Nearest(ctx, view, q)
				want, err2 := plain(view, q)
				view.Close()
				if err1 != nil || err2 != nil || !slices.Equal(got.Rows, want.Rows) || !slices.Equal(got.Parents, want.Parents) {
					t.Errorf("got %+v, want %+v (%v, %v)", got, want, err1, err2)
					return
				}
			}
		})
	}
	for i := range 40 {
		if i%2 == 0 {
			err = scene.Add(ctx, blocktest.Cells()[i%6], 2+i%5)
		} else {
			err = scene.Move(ctx, refs[i%len(refs)])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	readers.Wait()
}

// question is a random one about one agent's records.
func question(models [2]int64, refs []memory.Ref, r *rand.Rand) arm.BlockQuery {
	scope := memory.Scope{Agent: []string{"mia", "ken"}[r.IntN(2)]}
	if r.IntN(3) == 0 {
		scope.Project = &[]string{"", "atlas"}[r.IntN(2)]
	}
	q := arm.BlockQuery{
		Model: models[r.IntN(2)], Scope: scope, Dims: blocktest.Dims, Code: memory.Signs(blocktest.Vector(r)), Rows: 1 + r.IntN(30), Parents: 1 + r.IntN(10),
		PerParent: []int{0, 3, 64}[r.IntN(3)], Most: []int{0, 1, 7, 40}[r.IntN(4)],
	}
	if r.IntN(3) == 0 {
		q.Only = &arm.Subset{Episodes: r.IntN(2) == 0}
		for _, ref := range refs {
			if ref.Kind == memory.KindMemory && r.IntN(2) == 0 {
				q.Only.Memories = append(q.Only.Memories, ref.ID)
			}
		}
		slices.Sort(q.Only.Memories)
	}
	return q
}
