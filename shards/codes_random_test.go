package shards

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"recalld/memory"
	"recalld/sqlite"
)

// history does random things to a store, and asks after each of them.
type history struct {
	*codesWorld
	r      *rapid.T
	models []codedModel
	kept   []memory.Ref
	agent  map[memory.Ref]string
	old    *sqlite.View // a snapshot that is held for a while
	passed int
}

// The names are few, so that records meet.
func (h *history) cell() memory.Cell {
	return memory.Cell{
		Agent:   rapid.SampledFrom([]string{"mia", "ken"}).Draw(h.r, "agent"),
		Project: rapid.SampledFrom([]string{"", "p", "q"}).Draw(h.r, "project"),
		Channel: rapid.SampledFrom([]string{"", "c", "d"}).Draw(h.r, "channel"),
	}
}

func (h *history) scope() memory.Scope {
	c := h.cell()
	s := memory.Scope{Agent: c.Agent}
	if rapid.Bool().Draw(h.r, "with project") {
		s.Project = &c.Project
	}
	if rapid.Bool().Draw(h.r, "with channel") {
		s.Channel = &c.Channel
	}
	return s
}

func (h *history) pick() (memory.Ref, bool) {
	if len(h.kept) == 0 {
		return memory.Ref{}, false
	}
	return rapid.SampledFrom(h.kept).Draw(h.r, "ref"), true
}

func (h *history) number() int { return rapid.IntRange(0, 60).Draw(h.r, "number") }

func (h *history) act() {
	ctx := context.Background()
	ref, some := h.pick()
	switch rapid.IntRange(0, 18).Draw(h.r, "act") {
	case 0, 1, 2:
		cell := h.cell()
		ref := h.keep(rapid.SampledFrom([]memory.Kind{memory.KindMemory, memory.KindEpisode}).Draw(h.r, "kind"), cell)
		h.kept, h.agent[ref] = append(h.kept, ref), cell.Agent
		h.give(ref)
	case 3, 4, 5:
		if some {
			h.give(ref)
		}
	case 6:
		if some {
			if _, err := h.store.Delete(ctx, h.agent[ref], []memory.Ref{ref}); err != nil {
				h.t.Fatal(err)
			}
		}
	case 7:
		if some {
			h.seed++
			text := fmt.Sprintf("a changed text with number %d, long enough for blocks.", h.seed)
			h.change(ref, sqlite.Patch{Content: &text})
		}
	case 8, 9:
		if some {
			c := h.cell()
			h.change(ref, sqlite.Patch{Project: &c.Project, Channel: &c.Channel})
		}
	case 10:
		h.must(h.codes.Seal(ctx))
	case 11:
		_, err := h.codes.Compact(ctx, nil)
		h.must(err)
	case 12:
		h.must(h.codes.Erase(ctx))
	case 13:
		h.must(h.codes.tidy(ctx))
	case 14:
		h.closeCodes()
		h.open()
		h.must(h.codes.tidy(ctx))
	case 15, 16, 17:
		h.rebuild()
	case 18:
		if stats, err := h.codes.client.Stats(ctx); err == nil {
			h.must(syscall.Kill(int(stats.GetProcess()), syscall.SIGKILL))
		}
	}
}

// rebuild begins a rebuild, or does a few stretches of it.
func (h *history) rebuild() {
	if h.codes.renewal == nil {
		_, err := h.codes.beginRenewal(context.Background())
		h.must(err)
		return
	}
	for n, more := rapid.IntRange(1, 12).Draw(h.r, "stretches"), true; more && n > 0; n-- {
		var err error
		if more, err = h.codes.renew(context.Background(), nil); !errors.Is(err, errDropped) {
			h.must(err)
		}
	}
}

// give gives a record vectors, blocks, or both, of one model or the other.
func (h *history) give(ref memory.Ref) {
	m := rapid.SampledFrom(h.models).Draw(h.r, "model")
	what := rapid.IntRange(1, 3).Draw(h.r, "what")
	if what&1 != 0 {
		v := vectorOfWidth(h.number(), m.Dims)
		if rapid.IntRange(0, 7).Draw(h.r, "zero") == 0 {
			clear(v)
		}
		h.embed(h.agent[ref], m.ID, ref, v)
	}
	if what&2 != 0 {
		n := rapid.IntRange(2, 6).Draw(h.r, "blocks")
		var without []int
		if rapid.IntRange(0, 3).Draw(h.r, "unembeddable") == 0 {
			without = []int{rapid.IntRange(0, n-1).Draw(h.r, "which")}
		}
		h.block(h.agent[ref], m.ID, m.Dims, ref, n, h.number(), without...)
	}
}

