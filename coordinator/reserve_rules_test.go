package coordinator

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"recalld/blocks"
	"recalld/coordinator/admission"
	"recalld/coordinator/arm"
	"recalld/embed"
	"recalld/sqlite"
)

// BR-063, BR-065, BR-066, BR-143, BR-149: a gate that lets hardly a row through
// neither sees a reserved row nor hears of its block; the rows that it does let
// through are those of a recall without blocks.
func TestNoBlockReachesTheGate(t *testing.T) {
	b, query, names := counter(t, nil)
	if err := b.store.PutCalibration(t.Context(), sqlite.Calibration{Agent: "mia", Model: 1, Dims: 512, Signal: "rsf", Method: "separation", Precision: "balanced", Threshold: .97, ScoringVersion: admission.ScoringVersion}); err != nil {
		t.Fatal(err)
	}
	a := b.recall(RecallRequest{Agent: "mia", Query: query, Explain: true})
	gate, reserved := named(names, a.Rows)
	if a.Explain.Gate.Source != admission.SourceCalibrated || len(gate) == 0 || len(gate) > 5 || len(reserved) != 3 || reserved[0] != "X1" {
		t.Fatalf("%+v lets %v through, and %v are reserved", a.Explain.Gate, gate, reserved)
	}
	for _, x := range a.Explain.Exclusions {
		if name := names[x.Ref]; strings.HasPrefix(name, "X") || slices.Contains(reserved, name) {
			t.Errorf("%s, which is reserved or no candidate of the gate, was dropped at %s", name, x.Stage)
		}
	}
	b.policed(func(p *Policy) { p.BlockRetrieve = false })
	if without, _ := named(names, b.recall(RecallRequest{Agent: "mia", Query: query}).Rows); !slices.Equal(without, gate) {
		t.Errorf("without blocks %v, with them %v", without, gate)
	}
}

// RR-420, BR-064: a reserved row is not counted as recalled, because the counts
// feed the score that the gate reads.
func TestReservedRowsAreNotCounted(t *testing.T) {
	b, query, _ := counter(t, map[string]string{"confidence.enabled": "true"})
	a := b.recall(RecallRequest{Agent: "mia", Query: query, Count: 2})
	if err := b.counters.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	reserved := 0
	for _, row := range a.Rows {
		want := 1
		if row.Admission != "" {
			want, reserved = 0, reserved+1
		}
		if got := b.record(row.Ref).RecallCount; int(got) != want {
			t.Errorf("%s %q was counted %d times, want %d", row.Ref, row.Admission, got, want)
		}
	}
	if reserved != 3 {
		t.Errorf("%d reserved rows", reserved)
	}
}

// BR-041, BR-073, RR-011: what the block arm could not do is in the answer: no
// vector of the query, and blocks left out of the scan. What it could see is in
// the coverage.
func TestBlockArmSaysWhatItCouldNot(t *testing.T) {
	b, query, _ := counter(t, nil)
	r := RecallRequest{Agent: "mia", Query: query}
	a := b.recall(r)
	if got, want := *a.Coverage.Blocks, (BlockCoverage{Scanned: 10, Blocks: 10, Records: 5, Pending: a.Coverage.Blocks.Pending}); got != want || len(a.Degraded) != 0 {
		t.Errorf("coverage %+v, degraded %v", got, a.Degraded)
	}
	b.policed(func(p *Policy) { p.BlockScanCap = 3 })
	a = b.recall(r)
	if got := reasons(a); !slices.Equal(got, []string{"block scan_cap"}) || a.Coverage.Blocks.Scanned != 3 {
		t.Errorf("degraded %v, coverage %+v", got, a.Coverage.Blocks)
	}
	none := open(t, map[string]string{"embedding.backend": "none", "blocks.retrieve": "true"})
	none.put("mia", say("One thing. And another."))
	if a := none.recall(r); !slices.Equal(reasons(a), []string{"vector no_model", "block no_model"}) || a.Coverage.Blocks != nil {
		t.Errorf("without a model: %v, %+v", a.Degraded, a.Coverage.Blocks)
	}
	if a := none.recall(RecallRequest{Agent: "mia", Query: query, Arms: []string{"lexical"}}); len(a.Degraded) != 0 {
		t.Errorf("words alone were asked for: %v", a.Degraded)
	}
}

