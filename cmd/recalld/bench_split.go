package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"recalld/bench"
	"recalld/ingest"
)

func (a *app) benchSplit() *cobra.Command {
	var o bench.SplitOptions
	c := &cobra.Command{
		Use:   "split",
		Short: "Divide the records of a file into blocks and print their lengths",
		Long: `Divide every record of an input into blocks, check that they cover it without
gap or overlap, and print the distribution of their lengths beside the reference's.
The first division that fails the check ends the command with an error. Nothing is
stored, no model is asked.`,
		Example: `  recalld bench split --path ./locomo --json
  recalld bench split --format markdown --path ./notes`,
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Path == "" {
				return usage("name the file or folder of records with --path")
			}
			progress, done := a.bar("records", false)
			o.Progress, o.Clock = progress, time.Now
			report, err := bench.Split(c.Context(), o)
			done()
			if err != nil {
				return err
			}
			report.Machine = bench.ThisMachine(time.Now(), version())
			return a.print(report, func(w io.Writer) {
				for _, f := range append(report.Families, report.Ledger) {
					fmt.Fprintf(w, "%s: %d records, %d blocks (mean %.1f, median %d a record), %d forced (%.4f)\n",
						f.Name, f.Records, f.Blocks, f.PerRecord.Mean, f.PerRecord.Median, f.Forced, f.Share)
					fmt.Fprintf(w, "  length: median %d, p90 %d, p99 %d, max %d", f.Length.Median, f.Length.P90, f.Length.P99, f.Length.Max)
					if f.MBPerS > 0 {
						fmt.Fprintf(w, ", mean %.1f; %.1f MB/s (a read loop: %.0f MB/s)", f.Length.Mean, f.MBPerS, f.Bare)
					}
					fmt.Fprintln(w)
				}
			})
		},
	}
	f := c.Flags()
	f.StringVar(&o.Path, "path", "", "file or folder of records")
	f.StringVar(&o.Format, "format", ingest.FormatLocomo, "its format: "+strings.Join(ingest.Formats(), ", "))
	return c
}
