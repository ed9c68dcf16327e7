package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"recalld/bench"
)

func (a *app) benchCompare() *cobra.Command {
	var o bench.CompareOptions
	c := &cobra.Command{
		Use:   "compare A B",
		Short: "Two runs of a ladder, as ratios with intervals",
		Long: `Compare the rungs that two files of recalld bench ladder --json share: the ratio of
B to A, and the interval that holds 95 % of the ratios of samples drawn with
repetition from the questions of both. An interval that holds 1 says that these
questions cannot tell the two apart; that the machine was busy during one of the
runs, no interval knows.`,
		Example: `  recalld bench compare before.json after.json
  recalld bench compare before.json after.json --resamples 10000 --json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage("name two files of results, not %d", len(args))
			}
			first, err := bench.ReadLadder(args[0])
			if err != nil {
				return err
			}
			second, err := bench.ReadLadder(args[1])
			if err != nil {
				return err
			}
			report, err := bench.Compare(first, second, o)
			if err != nil {
				return err
			}
			return a.print(report, func(w io.Writer) {
				for _, r := range report.Rows {
					fmt.Fprintf(w, "%-10s %9d %-28s %10.3f %10.3f  %s\n", r.Shape, r.Records, r.Figure, r.A, r.B, interval(r))
				}
			})
		},
	}
	c.Flags().IntVar(&o.Resamples, "resamples", 2_000, "samples that are drawn")
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "of the samples")
	return c
}

func interval(r bench.CompareRow) string {
	switch {
	case r.Ratio == nil:
		return "no ratio"
	case r.Low == nil:
		return fmt.Sprintf("%.3f", *r.Ratio)
	}
	return fmt.Sprintf("%.3f (%.3f to %.3f)", *r.Ratio, *r.Low, *r.High)
}
