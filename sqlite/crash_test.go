package sqlite_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"recalld/memory"
	"recalld/sqlite"
	"recalld/sqlite/powercut"
)

// childPath in the environment makes the test binary the child of
// TestAcknowledgedSurvivesKill.
const childPath = "RECALLD_TEST_CRASH_PATH"

func TestMain(m *testing.M) {
	flag.Parse()
	if path := os.Getenv(childPath); path != "" {
		workUntilKilled(path, os.Getenv(childPath+"_ROUND"))
	}
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": fmt.Sprint(rapidChecks), "rapid.nofailfile": "true"} {
		if given[name] {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// step is one acknowledged step in the life of one record.
type step struct {
	worker, record, number int
}

// The life of a record: stored, with a vector or queued; perhaps edited, perhaps
// embedded, perhaps deleted. life returns the content after each step, "" once
// it is deleted.
func life(worker, record int) (contents []string) {
	text := func(n int) string {
		return fmt.Sprintf("worker %d record %d step %d %s", worker, record, n, strings.Repeat("filling ", record%60))
	}
	contents = []string{text(0)}
	if record%3 == 0 {
		contents = append(contents, text(1))
	}
	if record%4 == 1 {
		contents = append(contents, "")
	}
	return contents
}

// live carries out the life of one record and reports each step once the store
// has acknowledged it.
func live(ctx context.Context, s *sqlite.Store, model int64, worker, record int, done func(step)) error {
	agent := fmt.Sprint("agent ", worker%3)
	var ref memory.Ref
	for n, content := range life(worker, record) {
		switch {
		case n == 0:
			item := sqlite.NewMemory{Cell: cell(agent, fmt.Sprint("project ", record%2), ""), Content: content, Queue: []int64{model}, Time: memory.Time{Milli: int64(record), Known: true}}
			if record%2 == 0 {
				item.Queue, item.Vector, item.Model = nil, []float32{1, 0}, model
			}
			r, err := s.StoreMemories(ctx, []sqlite.NewMemory{item})
			if err != nil {
				return err
			}
			if ref = r[0].Ref; r[0].Outcome != sqlite.OutcomeStored {
				return fmt.Errorf("record %d of worker %d: %+v", record, worker, r[0])
			}
		case content == "":
			if r, err := s.Delete(ctx, agent, []memory.Ref{ref}); err != nil || r[0].Outcome != sqlite.OutcomeDeleted {
				return fmt.Errorf("delete %s: %v, %w", ref, r, err)
			}
		default:
			if _, err := s.Update(ctx, agent, ref, sqlite.Patch{Content: &content}); err != nil {
				return err
			}
		}
		done(step{worker, record, n})
		if record%4 == 2 && content != "" {
			if _, err := s.PutBlockSets(ctx, []sqlite.BlockSet{setOf(ref, model, content, 2+n, record, 2)}); err != nil {
				return err
			}
		}
	}
	if record%5 > 0 {
		return nil
	}
	tasks, err := s.Claim(ctx, model, 3, time.Minute)
	if err != nil {
		return err
	}
	for _, task := range tasks {
		if _, err := s.PutVectors(ctx, []sqlite.Vector{{Ref: task.Ref, Model: model, Revision: task.Revision, Values: []float32{0, 1}}}); err != nil {
			return err
		}
	}
	return nil
}

// survived holds a store to what was acknowledged: every record is as its last
// acknowledged step left it, or as the step after that would, which may have
// been under way. Every check passes.
func survived(t *testing.T, s *sqlite.Store, acknowledged []step) {
	t.Helper()
	type key struct{ worker, record int }
	last := map[key]int{}
	for _, a := range acknowledged {
		k := key{a.worker, a.record}
		if n, ok := last[k]; !ok || a.number > n {
			last[k] = a.number
		}
	}
	present := map[key]string{}
	v := view(t, s)
	defer v.Close()
	for i := range 3 {
		records, err := v.List(memory.Scope{Agent: fmt.Sprint("agent ", i)}, sqlite.Filter{Kind: memory.KindMemory, Limit: 1_000_000})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			var k key
			var n int
			if _, err := fmt.Sscanf(r.Content, "worker %d record %d step %d", &k.worker, &k.record, &n); err != nil {
				t.Fatalf("%s has a text that nobody stored: %q", r.Ref, r.Content)
			}
			contents := life(k.worker, k.record)
			if n >= len(contents) || contents[n] != r.Content {
				t.Fatalf("%s has a text that nobody stored: %q", r.Ref, r.Content)
			}
			if _, twice := present[k]; twice {
				t.Errorf("record %v is there twice", k)
			}
			present[k] = r.Content
		}
	}
	for k, n := range last {
		contents := life(k.worker, k.record)
		got := present[k]
		if got != contents[n] && (n+1 == len(contents) || got != contents[n+1]) {
			t.Errorf("record %v was acknowledged in step %d and holds %q", k, n, got)
		}
	}
	v.Close()
	sound(t, s)
}

// workUntilKilled is the child: eight workers live records and write each
// acknowledged step to standard output. It ends by being killed.
func workUntilKilled(path, round string) {
	fail := func(err error) {
		fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(1)
	}
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path, sqlite.Options{Readers: 1})
	if err != nil {
		fail(err)
	}
	m, ok, err := s.ActiveModel(ctx, "agent 0")
	if err != nil || !ok {
		fail(fmt.Errorf("no model: %w", err))
	}
	var base int
	if _, err := fmt.Sscan(round, &base); err != nil {
		fail(err)
	}
	var out sync.Mutex
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for record := 0; ; record++ {
				err := live(ctx, s, m.ID, base*8+w, record, func(a step) {
					out.Lock()
					defer out.Unlock()
					fmt.Println("step", a.worker, a.record, a.number)
				})
				if err != nil {
					fail(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestAcknowledgedSurvivesKill kills a process that stores, edits, deletes and
// embeds, again and again over one file: nothing that it acknowledged is lost,
// and the file is sound.
// DECISIONS 13
func TestAcknowledgedSurvivesKill(t *testing.T) {
	s, path := openStore(t, sqlite.Options{})
	measured(t, s, 2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	total := 0
	var acknowledged []step
	for round := range kills {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childPath+"="+path, childPath+fmt.Sprint("_ROUND=", round))
		child.Stderr = os.Stderr
		pipe, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		// The child dies after a number of steps and a moment more, so that the kill
		// falls anywhere in what it does.
		enough, moment := 1+rng.IntN(60), time.Duration(rng.IntN(4_000))*time.Microsecond
		seen := 0
		lines := bufio.NewReader(pipe)
		for {
			line, err := lines.ReadString('\n')
			if err == io.EOF {
				break
			}
			var a step
			if _, err := fmt.Sscanf(line, "step %d %d %d\n", &a.worker, &a.record, &a.number); err != nil {
				t.Fatalf("round %d: %q", round, line)
			}
			acknowledged = append(acknowledged, a)
			if seen++; seen == enough {
				time.Sleep(moment)
				if err := child.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := child.Wait(); err == nil || seen < enough {
			t.Fatalf("round %d: the child ended by itself after %d steps", round, seen)
		}
		total += seen
		if round%10 == 9 || round == kills-1 {
			after := reopen(t, path, sqlite.Options{Readers: 1})
			survived(t, after, acknowledged)
			if err := after.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d kills, %d steps acknowledged", kills, total)
}

// TestAcknowledgedSurvivesPowerCut records what the store asks of its disk,
// leaves of it what power cuts at many moments could have left, unsynced writes
// dropped, torn and reordered, and opens each: nothing that was acknowledged is
// lost, and the file is sound.
// DECISIONS 13
func TestAcknowledgedSurvivesPowerCut(t *testing.T) {
	const seeds = 4
	for seed := range uint64(seeds) {
		log, steps := recorded(t, seed, false)
		replay, rng := log.Replay(), rand.New(rand.NewPCG(seed, 3))
		for i, cut := range log.Cuts(rng, cuts/seeds) {
			folder := filepath.Join(t.TempDir(), "image")
			image, err := replay.Crash(rng, cut, folder)
			if err != nil {
				t.Fatal(err)
			}
			s, err := sqlite.Open(context.Background(), filepath.Join(folder, "recall.db"), sqlite.Options{Readers: 1})
			if err != nil {
				t.Fatalf("seed %d, cut %d at operation %d: %v", seed, i, cut, err)
			}
			var acknowledged []step
			for _, id := range image.Acknowledged {
				acknowledged = append(acknowledged, steps[id])
			}
			survived(t, s, acknowledged)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if t.Failed() {
				t.Fatalf("seed %d, cut %d at operation %d of %d", seed, i, cut, log.Len())
			}
			if err := os.RemoveAll(folder); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestPowerCutWouldBeNoticed: with a disk whose syncs do nothing the same harness
// does find losses, so its silence means something.
func TestPowerCutWouldBeNoticed(t *testing.T) {
	log, steps := recorded(t, 1, true)
	replay, rng := log.Replay(), rand.New(rand.NewPCG(1, 3))
	for _, cut := range log.Cuts(rng, 50) {
		folder := filepath.Join(t.TempDir(), "image")
		image, err := replay.Crash(rng, cut, folder)
		if err != nil {
			t.Fatal(err)
		}
		s, err := sqlite.Open(context.Background(), filepath.Join(folder, "recall.db"), sqlite.Options{Readers: 1})
		if err != nil {
			return // damaged: noticed
		}
		st, err := s.Stats(context.Background())
		if closing := s.Close(); err != nil || closing != nil {
			return
		}
		stored := 0
		for _, id := range image.Acknowledged {
			if steps[id].number == 0 {
				stored++
			}
			if contents := life(steps[id].worker, steps[id].record); contents[steps[id].number] == "" {
				stored--
			}
		}
		if st.Memories < int64(stored-3) { // three more may be on their way out
			return
		}
	}
	t.Error("fifty power cuts on a lying disk lost nothing")
}

// recorded runs three workers over a recording disk. A mark is an index of steps.
func recorded(t *testing.T, seed uint64, lying bool) (*powercut.Log, []step) {
	t.Helper()
	s, path := openStore(t, sqlite.Options{})
	m := measured(t, s, 2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	disk, err := powercut.Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if lying {
		disk.LieAboutSyncs()
	}
	s, err = sqlite.Open(context.Background(), path, sqlite.Options{VFS: disk.Name(), Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var steps []step
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for record := range 30 {
				err := live(context.Background(), s, m, int(seed)*3+w, record, func(a step) {
					mu.Lock()
					defer mu.Unlock()
					disk.Mark(int64(len(steps)))
					steps = append(steps, a)
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	log := disk.Log()
	if err := disk.Close(); err != nil {
		t.Fatal(err)
	}
	return log, steps
}
