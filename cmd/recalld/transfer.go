package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"recalld/coordinator"
	"recalld/ingest"
)

func (a *app) importCommand() *cobra.Command {
	var agent, format string
	var dryRun bool
	c := &cobra.Command{
		Use:   "import PATH",
		Short: "Bring records in from a file",
		Long: `Bring records in from a file. What is already there is skipped, so importing twice
changes nothing; an interrupted import goes on where it stopped. Lines that are
refused are counted and listed by number, and the exit code is then 1.

Formats:
  jsonl   one JSON object per line: memory, episode or profile (docs/formats.md);
          PATH "-" reads standard input
  locomo  the LoCoMo benchmark's turns.jsonl, or the folder that holds it: one
          project per conversation`,
		Example: `  recalld import --agent mia --format jsonl notes.jsonl
  recalld import --agent mia --format jsonl --dry-run --json notes.jsonl
  recalld import --agent bench --format locomo ./locomo`,
		Args: exactly(1, "PATH"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkPath("PATH", args[0]); err != nil {
				return err
			}
			in, err := a.openImport(format, args[0])
			if err != nil {
				return err
			}
			defer in.Close()
			s, err := a.open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			progress, done := a.bar("importing", true)
			options := ingest.Options{Agent: agent, DryRun: dryRun, Progress: func(r ingest.Report) { progress(r.Bytes, r.Size) }}
			if args[0] != "-" && !dryRun {
				status, err := s.Status(c.Context())
				if err != nil {
					return err
				}
				if options.Cursor, err = ingest.NewCursor(a.data, status.TruthID, agent, format, args[0]); err != nil {
					return err
				}
			}
			report, err := ingest.Run(c.Context(), in, sinkOf(s), options)
			done()
			if err != nil {
				return err
			}
			if err := a.print(report, func(w io.Writer) { writeReport(w, report) }); err != nil {
				return err
			}
			if report.Rejected > 0 {
				return errReported
			}
			return nil
		},
	}
	agentFlag(c, &agent)
	c.Flags().StringVar(&format, "format", "jsonl", "jsonl or locomo")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "read and check the form of the lines, store nothing; lengths and times are checked when storing")
	return c
}

func (a *app) openImport(format, path string) (*ingest.Reader, error) {
	if path == "-" && format == "jsonl" {
		return ingest.NewReader(a.in), nil
	}
	return ingest.OpenFile(format, path)
}

// sinkOf stores an import's batches through the service.
func sinkOf(s coordinator.Service) ingest.Sink {
	return func(ctx context.Context, agent string, items []ingest.Item) ([]ingest.Outcome, error) {
		answer, err := s.Store(ctx, coordinator.StoreRequest{Agent: agent, Items: items})
		if err != nil {
			return nil, err
		}
		outcomes := make([]ingest.Outcome, len(answer.Results))
		for i, r := range answer.Results {
			outcomes[i] = ingest.Outcome{Word: r.Outcome, Err: r.Error}
		}
		return outcomes, nil
	}
}

func writeReport(w io.Writer, r ingest.Report) {
	if r.DryRun {
		fmt.Fprintf(w, "dry run: %d items read, %d would be refused; nothing stored\n", r.Read, r.Rejected)
	} else {
		fmt.Fprintf(w, "%d items read: %d stored, %d new versions, %d already there, %d refused\n", r.Read, r.Stored, r.Versioned, r.Skipped, r.Rejected)
	}
	if r.Resumed > 0 {
		fmt.Fprintf(w, "went on after line %d of an interrupted import\n", r.Resumed)
	}
	for _, bad := range r.Bad {
		fmt.Fprintf(w, "line %d: %s\n", bad.Line, visible(bad.Err))
	}
	if more := r.Rejected - len(r.Bad); more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
}

func (a *app) exportCommand() *cobra.Command {
	var scope scopeFlags
	var out string
	c := &cobra.Command{
		Use:   "export",
		Short: "Write an agent's records as jsonl",
		Long: `Write an agent's records as jsonl, which import reads back. The file appears
whole or not at all.`,
		Example: `  recalld export --agent mia > mia.jsonl
  recalld export --agent mia --project atlas --out atlas.jsonl`,
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkPath("--out", out); err != nil {
				return err
			}
			s, err := a.open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			project, channel := scope.optional()
			request := coordinator.ExportRequest{Agent: scope.agent, Project: project, Channel: channel}
			lines := 0
			write := func(w io.Writer) error {
				b := bufio.NewWriter(w)
				if err := s.Export(c.Context(), request, func(line json.RawMessage) error {
					lines++
					b.Write(line)
					return b.WriteByte('\n')
				}); err != nil {
					return err
				}
				return b.Flush()
			}
			if out == "" || out == "-" {
				return write(a.out)
			}
			if err := writeWhole(out, write); err != nil {
				return err
			}
			return a.print(map[string]any{"path": out, "lines": lines}, func(w io.Writer) { fmt.Fprintf(w, "%d lines written to %s\n", lines, out) })
		},
	}
	scope.register(c)
	c.Flags().StringVar(&out, "out", "", "file to write (default: standard output)")
	return c
}

// writeWhole writes a file under a temporary name beside it, syncs it and
// renames it.
func writeWhole(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".part-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(f.Name())
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func (a *app) backupCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "backup PATH",
		Short: "Copy the whole instance into one file, also while serving",
		Long: `Copy the whole instance into one file, also while a server runs. The file is an
ordinary data file: everything, settings and calibration included, is in it.`,
		Example: `  recalld backup ~/backups/recall-2026-11-30.db`,
		Args:    exactly(1, "PATH"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkPath("PATH", args[0]); err != nil {
				return err
			}
			path, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			s, err := a.open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			progress, done := a.bar("copying pages", false)
			err = s.Backup(c.Context(), path, progress)
			done()
			if err != nil {
				return err
			}
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return a.print(map[string]any{"path": path, "bytes": info.Size()}, func(w io.Writer) { fmt.Fprintf(w, "%s, %d bytes\n", path, info.Size()) })
		},
	}
	return c
}

func (a *app) vacuumCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "vacuum",
		Short:   "Give unused space in the file back",
		Example: "  recalld vacuum",
		Args:    exactly(0, ""),
		RunE: a.with(func(c *cobra.Command, _ []string, s *session) error {
			path := filepath.Join(a.data, truthName)
			before := size(path)
			progress, done := a.bar("vacuuming", false)
			err := s.Vacuum(c.Context(), progress)
			done()
			if err != nil {
				return err
			}
			after := size(path)
			return a.print(map[string]int64{"bytes_before": before, "bytes_after": after}, func(w io.Writer) { fmt.Fprintf(w, "%d bytes, before %d\n", after, before) })
		}),
	}
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
