//go:build extended

package shards

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// ARCHITECTURE 6: a thousand flipped bits and cut files, some at a time, give no
// wrong answer. Each round opens the files anew, so that what a scan reads is read
// for the first time; what it does not read is the scrub's to find.
func TestCodesThousandDamages(t *testing.T) {
	w := newCodesWorld(t, 64, CodesOptions{})
	w.codes.segmentBytes, w.codes.valueBytes = 1<<12, 1<<14
	agents := []string{"mia", "ken", "ann"}
	for _, agent := range agents {
		w.fill(cellOf(agent), 60)
	}
	w.tidy()
	r := rand.New(rand.NewPCG(5, 6))
	damages, bySet, byScrub, right := 0, 0, 0, 0
	for round := 0; damages < 1_000; round++ {
		w.closeCodes()
		w.open()
		w.codes.segmentBytes, w.codes.valueBytes = 1<<12, 1<<14
		names := w.filesOf()
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names[:min(len(names), 1+r.IntN(8))] {
			path := filepath.Join(w.opts.Folder, name)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, 0o600); err != nil {
				t.Fatal(err)
			}
			if r.IntN(8) == 0 {
				b = b[:r.IntN(len(b))]
			}
			for n := 1 + r.IntN(3); n > 0 && len(b) > 0; n-- {
				b[r.IntN(len(b))] ^= 1 << r.IntN(8)
				damages++
			}
			if err := os.WriteFile(path, b, 0o400); err != nil {
				t.Fatal(err)
			}
		}
		if begun, err := w.codes.load(t.Context()); err != nil || !begun {
			t.Fatal(begun, err)
		}
		if err := w.codes.revive(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			for _, agent := range agents {
				view := w.view()
				err := w.ask(view, agent)
				view.Close()
				switch {
				case err == nil:
					right++
				case errors.Is(err, ErrNotBuilt):
					bySet++
				default:
					t.Fatalf("round %d: %v", round, err)
				}
			}
		}
		damaged, err := w.codes.Verify(t.Context(), true, nil)
		if err != nil {
			t.Fatal(err)
		}
		byScrub += len(damaged)
		w.heal()
		if damaged, err := w.codes.Verify(t.Context(), false, nil); err != nil || len(damaged) > 0 {
			t.Fatalf("round %d: %v, %v", round, damaged, err)
		}
		for _, agent := range agents {
			w.same(agent)
		}
	}
	t.Logf("%d damages: %d right answers, %d not built, %d files found by the scrub, none wrong", damages, right, bySet, byScrub)
	if right == 0 || bySet == 0 || byScrub == 0 {
		t.Error("some way to meet damage was never taken")
	}
}

// ARCHITECTURE 6: a hundred deaths of the scanner under load, and twenty of the
// process that makes the files.
func TestCodesHundredDeaths(t *testing.T) {
	scannerDeaths(t, 100)
}

func TestCodesTwentyDeathsWhileMakingFiles(t *testing.T) {
	makerDeaths(t, 20)
}
