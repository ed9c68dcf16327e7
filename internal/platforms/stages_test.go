package platforms

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"recalld/coordinator"
	"recalld/coordinator/admission"
	"recalld/coordinator/prior"
	"recalld/memory"
	"recalld/sqlite"
)

func best(rows []memory.Candidate) []memory.Candidate {
	slices.SortFunc(rows, memory.Compare)
	return rows[:min(depth, len(rows))]
}

func before(d time.Duration) memory.Time { return memory.TimeOf(now.Add(-d)) }

// series writes the first values of a function, and a digest of 20,000.
func series(b *strings.Builder, name string, value func(i int) float64) {
	var all strings.Builder
	for i := range 20_000 {
		fmt.Fprintln(&all, exact(value(i)))
	}
	fmt.Fprintf(b, "%s: %s %s %s ... %s\n", name, exact(value(1)), exact(value(2)), exact(value(3)), digest([]byte(all.String())))
}

func writePriors(b *strings.Builder) {
	boundary := prior.Boundary{Newest: memory.TimeOf(now), Rate: .01, Floor: .5}
	series(b, "by age of 13 seconds each", func(i int) float64 {
		return boundary.Factor(memory.Record{Ref: memory.Ref{Kind: memory.KindMemory, ID: 1}, Time: before(time.Duration(i) * 13 * time.Second)})
	})
}

func writeConfidences(b *strings.Builder) {
	scorer := admission.Scorer{
		CosineFloor: .2, CosineCeil: .75, DecayRate: .005, ReferenceHours: 168, MinRangeHours: 24,
		DecayFloor: .3, DecayCeil: .5, RecallBoost: .02, BoostDecay: .002,
		ResolvedFactor: .3, RecentFactor: .7, RecentMinutes: 5,
	}
	span := admission.Span{Min: before(9000 * time.Hour), Max: before(time.Hour)}
	series(b, "by age of 7 minutes each", func(i int) float64 {
		cosine := .2 + float64(i%500)/1000
		r := memory.Record{
			Ref: memory.Ref{Kind: memory.KindMemory, ID: 1}, Time: before(time.Duration(i) * 7 * time.Minute),
			RecallCount: int64(i % 40), LastRecalled: before(time.Duration(i%900) * time.Hour),
		}
		return scorer.Score(r, &cosine, span, now.UnixMilli(), false).Score
	})
}

func writeGates(b *strings.Builder) {
	for _, signal := range []admission.Signal{admission.Confidence, admission.ReciprocalRank} {
		series(b, string(signal), func(i int) float64 {
			return admission.NewGate(admission.GateInput{Signal: signal, Relative: true, Pool: int64(i), K: 60}).Threshold
		})
	}
}

// writeThresholds calibrates on cosines of questions to their best rows against
// those to all rows.
func (c *corpus) writeThresholds(b *strings.Builder) {
	near := c.nearest("static")
	var null, positives []float64
	for _, q := range c.questions {
		for i, row := range near(q) {
			if i < 3 {
				positives = append(positives, row.Key)
			} else {
				null = append(null, row.Key)
			}
		}
	}
	for _, m := range []admission.Method{admission.Separation, admission.Percentile, admission.ZScore} {
		fmt.Fprintf(b, "%s %s\n", m, exact(admission.Threshold(m, null, positives, admission.Balanced.Beta(), 0)))
	}
}

// serve stores the corpus in a new file and opens a server on it.
func (c *corpus) serve(backend string) (*sqlite.Store, *coordinator.Coordinator) {
	c.t.Helper()
	ctx := context.Background()
	clock := func() time.Time { return now }
	store, err := sqlite.Open(ctx, filepath.Join(c.t.TempDir(), "recall.db"), sqlite.Options{Clock: clock})
	if err != nil {
		c.t.Fatal(err)
	}
	server, err := coordinator.New(ctx, coordinator.Config{Store: store, Clock: clock, Version: "test", Seed: 1, Overrides: map[string]string{
		"embedding.backend":        backend,
		"confidence.enabled":       "true",
		"confidence.count_recalls": "false",
		"prior.episode":            "true",
		"prior.episode_rate":       "0.0001",
		"fusion.weight.vector":     "0.3",
		"fusion.weight.lexical":    "0.7",
		"fusion.weight.fts":        "0.6",
		// Built in the background, they would be there or not.
		"blocks.build":    "false",
		"blocks.retrieve": "false",
	}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := server.Close(); err != nil {
			c.t.Error(err)
		}
		if err := store.Close(); err != nil {
			c.t.Error(err)
		}
	})
	stored, err := server.Store(ctx, coordinator.StoreRequest{Agent: agent, Items: c.items})
	if err != nil {
		c.t.Fatal(err)
	}
	for i, r := range stored.Results {
		if r.Outcome == coordinator.OutcomeRejected {
			c.t.Fatalf("item %d: %s", i, r.Error)
		}
	}
	return store, server
}

// matching ranks by the scores that SQLite's C code computes.
func (c *corpus) matching() func(question string) []memory.Candidate {
	c.t.Helper()
	store, _ := c.serve("none")
	return func(question string) []memory.Candidate {
		view, err := store.View(context.Background())
		if err != nil {
			c.t.Fatal(err)
		}
		defer view.Close()
		rows, _, err := view.MatchFTS(memory.Scope{Agent: agent}, memory.KindMemory, sqlite.BuildFTSQuery(question), depth, "")
		if err != nil {
			c.t.Fatal(err)
		}
		return rows
	}
}

// writeAnswers writes what each question gets from a server.
func (c *corpus) writeAnswers(b *strings.Builder, d *datadriven.TestData) {
	c.t.Helper()
	ctx := context.Background()
	_, server := c.serve(backendOf(c.t, d))
	var fusionMode string
	var arms []string
	d.ScanArgs(c.t, "fusion", &fusionMode)
	for _, argument := range d.CmdArgs {
		if argument.Key == "arms" {
			arms = argument.Vals
		}
	}
	for _, q := range strings.Split(d.Input, "\n") {
		answer, err := server.Recall(ctx, coordinator.RecallRequest{Agent: agent, Query: q, Arms: arms, Fusion: fusionMode, Count: 5, Explain: true})
		if err != nil {
			c.t.Fatal(err)
		}
		fmt.Fprintf(b, "%s\n  gate %v, rankings %s\n", q, exact(answer.Explain.Gate.Threshold), digest(rankings(answer.Explain.Arms)))
		for _, row := range answer.Rows {
			fmt.Fprintf(b, "  %s score %v confidence %v", row.Ref, *row.Score, row.Confidence.Score)
			if row.MatchReason.Prior != nil {
				fmt.Fprintf(b, " prior %v", *row.MatchReason.Prior)
			}
			if row.MatchReason.Evidence != nil {
				fmt.Fprintf(b, " evidence %v", *row.MatchReason.Evidence)
			}
			for _, vote := range row.MatchReason.Arms {
				fmt.Fprintf(b, " %s %v", vote.Arm, vote.Score)
			}
			fmt.Fprintln(b)
		}
	}
}

// rankings are all candidates of all arms as an answer shows them.
func rankings(arms []coordinator.ArmReport) []byte {
	var b []byte
	for _, a := range arms {
		for _, c := range a.Candidates {
			b = fmt.Appendln(b, a.Arm, c.Ref, c.Score)
		}
	}
	return b
}
