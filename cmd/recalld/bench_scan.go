package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"recalld/bench"
	"recalld/scanner/kernel"
)

func (a *app) benchScan() *cobra.Command {
	var via, path string
	var o bench.ScanOptions
	c := &cobra.Command{
		Use:   "scan",
		Short: "Scan sign codes, beside a loop that only reads them",
		Long: `Scan random sign codes in memory for the nearest rows of random queries, in turns
with a loop that only reads the same bytes, and print the medians. Reading is the
limit: no exact scan can be faster. --via go takes the scan without C, which is
that of processors without code of their own. --via plugin also writes the codes
into segments in a temporary folder, and scans them through a scanner process.`,
		Example: `  recalld bench scan --json
  recalld bench scan --rows 4000000 --dims 384 --queries 4 --threads 2
  recalld bench scan --via plugin
  recalld bench scan --via go --json`,
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			switch {
			case via == "go" && path == "":
				o.Path = kernel.Go
			case via == "kernel":
				if o.Path, err = kernel.ChoosePath(path); err != nil {
					return err
				}
			case via == "plugin":
				program, err := os.Executable()
				if err != nil {
					return err
				}
				if o.Path, err = kernel.ChoosePath(path); err != nil {
					return err
				}
				o.Command = []string{program, "scanner", "--threads", strconv.Itoa(o.Threads)}
			case via == "go":
				return usage("--path chooses among the paths of --via kernel; leave it out")
			default:
				return usage("via %q is not known; choose kernel, plugin or go", via)
			}
			progress, done := a.bar("rounds", false)
			o.Progress, o.Clock = progress, time.Now
			report, err := bench.Scan(c.Context(), o)
			done()
			if err != nil {
				return err
			}
			report.Machine = bench.ThisMachine(time.Now(), version())
			return a.print(report, func(w io.Writer) {
				fmt.Fprintf(w, "%d rows × %d bits, %d threads, path %s\n", report.Rows, report.Dims, report.Threads, report.Path)
				fmt.Fprintf(w, "reading %.3f ms, scanning %.3f ms for the %d nearest of %d queries (ratio %.2f)\n", report.Read, report.Scan, report.K, report.Queries, report.Ratio)
				if report.Queries > 1 {
					fmt.Fprintf(w, "one query alone %.3f ms (ratio %.2f)\n", report.One, report.Batch)
				}
				if p := report.Plugin; p != nil {
					fmt.Fprintf(w, "through a scanner process %.3f ms, %.3f ms more than here; at best %.3f ms more\n", p.Scan, p.More, p.BestMore)
					fmt.Fprintf(w, "a scope of %d rows beside them %.3f ms, %d rows scanned; anonymous memory %.1f MB\n", p.SmallRows, p.Small, p.SmallScanned, p.AnonymousMB)
				}
				fmt.Fprintf(w, "at best reading %.3f ms, scanning %.3f ms (ratio %.2f)\n", report.Best.Read, report.Best.Scan, report.Best.Ratio)
			})
		},
	}
	f := c.Flags()
	f.IntVar(&o.Rows, "rows", 1_000_000, "rows")
	f.IntVar(&o.Dims, "dims", 1024, "bits of a row, a multiple of 64")
	f.IntVar(&o.K, "k", 200, "nearest rows wanted")
	f.IntVar(&o.Queries, "queries", 1, "queries of one pass")
	f.IntVar(&o.Threads, "threads", 1, "goroutines that scan, and that read")
	f.IntVar(&o.Repeat, "repeat", 15, "rounds to take medians of")
	f.StringVar(&via, "via", "kernel", "kernel, plugin or go")
	f.StringVar(&path, "path", "", "avx512, avx2, popcnt, neon or go (default: the fastest here)")
	return c
}
