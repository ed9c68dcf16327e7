package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"recalld/bench"
	"recalld/coordinator"
)

func (a *app) benchLadder() *cobra.Command {
	var o bench.LadderOptions
	c := &cobra.Command{
		Use:   "ladder",
		Short: "Quality, speed, memory and files at growing sizes",
		Long: `Build stores of generated records in English, Japanese and Chinese, about twenty
blocks each, through the write path, and ask about statements that were hidden in
them: in their words, in others, and behind what the embedding window reads. Every
rung is one size. Its folder stays under --folder, is taken up where a run was
stopped, and is not built again when it is finished. docs/benchmarks/README.md says
what the fields are.

Shapes: one (one cell), zipf (a thousand agents), tiny (a cell for every record),
neighbour (an agent of 1,000 records beside one of all the others), vectors (random
codes of 1,024 bits, without a store).`,
		Example: `  recalld bench ladder --records 1000,10000 --json
  recalld bench ladder --records 1000,10000,100000,1000000 --folder ./rungs --json
  recalld bench ladder --shape zipf --folder ./rungs
  recalld bench ladder --shape vectors --records 100000,1000000 --json`,
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Folder == "" {
				folder, err := os.MkdirTemp("", "recalld-ladder-")
				if err != nil {
					return err
				}
				defer os.RemoveAll(folder)
				o.Folder = folder
			}
			a.scanner.serves = true
			o.Overrides = a.embed.settings()
			a.scanner.override(o.Overrides)
			var err error
			if o.Scanner, err = a.scanner.config(io.Discard); err != nil {
				return err
			}
			o.Clock = time.Now
			o.Phase = func(title string) (coordinator.Progress, func()) { return a.bar(title, false) }
			report, err := bench.Ladder(c.Context(), o)
			if err != nil {
				return err
			}
			report.Machine = bench.ThisMachine(time.Now(), version())
			return a.print(report, func(w io.Writer) {
				for _, r := range report.Rungs {
					writeRung(w, r)
				}
			})
		},
	}
	f := c.Flags()
	f.IntSliceVar(&o.Records, "records", []int{1_000, 10_000}, "records of each rung")
	f.StringVar(&o.Shape, "shape", bench.ShapeOne, strings.Join(bench.LadderShapes(), ", "))
	f.StringVar(&o.Folder, "folder", "", "where rungs are built and kept (default a temporary folder)")
	f.IntVar(&o.Questions, "questions", 0, "questions of each kind at most (default all)")
	c.MarkFlagDirname("folder")
	return c
}

func writeRung(w io.Writer, r bench.LadderRung) {
	fmt.Fprintf(w, "%s, %d records, %d blocks: recall p50 %.2f ms, p95 %.2f, p99 %.2f (embedding excluded)\n", r.Shape, r.Records, r.Blocks, r.RecallMS.P50, r.RecallMS.P95, r.RecallMS.P99)
	for _, arm := range slices.Sorted(maps.Keys(r.ArmMS)) {
		fmt.Fprintf(w, "  %-16s p50 %.2f ms, p95 %.2f\n", arm, r.ArmMS[arm].P50, r.ArmMS[arm].P95)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Questions)) {
		fmt.Fprintf(w, "  %-16s hit@1 %.3f, hit@10 %.3f, of %d questions\n", kind, r.HitAt1[kind], r.HitAt10[kind], r.Questions[kind])
	}
	fmt.Fprintf(w, "  files %.1f MB and %.1f MB derived; built in %.1f s; %s\n", r.Files["truth"], r.Files["derived"], r.Build, peaks(r.RSS))
	if n := r.Neighbour; n != nil {
		x := n.Ratios["p50"]
		fmt.Fprintf(w, "  the small agent in turns: alone p50 %.2f ms, beside %.2f ms, ratio %.2f (%.2f to %.2f); the same answers: %v\n", n.Alone.RecallMS.P50, n.Beside.RecallMS.P50, x.Ratio, x.Low, x.High, n.Same)
	}
}

func peaks(rss map[string]float64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(rss)) {
		parts = append(parts, fmt.Sprintf("%s %.0f MB", name, rss[name]))
	}
	return strings.Join(parts, ", ")
}
