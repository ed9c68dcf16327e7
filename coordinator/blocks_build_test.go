package coordinator

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"recalld/memory"
	"recalld/sqlite"
)

// parts is a text of n sentences, each a block of its own.
func parts(name string, n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = []string{fmt.Sprintf("The lease of %s ends in month %d.", name, i), fmt.Sprintf("%sの契約は%d月に終わります。", name, i), fmt.Sprintf("%s的合同在第%d个月结束。", name, i)}[i%3]
	}
	return strings.Join(all, "\n\n")
}

func (b *bench) check(name string, fix bool) CheckResult {
	b.t.Helper()
	answer, err := b.Doctor(context.Background(), DoctorRequest{Checks: []string{name}, Fix: fix})
	if err != nil || len(answer.Checks) != 1 {
		b.t.Fatal(answer, err)
	}
	return answer.Checks[0]
}

func (b *bench) blockState() BlockState {
	b.t.Helper()
	status, err := b.Status(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	return status.Blocks
}

// TestBlocksOfTheCorpus: what is stored gets its blocks without being asked for
// them, the status counts them, and the doctor finds and builds what is missing.
// BR-108, BR-117, BR-119, BR-122, BR-005
func TestBlocksOfTheCorpus(t *testing.T) {
	b := open(t, nil)
	b.put("mia", say(parts("alpha", 4)), say("One sentence."), StoreItem{Type: "episode", Summary: parts("beta", 3)})
	b.drain()
	if got := b.blockState(); got != (BlockState{Build: true, Nodes: nodesByWindow, Records: 2, Blocks: 7}) {
		t.Errorf("%+v", got)
	}
	if got := b.check("missing_blocks", false); !got.OK || len(got.Evidence) != 0 {
		t.Errorf("%+v", got)
	}
	// A set that was dropped and marked as looked at is missing; the repair builds it.
	b.down()
	store, err := sqlite.Open(t.Context(), b.path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.AskForBlocks(t.Context(), 1, []memory.Ref{{Kind: memory.KindMemory, ID: 1}}); err != nil {
		t.Fatal(err)
	}
	batch, err := store.NextBlocks(t.Context(), 1, 1, 1_000)
	if err != nil || len(batch.Records) != 1 {
		t.Fatal(batch, err)
	}
	if _, err := store.FinishBlocks(t.Context(), batch, make([]sqlite.BlockOutcome, 1)); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	b.up()
	got := b.check("missing_blocks", false)
	if got.OK || got.Severity != sqlite.SeverityWarning || !strings.Contains(strings.Join(got.Evidence, "\n"), "mem:1 needs blocks") || !strings.Contains(got.Fix, "doctor --fix") {
		t.Errorf("%+v", got)
	}
	if got := b.check("missing_blocks", true); !got.OK || got.Fixed != 1 {
		t.Errorf("%+v", got)
	}
	if got := b.blockState(); got.Records != 2 || got.Blocks != 7 {
		t.Errorf("%+v", got)
	}
}

// TestFallbackEndsWithTheSweep: a set that has lost its vectors puts the whole
// answer into the order of codes; once the sweep has built it again, the same
// query is answered by vectors as before. The scan of codes that are in memory does
// not miss the vectors: they stand in a table of their own.
// BR-054, BR-055, BR-005, BR-060
func TestFallbackEndsWithTheSweep(t *testing.T) {
	b := open(t, map[string]string{"blocks.retrieve": "true"})
	b.put("mia", say(parts("alpha", 4)), say(parts("beta", 5)), say(parts("gamma", 3)))
	b.drain()
	ask := func() *BlockReport {
		return b.recall(RecallRequest{Agent: "mia", Query: "When does the contract of beta end?", Explain: true}).Explain.Blocks
	}
	before := ask()
	if before.Order != "vector" || len(before.Candidates) != 3 {
		t.Fatalf("%+v", before)
	}
	db, err := sql.Open("sqlite3", b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("DELETE FROM block_vec WHERE id = (SELECT vectors FROM block_set WHERE kind = 2 AND parent = 2)"); err != nil {
		t.Fatal(err)
	}
	if got := ask(); got.Order != "hamming" || len(got.Candidates) != 3 {
		t.Errorf("without the vectors of one set: %+v", got)
	}
	if got := b.check("missing_blocks", true); !got.OK || got.Fixed != 1 {
		t.Errorf("%+v", got)
	}
	if got := ask(); encode(t, got) != encode(t, before) {
		t.Errorf("after the sweep: %s, before: %s", encode(t, got), encode(t, before))
	}
}

// TestBlocksOff: the status says so, the doctor has nothing to say, nothing is
// built; and blocks cannot be searched where they are not built.
// BR-127, BR-128, BR-129, BR-133
func TestBlocksOff(t *testing.T) {
	b := open(t, map[string]string{"blocks.build": "false"})
	b.put("mia", say(parts("alpha", 4)))
	b.drain()
	if got := b.blockState(); got != (BlockState{}) {
		t.Errorf("%+v", got)
	}
	if got := b.check("missing_blocks", true); !got.OK || got.Fixed != 0 {
		t.Errorf("%+v", got)
	}
	b.down()
	if p, err := policyOf(nil, nil); err != nil || !p.BlockBuild || !p.BlockRetrieve {
		t.Errorf("both are on by default: %+v, %v", p, err)
	}
	b.cfg.Overrides = map[string]string{"embedding.backend": "hash", "blocks.build": "false"}
	store, err := sqlite.Open(t.Context(), b.path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b.cfg.Store = store
	var refused *memory.FieldError
	if _, err := New(t.Context(), b.cfg); !errors.As(err, &refused) || !strings.Contains(err.Error(), "blocks.build") || !strings.Contains(err.Error(), "blocks.retrieve") {
		t.Errorf("it started: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	b.cfg.Overrides["blocks.retrieve"] = "false"
	b.cfg.Overrides["blocks.build"] = "true"
	b.up()
	b.drain()
	if got := b.blockState(); got.Records != 1 {
		t.Errorf("turned on: %+v", got)
	}
}

// TestBackupHoldsBlocks: a restored file answers with the blocks it was saved with,
// and no model is asked for them again.
// BR-059
func TestBackupHoldsBlocks(t *testing.T) {
	ctx := context.Background()
	b := open(t, nil)
	b.put("mia", say(parts("alpha", 4)), say(parts("beta", 5)))
	b.drain()
	copied := filepath.Join(t.TempDir(), "copy.db")
	if err := b.Backup(ctx, copied, nil); err != nil {
		t.Fatal(err)
	}
	again := openAt(t, copied, map[string]string{"embedding.backend": "none"})
	stored, err := again.store.BlockProgress(ctx, 1)
	if err != nil || stored.Sets != 2 || stored.Blocks != 9 || stored.Waiting != 0 {
		t.Errorf("%+v, %v", stored, err)
	}
	for _, name := range []string{"block_sets", "block_stats", "block_vectors", "block_tasks"} {
		if got := again.check(name, false); !got.OK {
			t.Errorf("%+v", got)
		}
	}
}
