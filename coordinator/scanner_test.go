package coordinator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"recalld/coordinator/arm"
	"recalld/embed"
	"recalld/memory"
	"recalld/shards"
	"recalld/sqlite"
)

// watched is a bench's scanner, with what became of the questions to it.
type watched struct {
	arm.Scanner
	answered, notBuilt, passed, failed, batch atomic.Int64
}

// watch puts a watched scanner under the arms of the bench. A restart ends it.
func (b *bench) watch() *watched {
	w := &watched{Scanner: b.codes}
	b.blocks = arm.NewBlocks(arm.NewScannedBlocks(w, arm.AtMost(arm.NewCodes(b.matrices), mostInProcess)))
	b.arms[arm.VectorName] = arm.NewVector(b.matrices, w)
	return w
}

func (w *watched) note(over bool, err error) {
	switch {
	case err == nil && !over:
		w.answered.Add(1)
	case errors.Is(err, shards.ErrNotBuilt):
		w.notBuilt.Add(1)
	case errors.Is(err, shards.ErrPassed):
		w.passed.Add(1)
	case err != nil:
		w.failed.Add(1)
	}
}

func (w *watched) Blocks(ctx context.Context, view *sqlite.View, q shards.BlockQuery) (shards.BlockAnswer, error) {
	a, err := w.Scanner.Blocks(ctx, view, q)
	w.note(a.Over, err)
	return a, err
}

func (w *watched) Records(ctx context.Context, view *sqlite.View, q shards.RecordQuery) (shards.RecordAnswer, error) {
	if q.Batch {
		w.batch.Add(1)
	}
	a, err := w.Scanner.Records(ctx, view, q)
	w.note(a.Over, err)
	return a, err
}

// built waits until the scanner answers for every cell.
func (b *bench) built() {
	b.t.Helper()
	b.codesAre("built", func(c CodeState) bool { return c.Built == c.Total && !c.Building })
}

// codesAre waits until the derived side of codes is as it should become.
func (b *bench) codesAre(what string, so func(CodeState) bool) {
	b.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		state, err := b.Index(b.t.Context(), IndexStateRequest{})
		if err != nil {
			b.t.Fatal(err)
		}
		if so(state.Codes) {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("not %s: %+v", what, state.Codes)
		}
	}
}

// answersOf are whole answers as text, without the number of postings that words
// touched, which follows the cut into files.
func answersOf(b *bench, seed uint64, n int) string {
	var out strings.Builder
	for i, q := range inquiries(seed, n) {
		a := b.recall(q)
		if a.Explain != nil {
			for j := range a.Explain.Arms {
				if a.Explain.Arms[j].Arm != arm.VectorName {
					a.Explain.Arms[j].Scanned = 0
				}
			}
		}
		fmt.Fprintf(&out, "inquiry %d %s\n", i, encode(b.t, a))
	}
	return out.String()
}

// edit changes, moves and deletes some of what shelve stored, the same for the
// same seed.
func edit(b *bench, seed uint64, records int) {
	b.t.Helper()
	l := newLanguage(seed + 3)
	for i := range records / 3 {
		id := int64(1 + l.random.IntN(records))
		ref := memory.Ref{Kind: []memory.Kind{memory.KindMemory, memory.KindMemory, memory.KindEpisode}[l.random.IntN(3)], ID: id}.String()
		text, project, how := fmt.Sprintf("%s Edit %d", library(l, 1+l.random.IntN(6)), i), []string{"", "atlas", "borealis"}[l.random.IntN(3)], l.random.IntN(3)
		for _, agent := range []string{"mia", "ken"} {
			r := UpdateRequest{Agent: agent, Ref: ref, Content: &text}
			if how == 1 {
				r.Content, r.Project = nil, &project
			}
			var err error
			if how == 2 {
				_, err = b.Delete(b.t.Context(), DeleteRequest{Agent: agent, Refs: []string{ref}})
			} else {
				_, err = b.Update(b.t.Context(), r)
			}
			if err != nil && !errors.Is(err, memory.ErrNotFound) && !errors.Is(err, memory.ErrInvalid) {
				b.t.Fatal(err)
			}
		}
	}
}

