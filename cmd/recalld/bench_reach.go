package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"recalld/bench"
)

func (a *app) benchReach() *cobra.Command {
	var o bench.ReachOptions
	c := &cobra.Command{
		Use:   "reach",
		Short: "How often a statement in the tail of a long record is found",
		Long: `Store long records with a statement in their tail, among thousands of others, in
English, Japanese and Chinese, and ask for each statement in its own words and in
others, without and with the block arm. docs/benchmarks/reach.md says what is
counted. --path adds questions to LoCoMo's sessions joined into long records.`,
		Example: `  recalld bench reach --json
  recalld bench reach --path ./locomo --json
  recalld bench reach --set blocks.parent_cap=0 --json
  recalld bench reach --records 500 --limit 30`,
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			folder, err := os.MkdirTemp("", "recalld-reach-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(folder)
			progress, done := a.bar("questions", false)
			o.Folder, o.Overrides, o.Progress, o.Clock = folder, a.embed.settings(), progress, time.Now
			report, err := bench.Reach(c.Context(), o)
			done()
			if err != nil {
				return err
			}
			report.Machine = bench.ThisMachine(time.Now(), version())
			return a.print(report, func(w io.Writer) {
				s := report.Settings
				fmt.Fprintf(w, "%d records, %d of them in %d blocks, model %s\n", s.Records, s.Sets, s.Blocks, s.Model)
				for _, name := range report.Names() {
					f := report.Families[name]
					fmt.Fprintf(w, "%s: %d targets; %d among %d rows and %d among %d without blocks, %d with %d reserved rows, %d shown\n",
						name, f.Targets, f.Before.Rows, s.Rows, f.Before.More, s.Rows+s.Reserved, f.After.Rows, s.Reserved, f.After.Shown)
					fmt.Fprintf(w, "  missed: %d not scanned, %d quotation cut, %d below the depth, %d lost the reservation; rows moved: %d\n",
						f.Misses["not_scanned"], f.Misses["quotation_cut"], f.Misses["below_depth"], f.Misses["lost_reservation"], f.Moved)
				}
			})
		},
	}
	f := c.Flags()
	f.StringVar(&o.Path, "path", "", "folder of LoCoMo's turns.jsonl and questions.jsonl")
	f.IntVar(&o.Records, "records", 4_000, "records that answer nothing")
	f.IntVar(&o.Limit, "limit", 0, "targets of each family at most (default all)")
	c.MarkFlagDirname("path")
	return c
}
