package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"recalld/bench"
)

func (a *app) benchLexical() *cobra.Command {
	var o bench.LexicalOptions
	c := &cobra.Command{
		Use:   "lexical",
		Short: "The lexical arms beside many neighbours and in one large cell",
		Long: `Ask one agent's records alone and beside many records of another, then those,
then build the index anew. Texts are made from a seed, words of two characters
from written sentences. No vectors are made. Needs about 3 GB below TMPDIR for a
million records.`,
		Example: `  recalld bench lexical --records 1000000 --json
  recalld bench lexical --records 20000 --own 500`,
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			folder, err := os.MkdirTemp("", "recalld-lexical-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(folder)
			progress, done := a.bar("records", false)
			o.Folder, o.Progress, o.Clock = folder, progress, time.Now
			report, err := bench.Lexical(c.Context(), o)
			done()
			if err != nil {
				return err
			}
			report.Machine = bench.ThisMachine(time.Now(), version())
			return a.print(report, func(w io.Writer) {
				own := report.Own
				fmt.Fprintf(w, "%d records alone: p50 %.2f ms, %d postings; beside %d others: p50 %.2f ms, %d postings, same rows: %v\n",
					own.Records, own.Alone.P50, own.PostingsAlone, own.Others, own.Beside.P50, own.PostingsBeside, own.SameRows)
				fmt.Fprintf(w, "%d records in one cell: p50 %.2f ms, p95 %.2f ms\n", report.Records, report.Crowd.P50, report.Crowd.P95)
				fmt.Fprintf(w, "index %d bytes, %.2f of the text; built at %.1f MB/s, opened in %.1f ms\n", report.Index, report.Ratio, report.Build, report.Open)
				fmt.Fprintf(w, "one record erased: p50 %.1f ms, p95 %.1f ms\n", report.Erase.P50, report.Erase.P95)
				fmt.Fprintf(w, "words of two characters, hit@10: Japanese %.3f, Chinese %.3f\n", report.Japanese, report.Chinese)
			})
		},
	}
	f := c.Flags()
	f.IntVar(&o.Crowd, "records", 1_000_000, "records of the other agent, all in one cell")
	f.IntVar(&o.Own, "own", 1_000, "records of the agent that is asked beside them")
	f.IntVar(&o.Questions, "questions", 200, "questions per measurement")
	return c
}