func (h *history) change(ref memory.Ref, p sqlite.Patch) {
	if _, err := h.store.Update(context.Background(), h.agent[ref], ref, p); err != nil && !errors.Is(err, memory.ErrNotFound) && !errors.Is(err, memory.ErrInvalid) {
		h.t.Fatal(err)
	}
}

func (h *history) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *history) only() *Only {
	if rapid.IntRange(0, 3).Draw(h.r, "only") > 0 {
		return nil
	}
	o := &Only{Episodes: rapid.Bool().Draw(h.r, "episodes")}
	for id := int64(1); id < 12; id++ {
		if rapid.Bool().Draw(h.r, "id") {
			o.Memories = append(o.Memories, id)
		}
	}
	return o
}

// questions asks for blocks and records of a random scope.
func (h *history) questions(view *sqlite.View) error {
	m := rapid.SampledFrom(h.models).Draw(h.r, "model")
	v := vectorOfWidth(h.number(), m.Dims)
	values, _ := memory.Int8(v)
	scope, only := h.scope(), h.only()
	q := BlockQuery{Model: m.ID, Scope: scope, Code: memory.Signs(v), Only: only,
		Rows: rapid.IntRange(0, 8).Draw(h.r, "rows"), Parents: rapid.IntRange(1, 5).Draw(h.r, "parents"),
		PerParent: rapid.IntRange(0, 3).Draw(h.r, "per parent"), Most: rapid.SampledFrom([]int{0, 0, 0, 5}).Draw(h.r, "most")}
	if rapid.Bool().Draw(h.r, "cosines") {
		q.Values = values
	}
	if err := h.askBlocks(view, q); err != nil {
		return err
	}
	_, err := h.askRecords(view, RecordQuery{Model: m.ID, Scope: scope, Vector: v, Only: only, K: rapid.IntRange(1, 4).Draw(h.r, "k"), Approximate: rapid.Bool().Draw(h.r, "approximate")})
	return err
}

func (h *history) askNow() {
	view := h.view()
	if h.old == nil && rapid.IntRange(0, 4).Draw(h.r, "hold") == 0 {
		h.old = h.view()
	}
	h.must(h.questions(view))
	h.must(view.Close())
	if h.old == nil {
		return
	}
	err := h.questions(h.old)
	if errors.Is(err, ErrPassed) {
		h.passed++
		err = nil
	}
	h.must(err)
	if rapid.IntRange(0, 3).Draw(h.r, "let go") == 0 {
		h.letGo()
	}
}

func (h *history) letGo() {
	if h.old != nil {
		h.must(h.old.Close())
		h.old = nil
	}
}

// DECISIONS 2, 4, BR-029, BR-092: whatever happened to the store, in files and
// beside them, after any number of seals, compactions, erasures, restarts and
// deaths of the scanner, in the middle of a rebuild too, an answer is that of its snapshot, or there is none.
func TestCodesAnyHistory(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newCodesWorld(t, 20, CodesOptions{Lean: rapid.Bool().Draw(r, "lean")})
		h := &history{codesWorld: w, r: r, agent: make(map[memory.Ref]string)}
		h.models = []codedModel{{ID: w.model, Dims: 20}, {ID: w.putModel("other", 33), Dims: 33}}
		defer w.close()
		defer h.letGo()
		for _, agent := range []string{"mia", "ken"} {
			ref := w.keep(memory.KindMemory, memory.Cell{Agent: agent})
			h.kept, h.agent[ref] = append(h.kept, ref), agent
			for _, m := range h.models {
				w.embed(agent, m.ID, ref, vectorOfWidth(1, m.Dims))
				w.block(agent, m.ID, m.Dims, ref, 2, 1)
			}
		}
		w.tidy()
		for range rapid.IntRange(5, 30).Draw(r, "acts") {
			h.act()
			h.askNow()
		}
	})
}