// DECISIONS 2, 5, 20, 22, BR-029, ARCHITECTURE 8.5: whole answers have the same
// bytes with the scanner and without, whatever is in files, beside them, deleted or
// moved; before anything is built, after everything is sealed, compacted and
// rebuilt, with and without int8 files, and after a restart.
func TestScannerChangesNoAnswer(t *testing.T) {
	dir := t.TempDir()
	run := 0
	var answered, failed int64
	rapid.Check(t, func(rt *rapid.T) {
		run++
		seed, records := rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(4, 40).Draw(rt, "records")
		settings := beforeSettings()
		settings["blocks.retrieve"] = "true"
		settings["vector.threshold"] = rapid.SampledFrom([]string{"0.1", "-1"}).Draw(rt, "threshold")
		settings["blocks.parent_cap"] = rapid.SampledFrom([]string{"64", "2", "0"}).Draw(rt, "parent cap")
		settings["blocks.scan_cap"] = rapid.SampledFrom([]string{"0", "0", "9"}).Draw(rt, "scan cap")
		settings["scanner.lean"] = rapid.SampledFrom([]string{"false", "true"}).Draw(rt, "lean")
		world := func(name string, through Scanner) *bench {
			folder := filepath.Join(dir, fmt.Sprint(run, name))
			if err := os.Mkdir(folder, 0o700); err != nil {
				rt.Fatal(err)
			}
			return openWith(t, filepath.Join(folder, "recall.db"), settings, through)
		}
		plain, through := world("plain", Scanner{}), world("through", ownScanner(t))
		defer plain.down()
		defer through.down()
		watch := through.watch()
		both := func(do func(b *bench)) {
			do(plain)
			do(through)
		}
		same := func(when string) {
			if got, want := answersOf(through, seed, 6), answersOf(plain, seed, 6); got != want {
				rt.Fatalf("%s: %s", when, firstDifference(got, want))
			}
		}
		both(func(b *bench) { shelve(b, seed, records/2) })
		both((*bench).drain)
		same("at first")
		through.built()
		same("built")
		both(func(b *bench) { shelve(b, seed+1, records/2) })
		both(func(b *bench) { edit(b, seed, records) })
		both((*bench).drain)
		same("edited")
		for _, what := range []string{"seal", "compact", "rebuild", "restart"} {
			var err error
			switch what {
			case "seal":
				err = through.codes.Seal(t.Context())
			case "restart":
				answered, failed = answered+watch.answered.Load(), failed+watch.failed.Load()
				through.restart()
				watch = through.watch()
				through.built()
			default:
				_, err = through.ChangeIndex(t.Context(), IndexRequest{Action: what}, nil)
				through.built()
			}
			if err != nil {
				rt.Fatalf("%s: %v", what, err)
			}
			same(what)
			if what == "rebuild" {
				both(func(b *bench) { edit(b, seed+7, records) })
				both((*bench).drain)
				same("edited again")
			}
		}
		answered, failed = answered+watch.answered.Load(), failed+watch.failed.Load()
	})
	if answered == 0 || failed > 0 {
		t.Errorf("the scanner answered %d questions and failed at %d", answered, failed)
	}
}

// DECISIONS 1, 5, ARCHITECTURE 8.1: while codes are rebuilt, every recall is answered
// through the scanner, out of the files before or the new ones, with the bytes that a
// server without one gives; nothing is compared in the process.
func TestScannerAnswersDuringARebuild(t *testing.T) {
	settings := beforeSettings()
	settings["blocks.retrieve"] = "true"
	plain := open(t, settings)
	b := openWith(t, filepath.Join(t.TempDir(), "recall.db"), settings, ownScanner(t))
	for _, x := range []*bench{plain, b} {
		shelve(x, 5, 40)
		x.drain()
	}
	b.built()
	if err := b.codes.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	watch := b.watch()
	want := answersOf(plain, 5, 12)
	first := b.codes.State(t.Context()).Generation
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var rebuilding sync.WaitGroup
	var failed error
	rebuilding.Go(func() {
		for ctx.Err() == nil && failed == nil {
			_, failed = b.ChangeIndex(ctx, IndexRequest{Action: IndexRebuild}, nil)
		}
		stop()
	})
	for asked := 0; ctx.Err() == nil && (asked < 3 || b.codes.State(ctx).Generation < first+2); asked++ {
		if got := answersOf(b, 5, 12); got != want {
			t.Errorf("during a rebuild: %s", firstDifference(got, want))
		}
	}
	stop()
	rebuilding.Wait()
	if failed != nil && !errors.Is(failed, context.Canceled) {
		t.Fatal(failed)
	}
	if watch.answered.Load() == 0 || watch.notBuilt.Load() > 0 || watch.failed.Load() > 0 {
		t.Errorf("the scanner answered %d questions, was not built for %d and failed at %d", watch.answered.Load(), watch.notBuilt.Load(), watch.failed.Load())
	}
	if got := answersOf(b, 5, 12); got != want {
		t.Errorf("afterwards: %s", firstDifference(got, want))
	}
}

