package main

import (
	"context"
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
	var shape bench.ScanShapeOptions
	c := &cobra.Command{
		Use:   "scan",
		Short: "Scan sign codes, beside a loop that only reads them",
		Long: `Scan random sign codes in memory for the nearest rows of random queries, in turns
with a loop that only reads the same bytes, and print the medians. Reading is the
limit: no exact scan can be faster. --via go takes the scan without C, which is
that of processors without code of their own. --via plugin also writes the codes
into segments in a temporary folder, and scans them through a scanner process;
--coalesce then lets several scans loose at once.

--cells, --projects and --rerank-cold write files of another shape and measure a
scanner process alone: rows in as many cells of an agent each, from the start of
the process on; rows in as many projects of one agent, beside as many rows in one
cell; a re-rank whose values are not in memory (Linux).`,
		Example: `  recalld bench scan --json
  recalld bench scan --rows 4000000 --dims 384 --queries 4 --threads 2
  recalld bench scan --via plugin --coalesce 4
  recalld bench scan --cells 1000000 --rows 20000000 --dims 256 --folder /var/tmp
  recalld bench scan --via go --json`,
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			measures := 0
			for _, flag := range []string{"cells", "projects", "rerank-cold", "coalesce"} {
				if c.Flags().Changed(flag) {
					measures++
				}
			}
			if measures > 1 {
				return usage("--cells, --projects, --rerank-cold and --coalesce measure different things; choose one")
			}
			if measures == 1 && !c.Flags().Changed("coalesce") {
				shape.Rows, shape.Dims, shape.K, shape.Repeat, shape.Folder = o.Rows, o.Dims, o.K, o.Repeat, o.Folder
				return a.benchScanShape(c.Context(), shape, o.Threads)
			}
			switch {
			case o.Together < 0 || o.Together > 0 && via != "plugin":
				return usage("--coalesce takes a number of scans and needs --via plugin")
			case via == "go" && path == "":
				o.Path = kernel.Go
			case via == "kernel":
				if o.Path, err = kernel.ChoosePath(path); err != nil {
					return err
				}
			case via == "plugin":
				if o.Path, err = kernel.ChoosePath(path); err != nil {
					return err
				}
				if o.Command, err = scannerOf(o.Threads); err != nil {
					return err
				}
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
					fmt.Fprintf(w, "its files scanned here %.3f ms: it takes %.3f ms more\n", p.Mapped, p.MoreMapped)
					fmt.Fprintf(w, "a call that scans nothing %.3f ms, at best %.3f ms\n", p.Empty, p.BestEmpty)
					if p.Together > 0 {
						fmt.Fprintf(w, "%d scans together %.3f ms, one of them %.3f ms (ratio %.2f)\n", p.Together, p.TogetherMS, p.OneMS, p.TogetherOne)
					}
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
	f.IntVar(&o.Together, "coalesce", 0, "scans to release at once through the plugin")
	f.IntVar(&shape.Cells, "cells", 0, "spread the rows over so many cells")
	f.IntVar(&shape.Projects, "projects", 0, "spread the rows over so many projects of one agent")
	f.BoolVar(&shape.Rerank, "rerank-cold", false, "re-rank rows whose values are not in memory")
	f.StringVar(&o.Folder, "folder", "", "folder to make files below (default: the system's temporary one)")
	f.StringVar(&via, "via", "kernel", "kernel, plugin or go")
	f.StringVar(&path, "path", "", "avx512, avx2, popcnt, neon or go (default: the fastest here)")
	return c
}

// scannerOf is the command of this program's scanner.
func scannerOf(threads int) ([]string, error) {
	program, err := os.Executable()
	return []string{program, "scanner", "--threads", strconv.Itoa(threads)}, err
}

func (a *app) benchScanShape(ctx context.Context, o bench.ScanShapeOptions, threads int) (err error) {
	if !o.Rerank && max(o.Cells, o.Projects) < 1 {
		return usage("--cells and --projects take a number from 1 on")
	}
	if o.Command, err = scannerOf(threads); err != nil {
		return err
	}
	progress, done := a.bar("rows", false)
	o.Progress, o.Clock = progress, time.Now
	report, err := bench.ScanShape(ctx, o)
	done()
	if err != nil {
		return err
	}
	report.Machine = bench.ThisMachine(time.Now(), version())
	return a.print(report, func(w io.Writer) {
		fmt.Fprintf(w, "%d rows × %d bits in %d segments, written in %.1f s; anonymous memory of the scanner %.1f MB\n", report.Rows, report.Dims, report.Segments, report.Write, report.AnonymousMB)
		if r := report.Cells; r != nil {
			fmt.Fprintf(w, "%d cells, a directory of %d bytes: %.0f ms from no process to the first answer\n", r.Cells, r.Directory, r.Start)
			fmt.Fprintf(w, "a cell of %d rows %.3f ms, %d rows scanned\n", r.ScopeRows, r.Scope, r.Scanned)
		}
		if r := report.Projects; r != nil {
			fmt.Fprintf(w, "%d projects, none named, %.3f ms; as many rows in one cell %.3f ms (ratio %.2f)\n", r.Projects, r.Scan, r.OneCell, r.Ratio)
		}
		if r := report.Rerank; r != nil {
			fmt.Fprintf(w, "scanning %.3f ms; re-ranking %d rows from disk %.3f ms more, at best %.3f ms, from memory %.3f ms more; reading as many pages at once %.3f ms\n", r.Scan, report.K, r.ColdMore, r.BestColdMore, r.WarmMore, r.Disk)
			fmt.Fprintf(w, "in memory before: %.1f %% of %.0f MB of values; codes in memory afterwards: %.1f %%\n", 100*r.ValuesBefore, r.ValuesMB, 100*r.BitsAfter)
		}
	})
}
