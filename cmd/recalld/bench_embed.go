package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"recalld/bench"
	"recalld/coordinator"
	"recalld/embed"
)

func (a *app) benchSimilarity() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use:   "jsts",
		Short: "Compare a model's cosines with what people found alike",
		Long: `Embed sentence pairs that people judged, such as JSTS of JGLUE, and print
Spearman's rank correlation of the cosine with their judgement. A line of the file
is {"a":"…","b":"…","score":3.2}.`,
		Example: `  recalld bench jsts --path pairs.jsonl --json
  recalld bench jsts --path pairs.jsonl --embed-backend openai --embed-url http://127.0.0.1:8000 --embed-model multilingual-e5-small`,
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if path == "" {
				return usage("name the file of sentence pairs with --path")
			}
			m, err := a.model()
			if err != nil {
				return err
			}
			defer m.Close()
			progress, done := a.bar("pairs", false)
			report, err := bench.Similarity(c.Context(), m, path, progress)
			done()
			if err != nil {
				return err
			}
			report.Machine = bench.ThisMachine(time.Now(), version())
			return a.print(report, func(w io.Writer) {
				fmt.Fprintf(w, "Spearman %.4f over %d pairs, model %s\n", report.Spearman, report.Pairs, report.Model)
			})
		},
	}
	c.Flags().StringVar(&path, "path", "", "file of sentence pairs")
	c.MarkFlagFilename("path", "jsonl")
	return c
}

func (a *app) benchEmbed() *cobra.Command {
	var o bench.EmbedOptions
	c := &cobra.Command{
		Use:   "embed",
		Short: "Texts embedded per second by length, and the memory that takes",
		Example: `  recalld bench embed --json
  recalld bench embed --texts 500 --embed-backend openai --embed-url http://127.0.0.1:8000 --embed-model all-MiniLM-L6-v2`,
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			m, err := a.model()
			if err != nil {
				return err
			}
			defer m.Close()
			o.Clock = time.Now
			report, err := bench.Embedding(c.Context(), m, o)
			if err != nil {
				return err
			}
			report.Machine = bench.ThisMachine(time.Now(), version())
			return a.print(report, func(w io.Writer) {
				fmt.Fprintf(w, "%s, %d dimensions, at most %.0f MiB resident\n", report.Model, report.Dims, report.Peak)
				for _, l := range report.Lengths {
					fmt.Fprintf(w, "%5d code points: %.0f texts/s, %.1f MB/s (a read loop: %.0f MB/s)\n", l.CodePoints, l.PerSecond, l.MBPerS, l.Bare)
				}
			})
		},
	}
	c.Flags().IntVar(&o.Texts, "texts", 50_000, "texts of the shortest length")
	return c
}

// model opens the embedding model that the flags name, without a store.
func (a *app) model() (embed.Model, error) {
	config, err := coordinator.EmbeddingConfig(a.embed.settings())
	if err != nil {
		return nil, err
	}
	return embed.Open(config)
}
