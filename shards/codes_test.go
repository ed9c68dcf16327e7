package shards

import (
	"testing"

	"recalld/memory"
)

// DECISIONS 4, 20: what is stored is answered by the scanner in the next call,
// from files and from what came after them.
func TestCodesAnswerLikeTheStore(t *testing.T) {
	w := newCodesWorld(t, 20, CodesOptions{})
	w.fill(cellOf("mia"), 40)
	w.fill(memory.Cell{Agent: "ken", Project: "p"}, 10)
	w.notBuilt("mia")
	w.tidy()
	w.same("mia")
	w.same("ken")
	if s := w.codes.State(t.Context()); s.Rows != 4*50 || s.DeltaRows != 0 || s.Built != 2 || s.Total != 2 || s.Lag != 0 || s.Trouble != "" {
		t.Errorf("%+v", s)
	}
	w.fill(cellOf("mia"), 5)
	w.same("mia")
	w.same("ken")
	if s := w.codes.State(t.Context()); s.DeltaRows != 4*5 {
		t.Errorf("%+v", s)
	}
}
