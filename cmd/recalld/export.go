package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"recalld/coordinator"
	"recalld/ingest"
	"recalld/memory"
)

func (a *app) exportCommand() *cobra.Command {
	var scope scopeFlags
	var out, to string
	var kept bool
	c := &cobra.Command{
		Use:   "export [FILE]",
		Short: "Write an agent's records to a file",
		Long: `Write an agent's records as jsonl, which import reads back. With --kept their
numbers, times, recall counts and vectors go along, so that another folder can keep
them. --to cpersona writes the file that CPersona's import_memories reads, with all
of that. A file appears whole or not at all, in the place of an older one.`,
		Example: `  recalld export --agent mia > mia.jsonl
  recalld export --agent mia --project atlas atlas.jsonl
  recalld export --agent mia --kept mia.jsonl
  recalld export --agent mia --to cpersona mia-cpersona.jsonl`,
		Args: atMost(1, "FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && out != "":
				return usage("export takes FILE or --out, not both")
			case len(args) > 0:
				out = args[0]
			}
			if err := checkPath("FILE", out); err != nil {
				return err
			}
			if to != "jsonl" && to != "cpersona" {
				return &memory.FieldError{Field: "--to", Problem: memory.Shape(to) + " is not known", Limit: "jsonl, cpersona", Next: "choose one of them"}
			}
			s, err := a.open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			project, channel := scope.optional()
			e := exporting{service: s, request: coordinator.ExportRequest{Agent: scope.agent, Project: project, Channel: channel, Kept: kept || to == "cpersona"}}
			write := e.jsonl
			if to == "cpersona" {
				write = e.cpersona
			}
			ctx := c.Context()
			if out == "" || out == "-" {
				return write(ctx, a.out)
			}
			file, err := a.outside("FILE", out)
			if err != nil {
				return err
			}
			if err := writeWhole(file, func(w io.Writer) error { return write(ctx, w) }); err != nil {
				return err
			}
			return a.print(map[string]any{"path": out, "lines": e.lines}, func(w io.Writer) { fmt.Fprintf(w, "%d lines written to %s\n", e.lines, out) })
		},
	}
	scope.register(c)
	c.Flags().StringVar(&out, "out", "", "the same as FILE (default: standard output)")
	c.Flags().StringVar(&to, "to", "jsonl", "jsonl or cpersona")
	c.Flags().BoolVar(&kept, "kept", false, "numbers, times, recall counts and vectors too")
	return c
}

// exporting is one export and how many lines it has written.
type exporting struct {
	service coordinator.Service
	request coordinator.ExportRequest
	lines   int
}

func (e *exporting) jsonl(ctx context.Context, w io.Writer) error {
	b := bufio.NewWriter(w)
	err := e.service.Export(ctx, e.request, func(line json.RawMessage) error {
		e.lines++
		b.Write(line)
		return b.WriteByte('\n')
	})
	// What came before an error is good.
	if flushed := b.Flush(); err == nil {
		err = flushed
	}
	return err
}

func (e *exporting) cpersona(ctx context.Context, w io.Writer) error {
	out := ingest.NewCPersonaWriter(e.request.Agent, time.Now())
	defer out.Close()
	err := e.service.Export(ctx, e.request, func(line json.RawMessage) error {
		var item ingest.Item
		if err := json.Unmarshal(line, &item); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		e.lines++
		return out.Write(item)
	})
	if err != nil {
		return err
	}
	e.lines++ // the header
	return out.Finish(w)
}