// DECISIONS 1 and 2, BR-092, BR-139: what blocks add is the same bytes beside
// nobody and beside another agent whose blocks match as well, from a cache and
// without one, through a scanner or not, from sets that were built in another order, and after a restart.
func TestNeighboursNeverChangeWhatBlocksAdd(t *testing.T) {
	dir := t.TempDir()
	run, added := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		seed, records := rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(3, 20).Draw(rt, "records")
		settings := beforeSettings()
		settings["vector.cache_mib"] = rapid.SampledFrom([]string{"0", "256"}).Draw(rt, "cache")
		through := rapid.Bool().Draw(rt, "through a scanner")
		world := func(name string) *bench {
			folder := filepath.Join(dir, fmt.Sprint(run, name))
			if err := os.Mkdir(folder, 0o700); err != nil {
				rt.Fatal(err)
			}
			settings["blocks.retrieve"] = "true"
			if name == "beside" && through {
				return openWith(t, filepath.Join(folder, "recall.db"), settings, ownScanner(t))
			}
			return openAt(t, filepath.Join(folder, "recall.db"), settings)
		}
		alone, beside := world("alone"), world("beside")
		defer alone.down()
		defer beside.down()
		l, others := newLanguage(seed), newLanguage(seed+9)
		for i := range records {
			text := fmt.Sprintf("%s No. %d", library(l, 1+l.random.IntN(12)), i)
			if others.random.IntN(2) == 0 {
				beside.put("ken", say(text), say(library(others, 8)+fmt.Sprint(i)))
			}
			alone.put("mia", say(text))
			beside.put("mia", say(text))
			if others.random.IntN(4) == 0 {
				beside.drain()
			}
		}
		alone.drain()
		beside.drain()
		questions := func(b *bench) string {
			var out strings.Builder
			for _, q := range inquiries(seed, 6) {
				q.Agent, q.SourceID = "mia", ""
				if e := q.Arms; slices.Contains(e, "lexical") {
					q.Explain = false // postings touched follow the cut into files
				}
				a := b.recall(q)
				if a.Explain != nil {
					for i := range a.Explain.Arms {
						a.Explain.Arms[i].Scanned = 0
					}
				}
				for _, row := range a.Rows {
					if row.Admission != "" {
						added++
					}
				}
				out.WriteString(encode(t, a))
			}
			return renumber(b, "mia", out.String())
		}
		want := questions(alone)
		for _, what := range []string{"cold", "warm", "forgotten", "built", "restarted"} {
			switch what {
			case "forgotten":
				beside.matrices.Forget()
			case "built":
				if through {
					beside.built()
				}
			case "restarted":
				beside.restart()
			}
			if got := questions(beside); got != want {
				rt.Fatalf("%s: %s", what, firstDifference(got, want))
			}
		}
	})
	if added == 0 {
		t.Error("no row was ever added: the property held nothing")
	}
}

// BR-128, BR-130, BR-136, DECISIONS 24 and 25: the limits of blocks and their
// switches have the values that were registered, and no value is accepted outside
// its range.
func TestLimitsOfBlocks(t *testing.T) {
	p, err := policyOf(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !p.BlockBuild || !p.BlockRetrieve || p.BlockReserved != 3 || p.blockLimits() != (arm.BlockLimits{PerParent: 64, Rerank: 200}) || mostInProcess != 250_000 || blocks.QuoteLimit != 1_500 || blocks.MaxLen != 739 {
		t.Errorf("got %+v", p)
	}
	for name, value := range map[string]string{"blocks.reserved": "11", "blocks.parent_cap": "-1", "blocks.scan_cap": "many", "blocks.retrieve": "yes"} {
		if _, err := policyOf(nil, map[string]string{name: value}); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s = %s: %v", name, value, err)
		}
	}
}

// counted is a model that counts what it is asked.
type counted struct {
	embed.Model
	texts atomic.Int64
}

func (c *counted) Embed(ctx context.Context, p embed.Purpose, texts []string) ([][]float32, error) {
	c.texts.Add(int64(len(texts)))
	return c.Model.Embed(ctx, p, texts)
}

// BR-010, BR-057, BR-058: a recall embeds its query and nothing else; blocks and
// their quotations come from what is stored.
func TestRecallEmbedsItsQueryAlone(t *testing.T) {
	b := open(t, map[string]string{"blocks.retrieve": "true", "answer.preview_chars": "40"})
	hash, err := embed.Open(embed.Config{Backend: "hash"})
	if err != nil {
		t.Fatal(err)
	}
	model := &counted{Model: hash}
	b.down()
	b.cfg.Model = model
	b.up()
	shelve(b, 3, 40)
	b.drain()
	quoted := 0
	for _, query := range []string{"a token at the door", "二号機は止まっているか", "编号的通知在哪里丢弃"} {
		before := model.texts.Load()
		for _, row := range b.recall(RecallRequest{Agent: "mia", Query: query}).Rows {
			if row.Quote != nil {
				quoted++
			}
		}
		if n := model.texts.Load() - before; n != 1 {
			t.Errorf("%q: %d texts were embedded", query, n)
		}
	}
	if quoted == 0 {
		t.Error("nothing was quoted")
	}
}
