//go:build extended

package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"recalld/coordinator/arm"
)

// process is the number of the scanner's process; it waits for one.
func (b *bench) process(than int64) int64 {
	b.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		state, err := b.Index(b.t.Context(), IndexStateRequest{})
		if err != nil {
			b.t.Fatal(err)
		}
		if p := state.Codes.Process; p != nil && p.Process != than {
			return p.Process
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("no process but %d: %+v", than, state.Codes)
		}
	}
}

// withoutScanner takes out of an answer what it says of the scanner, and counts it.
func withoutScanner(a *RecallResponse) (said int) {
	all := len(a.Degraded)
	a.Degraded = slices.DeleteFunc(a.Degraded, func(d Degradation) bool { return d.Reason == arm.ReasonScanner })
	said = all - len(a.Degraded)
	if len(a.Degraded) == 0 {
		a.Degraded = nil
	}
	if a.Explain != nil {
		for i := range a.Explain.Arms {
			if a.Explain.Arms[i].Arm != arm.VectorName {
				a.Explain.Arms[i].Scanned = 0
			}
		}
	}
	return said
}

// ARCHITECTURE 6, 8.6: a scanner that is killed a hundred times while recalls and
// stores go on costs no row and no wrong one; whatever was answered without it says
// so, question by question; and nothing that was stored is lost.
func TestScannerKilledUnderLoad(t *testing.T) {
	const kills, records, asked = 100, 150, 40
	settings := beforeSettings()
	settings["blocks.retrieve"] = "true"
	plain := open(t, settings)
	b := openWith(t, filepath.Join(t.TempDir(), "recall.db"), settings, ownScanner(t))
	for _, x := range []*bench{plain, b} {
		shelve(x, 5, records)
		x.drain()
	}
	b.built()
	watch := b.watch()
	questions := inquiries(5, asked)
	var want [asked]string
	for i, q := range questions {
		a := plain.recall(q)
		withoutScanner(a)
		want[i] = encode(t, a)
	}
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	var answers, said, wrong, stored atomic.Int64
	for asker := range 3 {
		work.Go(func() {
			for n := asker; ctx.Err() == nil; n++ {
				a, err := b.Recall(t.Context(), questions[n%asked])
				if err != nil {
					t.Error(err)
					return
				}
				said.Add(int64(withoutScanner(a)))
				answers.Add(1)
				if text, err := json.MarshalIndent(a, "", " "); err != nil || string(text) != want[n%asked] {
					if wrong.Add(1) == 1 {
						t.Errorf("%+v: %s (%v)", questions[n%asked], firstDifference(string(text), want[n%asked]), err)
					}
				}
			}
		})
	}
	work.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			a, err := b.Store(t.Context(), StoreRequest{Agent: "lin", Items: []StoreItem{say(fmt.Sprintf("The valve %d leaks. It is looked at in week %d.", n, n))}})
			if err != nil || a.Results[0].Outcome != OutcomeStored {
				t.Errorf("%+v, %v", a, err)
				return
			}
			stored.Add(1)
			time.Sleep(2 * time.Millisecond) // leaves room for recalls
		}
	})
	var last int64
	for range kills {
		last = b.process(last)
		if err := syscall.Kill(int(last), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	b.process(last)
	stop()
	work.Wait()
	t.Logf("%d kills, %d answers, %d wrong; %d questions failed, %d degradations said; %d stored; %d answered by the scanner, %d not built, %d passed",
		kills, answers.Load(), wrong.Load(), watch.failed.Load(), said.Load(), stored.Load(), watch.answered.Load(), watch.notBuilt.Load(), watch.passed.Load())
	if wrong.Load() != 0 {
		t.Errorf("%d wrong answers of %d", wrong.Load(), answers.Load())
	}
	if watch.failed.Load() != said.Load() {
		t.Errorf("%d questions failed, and %d answers say so", watch.failed.Load(), said.Load())
	}
	if watch.answered.Load() == 0 {
		t.Error("the scanner never answered")
	}
	status, err := b.Status(t.Context())
	if err != nil || status.Memories != plain.status().Memories+stored.Load() {
		t.Errorf("%d memories, %d were stored beside %d (%v)", status.Memories, stored.Load(), plain.status().Memories, err)
	}
}

// ARCHITECTURE 6 and 8.1, DECISIONS 4: a coordinator that is killed at any moment,
// while its files are built, sealed, compacted or published, leaves a folder that
// answers with the scanner as without, at once and after everything was built.
func TestCoordinatorKilledWhilePublishing(t *testing.T) {
	folder, sockets := t.TempDir(), ownScanner(t).Runtime
	random := rand.New(rand.NewPCG(1, 2))
	answered := int64(0)
	for round := range 12 {
		child := exec.Command(os.Args[0], "-test.run=^$")
		child.Env = append(os.Environ(), childFolder+"="+folder, childSockets+"="+sockets)
		var complaint strings.Builder
		child.Stderr = &complaint
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		var line [8]byte
		if _, err := out.Read(line[:]); err != nil {
			_ = child.Wait()
			t.Fatalf("round %d: the child said nothing: %v %s", round, err, complaint.String())
		}
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond) // the moment is chance
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait()
		if complaint.Len() > 0 {
			t.Fatalf("round %d: %s", round, complaint.String())
		}
		b := openWith(t, filepath.Join(folder, "recall.db"), childSettings(), ownScanner(t))
		b.drain()
		watch := b.watch()
		soon := answersOf(b, uint64(round), 12)
		b.built()
		later := answersOf(b, uint64(round), 12)
		answered += watch.answered.Load()
		b.cfg.Scanner.Off = true
		b.restart()
		want := answersOf(b, uint64(round), 12)
		for when, got := range map[string]string{"at once": soon, "built": later} {
			if got != want {
				t.Errorf("round %d, %s: %s", round, when, firstDifference(got, want))
			}
		}
		b.down()
	}
	if answered == 0 {
		t.Error("the scanner never answered")
	}
}