// ARCHITECTURE 6 and 8.6: a scanner that cannot be started costs no row; both arms
// that it would have served say so, and the doctor says it too.
func TestScannerThatIsNotThere(t *testing.T) {
	through := ownScanner(t)
	through.Command = []string{filepath.Join(t.TempDir(), "missing")}
	b := openWith(t, filepath.Join(t.TempDir(), "recall.db"), map[string]string{"blocks.retrieve": "true"}, through)
	plain := open(t, map[string]string{"blocks.retrieve": "true"})
	for _, x := range []*bench{b, plain} {
		shelve(x, 5, 20)
		x.drain()
	}
	b.codesAre("in trouble", func(c CodeState) bool { return c.Trouble != "" })
	said := 0
	for _, q := range inquiries(5, 12) {
		got, want := b.recall(q), plain.recall(q)
		for _, d := range got.Degraded {
			if d.Reason == arm.ReasonScanner {
				said++
			}
		}
		got.Degraded = slices.DeleteFunc(got.Degraded, func(d Degradation) bool { return d.Reason == arm.ReasonScanner })
		if len(got.Degraded) == 0 {
			got.Degraded = nil
		}
		if encode(t, got.Rows) != encode(t, want.Rows) || encode(t, got.Coverage) != encode(t, want.Coverage) || encode(t, got.Degraded) != encode(t, want.Degraded) {
			t.Errorf("%+v: %s", q, firstDifference(encode(t, got), encode(t, want)))
		}
	}
	if said == 0 {
		t.Error("no answer says that there is no scanner")
	}
	if check := b.check("codes-index", false); check.OK || check.Severity != sqlite.SeverityWarning {
		t.Errorf("the doctor: %+v", check)
	}
}

// Without a scanner there are no files of codes to take care of, and what is asked
// of them is refused by name.
func TestIndexWithoutAScanner(t *testing.T) {
	b := openWith(t, filepath.Join(t.TempDir(), "recall.db"), map[string]string{"scanner": "off"}, ownScanner(t))
	b.put("mia", days()...)
	for _, r := range []struct {
		request IndexRequest
		field   string
	}{
		{IndexRequest{Action: "compact"}, "scanner"}, {IndexRequest{Action: "rebuild"}, "scanner"}, {IndexRequest{}, "action"},
		{IndexRequest{Action: "tidy"}, "action"}, {IndexRequest{Action: "compact", Repair: true}, "repair"},
	} {
		var refused *memory.FieldError
		if _, err := b.ChangeIndex(t.Context(), r.request, nil); !errors.As(err, &refused) || refused.Field != r.field {
			t.Errorf("%+v: %v", r.request, err)
		}
	}
	report, err := b.ChangeIndex(t.Context(), IndexRequest{Action: IndexVerify}, nil)
	if err != nil || len(report.Damaged) != 0 || report.Index.Codes.Scanner != ScannerOff || report.Index.LastChange == 0 {
		t.Errorf("%+v, %v", report, err)
	}
	if check := b.check("codes-index", false); !check.OK {
		t.Errorf("the doctor: %+v", check)
	}
}

// ARCHITECTURE 8.1: the derived folder goes while recalls and edits go on; no
// answer changes, then or later, and everything is built again.
func TestDerivedFolderGoesWhileServing(t *testing.T) {
	settings := beforeSettings()
	settings["blocks.retrieve"] = "true"
	plain := open(t, settings)
	b := openWith(t, filepath.Join(t.TempDir(), "recall.db"), settings, ownScanner(t))
	both := func(do func(b *bench)) {
		do(plain)
		do(b)
	}
	same := func(when string) {
		t.Helper()
		if got, want := answersOf(b, 5, 12), answersOf(plain, 5, 12); got != want {
			t.Errorf("%s: %s", when, firstDifference(got, want))
		}
	}
	both(func(b *bench) { shelve(b, 5, 40) })
	both((*bench).drain)
	b.built()
	same("before")
	derived := filepath.Join(filepath.Dir(b.path), "derived")
	for os.RemoveAll(derived) != nil {
	}
	same("gone")
	both(func(b *bench) { edit(b, 5, 40) })
	both((*bench).drain)
	same("gone and edited")
	if _, err := b.ChangeIndex(t.Context(), IndexRequest{Action: IndexRebuild}, nil); err != nil {
		t.Fatal(err)
	}
	b.built()
	same("rebuilt")
	for os.RemoveAll(derived) != nil {
	}
	b.restart()
	b.built()
	watch := b.watch()
	same("restarted")
	if watch.answered.Load() == 0 || watch.failed.Load() > 0 {
		t.Errorf("the scanner answered %d questions and failed at %d", watch.answered.Load(), watch.failed.Load())
	}
}

