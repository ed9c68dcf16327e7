package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"recalld/embed"
	"recalld/memory"
	"recalld/sqlite"
)

// killedAt in the environment makes the test binary a process that builds blocks
// and dies by SIGKILL at the event of that number.
const killedAt, killedPath = "RECALLD_TEST_KILL_AT", "RECALLD_TEST_KILL_PATH"

func TestMain(m *testing.M) {
	if path := os.Getenv(killedPath); path != "" {
		if err := buildUntilKilled(path, os.Getenv(killedAt)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// mortal counts what a builder does and kills its process at one event.
type mortal struct {
	*sqlite.Store
	embed.Model
	left int
}

func (m *mortal) event() {
	if m.left--; m.left == 0 {
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			panic(err)
		}
		select {} // until it arrives
	}
}

// Close of both is the caller's.
func (m *mortal) Close() error { return nil }

// Local is false: few records are published at a time.
func (m *mortal) Local() bool { return false }

func (m *mortal) Embed(ctx context.Context, p embed.Purpose, texts []string) ([][]float32, error) {
	m.event()
	return m.Model.Embed(ctx, p, texts)
}

func (m *mortal) FinishBlocks(ctx context.Context, b sqlite.BlockBatch, o []sqlite.BlockOutcome) (int, error) {
	m.event()
	n, err := m.Store.FinishBlocks(ctx, b, o)
	m.event()
	return n, err
}

func (m *mortal) EnqueueMissing(context.Context, int64, int) (int, error) { return 0, nil }

func buildUntilKilled(path, at string) error {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	hash, err := embed.Open(embed.Config{Backend: "hash"})
	if err != nil {
		return err
	}
	m := &mortal{Store: store, Model: hash}
	if m.left, err = strconv.Atoi(at); err != nil {
		return err
	}
	worker := NewQueueWorker(QueueOptions{Queue: m, Blocks: m, Clock: time.Now, Log: slog.New(slog.DiscardHandler),
		Model: func(context.Context) (embed.Model, int64, error) { return m, 1, nil }})
	return errors.Join(worker.Drain(ctx), store.Close())
}

// TestBuildingSurvivesKill kills a real process that builds blocks at every call of
// the model and before and after every publication, edits a record while it is
// dead, and starts it again: the file is sound each time, no set is in part or of
// another text, what was published is not embedded again, and in the end the file
// has what an undisturbed builder makes.
// BR-104, BR-105, BR-106, BR-111
func TestBuildingSurvivesKill(t *testing.T) {
	ctx := t.Context()
	const records = blocksRemote + 3
	path := filepath.Join(t.TempDir(), "recall.db")
	w := newBlockWorld(t) // what an undisturbed builder makes of the last texts
	prepared, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	identity, err := w.model.Identity(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := prepared.PutModel(ctx, sqlite.Model{Backend: "hash", Name: "h", Dims: identity.Dims, Probes: identity.Probes, State: sqlite.ModelActive}); err != nil {
		t.Fatal(err)
	}
	texts := make([]string, records)
	for i := range texts {
		texts[i] = sentences(fmt.Sprint("note ", i), 3)
		if _, err := prepared.StoreMemories(ctx, []sqlite.NewMemory{{Cell: memory.Cell{Agent: "mia"}, Content: texts[i]}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := prepared.Close(); err != nil {
		t.Fatal(err)
	}
	published, edits := 0, 0
	var deaths []int
	for round := 0; ; round++ {
		// The first batch dies at each of its events, the second at its own; event 10
		// is the one after the first publication.
		at := round%(blocksRemote+2) + 1
		if published >= blocksRemote {
			at = round%7 + 1
		}
		if round > 30 {
			at = 0
		}
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), killedPath+"="+path, killedAt+"="+strconv.Itoa(at))
		out, err := child.CombinedOutput()
		var died *exec.ExitError
		killed := errors.As(err, &died) && died.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
		if err != nil && !killed {
			t.Fatalf("round %d: %v: %s", round, err, out)
		}
		deaths = append(deaths, at)
		store, err := sqlite.Open(ctx, path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, check := range store.Checks() {
			if f, err := check.Run(ctx); err != nil || !f.OK && check.Name != "missing_vectors" {
				t.Errorf("round %d, killed at %d: check %s: %v, %v", round, at, check.Name, f.Evidence, err)
			}
		}
		sets := setsIn(t, store, 1)
		if len(sets) < published-1 { // one may have been dropped by the edit below
			t.Errorf("round %d: %d sets, %d were published before", round, len(sets), published)
		}
		published = len(sets)
		if killed && edits < 4 {
			id := []int{1, 3, records, 2}[edits]
			edits++
			texts[id-1] = sentences(fmt.Sprint("edited ", edits), 4)
			if _, err := store.Update(ctx, "mia", memory.Ref{Kind: memory.KindMemory, ID: int64(id)}, sqlite.Patch{Content: &texts[id-1]}); err != nil {
				t.Fatal(err)
			}
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if !killed {
			w.say(t, texts...)
			w.drain(t)
			want := w.sets(t)
			for ref, set := range sets {
				if x := want[ref]; !slices.Equal(x.Blocks, set.Blocks) || !bytes.Equal(x.Bits, set.Bits) || !bytes.Equal(x.Values, set.Values) {
					t.Errorf("%s has another set than an undisturbed builder makes", ref)
				}
			}
			if len(sets) != records {
				t.Errorf("%d sets of %d records", len(sets), records)
			}
			break
		}
	}
	for at := 1; at <= blocksRemote+2; at++ {
		if !slices.Contains(deaths, at) {
			t.Errorf("it never died at event %d: %s", at, strings.Trim(fmt.Sprint(deaths), "[]"))
		}
	}
}
