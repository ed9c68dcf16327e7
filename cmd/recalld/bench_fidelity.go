package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"recalld/bench"
)

func (a *app) benchFidelity() *cobra.Command {
	var o bench.FidelityOptions
	c := &cobra.Command{
		Use:   "fidelity",
		Short: "How well short codes of a model's vectors keep its neighbours",
		Long: `Divide texts into blocks, embed them, and compare the order that short codes give
with the order of the vectors: signs, rotated signs, more hyperplanes than
dimensions, 1, 2 and 4 bits of the int8 vectors. Printed is how deep one must read to keep
the true ten nearest. --path is a folder, or a folder of folders, with turns.jsonl,
questions.jsonl or pairs.jsonl; without it, and where it does not suffice, the texts
of "bench reach" are taken. docs/fidelity.md says what was found.`,
		Example: `  recalld bench fidelity --json
  recalld bench fidelity --path ./texts --rows 30000 --embed-backend hash --json
  recalld bench fidelity --embed-backend openai --embed-url http://127.0.0.1:8001 --embed-model all-MiniLM-L6-v2`,
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			m, err := a.model()
			if err != nil {
				return err
			}
			defer m.Close()
			progress, done := a.bar("texts", false)
			o.Progress, o.Clock = progress, time.Now
			report, err := bench.Fidelity(c.Context(), m, o)
			done()
			if err != nil {
				return err
			}
			report.Machine = bench.ThisMachine(time.Now(), version())
			return a.print(report, func(w io.Writer) {
				fmt.Fprintf(w, "%s, %d dimensions: %d blocks (%d from the path), %d queries\n", report.Model, report.Dims, report.Rows, report.Read, report.Queries)
				fmt.Fprintf(w, "angles: nearest %.1f, others %.1f (1%% below %.1f)\n", report.Angles.Nearest.Mean, report.Angles.Others.Mean, report.Angles.Others.P1)
				for _, code := range report.Codes {
					fmt.Fprintf(w, "%-24s %4d bytes", code.Name, code.Bytes)
					if code.Scan != nil {
						fmt.Fprintf(w, ", %.2f × reading (%s)", code.Scan.Ratio, code.Scan.By)
					}
					fmt.Fprintln(w)
					for _, d := range code.Depths {
						fmt.Fprintf(w, "  %6d rows: depth %d, %d, %d for .90, .95, .99; %.4f at 200\n", d.Rows, d.Keep90, d.Keep95, d.Keep99, d.At200)
					}
				}
			})
		},
	}
	f := c.Flags()
	f.StringVar(&o.Folder, "path", "", "folder of texts (default: texts written for recalld)")
	f.IntVar(&o.Rows, "rows", 10_000, "blocks at most")
	f.IntVar(&o.Queries, "queries", 200, "queries at most")
	f.IntVar(&o.Scan, "scan-rows", 500_000, "rows of the timed scans; 0 times nothing")
	f.IntVar(&o.Repeat, "repeat", 15, "rounds of the timed scans to take the best of")
	c.MarkFlagDirname("path")
	return c
}
