package blocktest

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"recalld/coordinator/arm"
	"recalld/memory"
	"recalld/sqlite"
)

// Golden is what [Answers] gives for a right index.
//
//go:embed testdata/answers.txt
var Golden string

// Conform fails the test unless the index answers as recorded. open is called
// once with the scene's store.
func Conform(t *testing.T, open func(t *testing.T, store *sqlite.Store) arm.BlockIndex) {
	t.Helper()
	got, want := strings.Split(Answers(t, open), "\n"), strings.Split(Golden, "\n")
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("line %d:\ngot  %s\nwant %s", i+1, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d", len(got), len(want))
	}
}

// Answers asks an index the suite's questions, before and after the store has
// changed under it.
func Answers(t *testing.T, open func(t *testing.T, store *sqlite.Store) arm.BlockIndex) string {
	t.Helper()
	ctx := t.Context()
	store, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "recall.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	scene, err := NewScene(ctx, store, 1, 40)
	if err != nil {
		t.Fatal(err)
	}
	index := open(t, store)
	var out strings.Builder
	for round := range 3 {
		view, err := store.ViewRecords(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i, q := range Questions(scene) {
			a, err := index.Nearest(ctx, view, q)
			if err != nil {
				t.Fatal(err)
			}
			cells, err := view.Cells(q.Scope)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "round %d question %d: model %d cells %d only %v rows %d parents %d per parent %d most %d\n", round, i, q.Model, len(cells), q.Only != nil, q.Rows, q.Parents, q.PerParent, q.Most)
			fmt.Fprintf(&out, "  rows    %s\n  parents %s\n  scanned %d cut %v\n", show(a.Rows), show(a.Parents), a.Scanned, a.Cut)
		}
		if err := view.Close(); err != nil {
			t.Fatal(err)
		}
		if err := scene.Change(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// Questions cover caps of a record and of a scan, ties, both models, one cell and
// many, subsets, and more rows than there are.
func Questions(s *Scene) (questions []arm.BlockQuery) {
	for _, agent := range []string{"mia", "ken", "nobody"} {
		for _, project := range []*string{nil, new(string)} {
			for i, limits := range [][4]int{{200, 200, 64, 250_000}, {5, 3, 0, 0}, {20, 20, 64, 90}, {7, 7, 3, 40}, {10, 10, 64, 1}} {
				q := arm.BlockQuery{Model: s.Models[i%2], Scope: memory.Scope{Agent: agent, Project: project}, Dims: Dims, Code: memory.Signs(Vector(s.random)),
					Rows: limits[0], Parents: limits[1], PerParent: limits[2], Most: limits[3]}
				if i == 3 {
					q.Only = &arm.Subset{Episodes: true}
					for _, ref := range s.Refs[len(s.Refs)/2:] {
						if ref.Kind == memory.KindMemory {
							q.Only.Memories = append(q.Only.Memories, ref.ID)
						}
					}
					slices.Sort(q.Only.Memories)
				}
				questions = append(questions, q)
			}
		}
	}
	return questions
}

func show(hits []arm.BlockHit) string {
	words := make([]string, len(hits))
	for i, h := range hits {
		words[i] = fmt.Sprintf("%s/%d@%d", h.Ref, h.Index, h.Distance)
	}
	return strings.Join(words, " ")
}