// DECISIONS 14: when a delete or a change of text returns, no derived file has the
// vector, the codes or the int8 values of the former text, sealed or not.
func TestErasureReachesCodes(t *testing.T) {
	for _, lean := range []string{"false", "true"} {
		b := openWith(t, filepath.Join(t.TempDir(), "recall.db"), map[string]string{"blocks.retrieve": "true", "scanner.lean": lean}, ownScanner(t))
		derived := filepath.Join(filepath.Dir(b.path), "derived", "codes")
		first, second := "The zanzibarite was moved to the cellar.", "The quixotrope hums at night."
		refs := b.put("mia", say(first+"\n\n"+second), say("The umbrellium stays. It is dry there."))
		b.put("ken", say("Another one. And its neighbour."))
		b.drain()
		b.built()
		if err := b.codes.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Of each text its sign code and its int8 values: of the whole record, and of its blocks.
		var traces []string
		for _, v := range b.vectors(embed.Document, first+"\n\n"+second, first, second) {
			values, _ := memory.Int8(v)
			traces = append(traces, string(memory.Signs(v)), string(values))
		}
		left := func() (n int) {
			for _, trace := range traces {
				n += len(below(t, derived, trace))
			}
			return n
		}
		if n := left(); n < 3 {
			t.Fatalf("lean %s: only %d traces are in files to begin with", lean, n)
		}
		if lean == "true" {
			text := "Something else. It is said now."
			if _, err := b.Update(t.Context(), UpdateRequest{Agent: "mia", Ref: refs[0], Content: &text}); err != nil {
				t.Fatal(err)
			}
		} else if _, err := b.Delete(t.Context(), DeleteRequest{Agent: "mia", Refs: refs[:1]}); err != nil {
			t.Fatal(err)
		}
		if n := left(); n != 0 {
			t.Errorf("lean %s: %d traces are left", lean, n)
		}
	}
}

// DECISIONS 14: codes and values of a text that is deleted or rewritten while there
// is no scanner go too, from the files that an earlier run with one left; what
// leaves every text alone leaves these. Where there is to be no scanner at all, the
// files go at the start.
func TestErasureReachesCodesOfAnEarlierRun(t *testing.T) {
	b := openWith(t, filepath.Join(t.TempDir(), "recall.db"), map[string]string{"blocks.retrieve": "true"}, ownScanner(t))
	codes := filepath.Join(filepath.Dir(b.path), "derived", "codes")
	text := "The zanzibarite was moved to the cellar."
	refs := b.put("mia", say(text+"\n\nThe quixotrope hums at night."), say("Another one. And its neighbour."))
	b.drain()
	v := b.vectors(embed.Document, text)[0]
	values, _ := memory.Int8(v)
	left := func() int {
		return len(below(t, codes, string(values))) + len(below(t, codes, string(memory.Signs(v))))
	}
	filled := func() {
		t.Helper()
		b.cfg.Scanner.Off = false
		b.restart()
		b.built()
		if err := b.codes.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.cfg.Scanner.Off = true
		b.restart()
		if len(below(t, codes, "")) == 0 {
			t.Fatal("there are no files to begin with")
		}
	}
	filled()
	if left() < 2 {
		t.Fatal("the codes of the text are in no file to begin with")
	}
	project := "atlas"
	if _, err := b.Update(t.Context(), UpdateRequest{Agent: "mia", Ref: refs[1], Project: &project}); err != nil {
		t.Fatal(err)
	}
	if gone, err := b.Delete(t.Context(), DeleteRequest{Agent: "mia", Refs: []string{"mem:99"}}); err != nil || len(gone.Deleted) != 0 {
		t.Fatal(gone, err)
	}
	if left() < 2 {
		t.Error("a project that changed, and a record that is not there, took files along")
	}
	other := "Something else. It is said now."
	if _, err := b.Update(t.Context(), UpdateRequest{Agent: "mia", Ref: refs[0], Content: &other}); err != nil {
		t.Fatal(err)
	}
	if n := left(); n != 0 {
		t.Errorf("after the text was rewritten %d files have its codes", n)
	}
	b.drain()
	filled()
	if _, err := b.Delete(t.Context(), DeleteRequest{Agent: "mia", All: true}); err != nil {
		t.Fatal(err)
	}
	if in := below(t, codes, ""); len(in) != 0 {
		t.Errorf("after everything was deleted there is %v", in)
	}
	b.put("mia", say("A third one. It has two sentences."))
	b.drain()
	filled()
	if _, err := b.SetSetting(t.Context(), "scanner", ScannerOff); err != nil {
		t.Fatal(err)
	}
	b.restart()
	if in := below(t, codes, ""); len(in) != 0 {
		t.Errorf("with the setting off there is %v", in)
	}
}

