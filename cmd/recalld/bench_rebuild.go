package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"recalld/bench"
	"recalld/coordinator"
)

func (a *app) benchRebuild() *cobra.Command {
	var o bench.RebuildOptions
	var records int
	var seconds float64
	c := &cobra.Command{
		Use:   "rebuild",
		Short: "What recalls take while the derived codes are rebuilt",
		Long: `Build one rung of the ladder, or take up one that is finished, find out how many
recalls a second it answers, and ask at a quarter of that, in turns while nothing
else goes on and while recalld index rebuild is done again and again.`,
		Example: `  recalld bench rebuild --records 10000 --json
  recalld bench rebuild --records 100000 --folder ./rungs --seconds 30 --rounds 3`,
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.Ladder.Folder == "" {
				folder, err := os.MkdirTemp("", "recalld-rebuild-")
				if err != nil {
					return err
				}
				defer os.RemoveAll(folder)
				o.Ladder.Folder = folder
			}
			a.scanner.serves = true
			o.Ladder.Overrides = a.embed.settings()
			a.scanner.override(o.Ladder.Overrides)
			if o.Ladder.Scanner, err = a.scanner.config(io.Discard); err != nil {
				return err
			}
			o.Ladder.Records, o.For, o.Ladder.Clock = []int{records}, bench.Span(seconds), time.Now
			o.Ladder.Phase = func(title string) (coordinator.Progress, func()) { return a.bar(title, false) }
			report, err := bench.Rebuild(c.Context(), o)
			if err != nil {
				return err
			}
			report.Machine = bench.ThisMachine(time.Now(), version())
			return a.print(report, func(w io.Writer) { writeRebuild(w, report) })
		},
	}
	f := c.Flags()
	f.IntVar(&records, "records", 10_000, fmt.Sprintf("records of the rung, 20 to %d", bench.MaxLadderRecords))
	f.StringVar(&o.Ladder.Shape, "shape", bench.ShapeOne, strings.Join(bench.LadderShapes(), ", "))
	f.StringVar(&o.Ladder.Folder, "folder", "", "where the rung is built and kept (default a temporary folder)")
	f.IntVar(&o.Ladder.Questions, "questions", 0, "questions of each kind at most (default all)")
	f.Float64Var(&seconds, "seconds", 10, "of one round")
	f.IntVar(&o.Rounds, "rounds", 3, "rounds of each kind")
	c.MarkFlagDirname("folder")
	return c
}

func writeRebuild(w io.Writer, r *bench.RebuildReport) {
	fmt.Fprintf(w, "%s, %d records: %.1f recalls a second at most, asked %.1f\n", r.Shape, r.Records, r.Capacity, r.Rate)
	for i, l := range []bench.Latencies{r.Quiet, r.Beside} {
		fmt.Fprintf(w, "  %-16s p50 %.2f ms, p95 %.2f, p99 %.2f, of %d recalls; %.2f processors\n", []string{"quiet", "beside rebuilds"}[i], l.P50, l.P95, l.P99, r.Recalls[i], r.CPU[i])
	}
	fmt.Fprintf(w, "  p95 %.2f times as long; %d rebuilds of %.1f s, alone %.1f s\n", r.P95Ratio, r.Rebuilds, r.RebuildS, r.AloneS)
}
