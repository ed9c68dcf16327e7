package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"recalld/bench"
)

func (a *app) benchReport() *cobra.Command {
	var page string
	c := &cobra.Command{
		Use:   "report FILE...",
		Short: "One page of tables and charts from result files",
		Long: `Write one page of tables from files of recalld bench ladder --json, of peers and of
load, with charts beside it as SVG: cost against size with fitted lines, memory,
quality against the text of an answer, throughput against clients. Of rungs of one shape and size the last
file's counts. The same files give the same bytes.`,
		Example: `  recalld bench report one.json zipf.json --out docs/benchmarks/ladder.md
  recalld bench report load-*.json --out docs/benchmarks/load.md
  recalld bench report *.json --out ladder.md --json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("name one or more result files")
			}
			results, err := bench.ReadResults(args)
			if err != nil {
				return err
			}
			files, err := bench.WriteReport(results, page)
			if err != nil {
				return err
			}
			return a.print(map[string]any{"files": files}, func(w io.Writer) {
				for _, name := range files {
					fmt.Fprintln(w, name)
				}
			})
		},
	}
	c.Flags().StringVar(&page, "out", "ladder.md", "the page; charts are written beside it")
	c.MarkFlagFilename("out", "md")
	return c
}