// DECISIONS 3: what a calibration asks of the scanner is maintenance, which serves
// everybody else first; what a recall asks is not.
func TestCalibrationAsksInTheBatchLane(t *testing.T) {
	b := openWith(t, filepath.Join(t.TempDir(), "recall.db"), nil, ownScanner(t))
	l := newLanguage(7)
	items := make([]StoreItem, 60)
	for i := range items {
		items[i] = say(l.sentence(8) + fmt.Sprint(" ", i))
	}
	b.put("mia", items...)
	b.built()
	watch := b.watch()
	b.recall(RecallRequest{Agent: "mia", Query: l.sentence(4)})
	if watch.batch.Load() != 0 || watch.answered.Load() == 0 {
		t.Errorf("a recall asked %d questions in the batch lane; %d were answered", watch.batch.Load(), watch.answered.Load())
	}
	before := watch.answered.Load()
	if _, err := b.Calibrate(t.Context(), CalibrateRequest{Agent: "mia", DryRun: true}); err != nil {
		t.Fatal(err)
	}
	if n := watch.answered.Load() - before; n == 0 || watch.batch.Load() != n {
		t.Errorf("a calibration asked %d questions in the batch lane, %d were answered", watch.batch.Load(), n)
	}
}

// ARCHITECTURE 6: where the folder of derived files cannot be, a scanner's files are
// nowhere, and a deletion has nothing to wait for.
func TestDeletionWhereNoFolderCanBe(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "derived"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := openWith(t, filepath.Join(folder, "recall.db"), nil, ownScanner(t))
	refs := b.put("mia", days()...)
	if gone, err := b.Delete(t.Context(), DeleteRequest{Agent: "mia", Refs: refs[:1]}); err != nil || len(gone.Deleted) != 1 {
		t.Errorf("%+v, %v", gone, err)
	}
	if rows := b.recall(RecallRequest{Agent: "mia", Query: "train to Kyoto"}).Rows; len(rows) == 0 || rows[0].Ref != refs[1] {
		t.Errorf("%+v", rows)
	}
}

// While a rebuild is under way the state of the index says how far it is and since
// when, and afterwards it does not.
func TestIndexTellsOfARebuild(t *testing.T) {
	b := openWith(t, filepath.Join(t.TempDir(), "recall.db"), nil, ownScanner(t))
	shelve(b, 5, 20)
	b.drain()
	b.built()
	begun := b.clock().Format(time.RFC3339)
	var seen []RebuildState
	look := func() *RebuildState {
		state, err := b.Index(t.Context(), IndexStateRequest{})
		if err != nil {
			t.Error(err)
			return nil
		}
		return state.Codes.Rebuild
	}
	report, err := b.ChangeIndex(t.Context(), IndexRequest{Action: IndexRebuild}, func(int64, int64) {
		if r := look(); r != nil {
			seen = append(seen, *r)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) == 0 || seen[0].Total < 20 || seen[0].Rows > seen[0].Total || seen[0].Since != begun {
		t.Errorf("in its course, begun at %s: %+v", begun, seen)
	}
	if r := look(); r != nil || report.Index.Codes.Rebuild != nil {
		t.Errorf("afterwards: %+v, %+v", r, report.Index.Codes.Rebuild)
	}
}
