package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"recalld/bench"
	"recalld/coordinator"
	"recalld/front/api"
)

func (a *app) benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure quality and speed on this machine",
		Long: `Measure quality and speed on this machine. Benches work in a temporary folder of
their own (TMPDIR) and never touch --data.`,
		Example: `  recalld bench quality --dataset locomo --path ./locomo --json
  recalld bench store --json`,
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.benchQuality(), a.benchLexical(), a.benchSimilarity(), a.benchEmbed(), a.benchStore(), a.benchReach(), a.benchSplit(), a.benchScan(), a.benchFidelity(), a.benchLadder(), a.benchReport(), a.benchCompare(), a.benchPeers(), a.benchLoad(), a.benchRebuild())
	return c
}

func (a *app) benchQuality() *cobra.Command {
	var dataset, arms string
	var o bench.QualityOptions
	c := &cobra.Command{
		Use:   "quality",
		Short: "Ask a public question set and score the answers",
		Long: `Store every turn of a dataset as a record, ask each question inside its own
conversation with gate and autocut off, and score the memories that come back.
NDCG@10 is the mean over the question categories, in percent.`,
		Example: `  recalld bench quality --dataset locomo --path ./locomo --arms fts --json
  recalld bench quality --path ./locomo --arms all --fusion rrf`,
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if dataset != "locomo" {
				return usage("dataset %q is not known; choose locomo", dataset)
			}
			if o.Folder == "" {
				return usage("name the folder of turns.jsonl and questions.jsonl with --path")
			}
			if arms != "" {
				o.Arms = []string{arms}
			}
			s, clean, err := a.scratch(c)
			if err != nil {
				return err
			}
			defer clean()
			progress, done := a.bar("questions", false)
			o.Progress, o.Clock = progress, time.Now
			report, err := bench.Quality(c.Context(), s, o)
			done()
			if err != nil {
				return err
			}
			report.Machine = bench.ThisMachine(time.Now(), version())
			return a.print(report, func(w io.Writer) {
				fmt.Fprintf(w, "NDCG@10 %.2f  (halves %.2f, %.2f)\n", report.NDCG.Mean, report.NDCG.FirstHalf, report.NDCG.SecondHalf)
				for _, category := range slices.Sorted(maps.Keys(report.NDCG.ByCategory)) {
					fmt.Fprintf(w, "  %-20s %.2f\n", category, report.NDCG.ByCategory[category])
				}
				fmt.Fprintf(w, "hit@1 %.3f  hit@10 %.3f  MRR %.3f\n", report.Hit1, report.Hit10, report.MRR)
				fmt.Fprintf(w, "recall p50 %.2f ms  p95 %.2f ms  (embedding excluded)\n", report.RecallMS.P50, report.RecallMS.P95)
				fmt.Fprintf(w, "%d rows, %d questions, model %s\n", report.Rows, report.Questions, report.Model)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&dataset, "dataset", "locomo", "which question set")
	f.StringVar(&o.Folder, "path", "", "folder that holds it")
	f.StringVar(&arms, "arms", "", "vector, lexical, fts or all (default: the server's setting)")
	f.StringVar(&o.Fusion, "fusion", "", "rsf or rrf (default: the server's setting)")
	c.MarkFlagDirname("path")
	return c
}

func (a *app) benchStore() *cobra.Command {
	var records, clients int
	c := &cobra.Command{
		Use:     "store",
		Short:   "Durable stores per second through the socket, beside a bare insert loop",
		Example: "  recalld bench store --records 1000 --clients 16 --json",
		Args:    exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			s, clean, err := a.scratch(c)
			if err != nil {
				return err
			}
			defer clean()
			bare, err := os.MkdirTemp("", "recalld-bare-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(bare)
			var report *bench.StoreReport
			dial := func() (coordinator.Service, error) { return api.Dial(a.data) }
			err = a.serve(c.Context(), s, nil, func(ctx context.Context) (err error) {
				report, err = bench.Store(ctx, bench.StoreOptions{Folder: bare, Records: records, Clients: clients, Dial: dial, Clock: time.Now})
				return err
			})
			if err != nil {
				return err
			}
			report.Machine = bench.ThisMachine(time.Now(), version())
			return a.print(report, func(w io.Writer) {
				fmt.Fprintf(w, "bare inserts %.0f/s, one client %.0f/s (ratio %.2f), %d clients %.0f/s\n", report.Bare, report.One, report.Ratio, report.Clients, report.Concurrent)
			})
		},
	}
	c.Flags().IntVar(&records, "records", 1_000, "records per client and run")
	c.Flags().IntVar(&clients, "clients", 16, "clients of the concurrent run")
	return c
}

// scratch opens a service over a new temporary folder, which clean removes.
func (a *app) scratch(c *cobra.Command) (s *session, clean func(), err error) {
	folder, err := os.MkdirTemp("", "recalld-bench-")
	if err != nil {
		return nil, nil, err
	}
	a.data = folder
	s, err = a.openToServe(c.Context())
	if err != nil {
		os.RemoveAll(folder)
		return nil, nil, err
	}
	return s, func() {
		s.Close()
		os.RemoveAll(folder)
	}, nil
}
