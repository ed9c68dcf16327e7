package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"recalld/coordinator"
	"recalld/memory"
)

func (a *app) indexCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "index",
		Short: "Look at the derived files and take care of them",
		Long: `Look at the derived files and take care of them. They follow from the data file,
are made by themselves, and can be deleted at any moment; no answer depends on
them. A running server does the work, else this process.`,
		Example: `  recalld index status
  recalld index verify --repair
  recalld index compact --json`,
		Args: knownCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var repair bool
	verify := a.changeIndexCommand(coordinator.IndexVerify, "Read every derived file and compare its checksums",
		`Read every derived file in full and compare its checksums. The exit code is 1 when
one is damaged, repaired or not.`, "  recalld index verify\n  recalld index verify --repair", "reading", &repair)
	verify.Flags().BoolVar(&repair, "repair", false, "set damaged files aside and build their rows again")
	c.AddCommand(a.indexStatusCommand(), verify,
		a.changeIndexCommand(coordinator.IndexRebuild, "Build the files of codes from the data file",
			`Build the files of block codes and record vectors anew from the data file. Those
that are there answer until the new ones are whole; for so long both take room on
the disk, and recalld index status says how far it is. It needs a scanner.`, "  recalld index rebuild", "building", nil),
		a.changeIndexCommand(coordinator.IndexCompact, "Merge the files of codes and leave dead rows out",
			`Merge the files of block codes and record vectors and leave replaced and deleted
rows out. The vectors of blocks and records are not written again, except those in files
of which most is of no use. It needs a scanner.`, "  recalld index compact --json", "compacting", nil),
	)
	return c
}

// aboutIndex makes the body of a command that is about derived files: one that
// opens the folder itself has a scanner for it, unless it was told otherwise.
func (a *app) aboutIndex(call func(c *cobra.Command, args []string, s *session) error) func(*cobra.Command, []string) error {
	body := a.with(call)
	return func(c *cobra.Command, args []string) error {
		a.scanner.serves = true
		return body(c, args)
	}
}

func (a *app) indexStatusCommand() *cobra.Command {
	var request coordinator.IndexStateRequest
	c := &cobra.Command{
		Use:     "status",
		Short:   "Say how the derived files and the scanner are",
		Example: "  recalld index status\n  recalld index status --json\n  recalld index status --approximate-recall 100",
		Args:    exactly(0, ""),
		RunE: a.aboutIndex(func(c *cobra.Command, _ []string, s *session) error {
			if c.Flags().Changed("approximate-recall") && request.ApproximateRecall < 1 {
				return &memory.FieldError{Field: "approximate_recall", Problem: fmt.Sprintf("is %d", request.ApproximateRecall), Limit: fmt.Sprintf("1 to %d", coordinator.MaxRecallQueries), Next: "ask for a number inside the limit"}
			}
			state, err := s.Index(c.Context(), request)
			if err != nil {
				return err
			}
			return a.print(state, func(w io.Writer) { writeIndex(w, state) })
		}),
	}
	c.Flags().IntVar(&request.ApproximateRecall, "approximate-recall", 0, fmt.Sprintf("ask so many stored vectors, at most %d, approximately and exactly, and say what both find", coordinator.MaxRecallQueries))
	return c
}

// changeIndexCommand is one action on derived files; repair is nil where there is
// no such choice.
func (a *app) changeIndexCommand(action, short, long, example, title string, repair *bool) *cobra.Command {
	return &cobra.Command{
		Use:     action,
		Short:   short,
		Long:    long,
		Example: example,
		Args:    exactly(0, ""),
		RunE: a.aboutIndex(func(c *cobra.Command, _ []string, s *session) error {
			request := coordinator.IndexRequest{Action: action, Repair: repair != nil && *repair}
			progress, done := a.bar(title, true)
			report, err := s.ChangeIndex(c.Context(), request, progress)
			done()
			if err != nil {
				return err
			}
			if err := a.print(report, func(w io.Writer) { writeIndexReport(w, request, report) }); err != nil {
				return err
			}
			if len(report.Damaged) > 0 {
				return errReported
			}
			return nil
		}),
	}
}

func writeIndexReport(w io.Writer, request coordinator.IndexRequest, r *coordinator.IndexReport) {
	switch {
	case request.Action == coordinator.IndexCompact:
		fmt.Fprintf(w, "%d files, before %d; %d dead rows left out, %d bytes of codes written, %d of vectors copied\n", r.FilesAfter, r.FilesBefore, r.DeadRows, r.CodeBytes, r.ValueBytes)
	case request.Action == coordinator.IndexVerify && len(r.Damaged) == 0:
		if r.Index.Codes.Scanner == coordinator.ScannerOff {
			fmt.Fprintf(w, "every checksum is right, of %d files of words; without a scanner no file of codes was read\n", r.Index.Words.Files)
			return
		}
		fmt.Fprintf(w, "every checksum is right, of %d files of words and %d of codes\n", r.Index.Words.Files, r.Index.Codes.Files)
	case request.Repair:
		fmt.Fprintln(w, "damaged, set aside, and built again:")
	case request.Action == coordinator.IndexVerify:
		fmt.Fprintln(w, "damaged; recalld index verify --repair sets them aside and builds their rows again:")
	}
	for _, name := range r.Damaged {
		fmt.Fprintln(w, "  "+visible(name))
	}
	writeIndex(w, &r.Index)
}

func writeIndex(w io.Writer, s *coordinator.IndexState) {
	trouble := func(text string) {
		if text != "" {
			fmt.Fprintln(w, "       trouble:", visible(text))
		}
	}
	building := func(b bool) string {
		if b {
			return "; building"
		}
		return ""
	}
	fmt.Fprintf(w, "words  %d files, %d bytes, %d rows and %d in memory; up to change %d of %d%s\n", s.Words.Files, s.Words.Bytes, s.Words.Rows, s.Words.Recent, s.Words.Applied, s.LastChange, building(s.Words.Building))
	trouble(s.Words.Trouble)
	if m := s.ApproximateRecall; m != nil {
		defer writeRecall(w, m)
	}
	c := s.Codes
	if c.Scanner == coordinator.ScannerOff {
		fmt.Fprintln(w, "codes  no scanner: vectors and blocks are compared in the server's process, out of the data file")
		return
	}
	progress := building(c.Building)
	if c.Generation == 0 && !c.Building {
		progress = "; nothing to build yet"
	}
	fmt.Fprintf(w, "codes  %d of %d cells%s; generation %d, %d files, %d bytes (%d of vectors)\n", c.Built, c.Total, progress, c.Generation, c.Files, c.Bytes, c.ValueBytes)
	scanner := "no process runs"
	if c.Process != nil {
		scanner = fmt.Sprintf("the scanner %d, %d behind", c.Applied, c.Lag)
	}
	fmt.Fprintf(w, "       %d rows, %d of them dead, and %d beside the files (%d bytes); files hold change %d, %s\n", c.Rows, c.Dead, c.DeltaRows, c.DeltaBytes, c.Sequence, scanner)
	if r := c.Rebuild; r != nil {
		fmt.Fprintf(w, "       a rebuild is under way since %s: %d of %d rows are read\n", r.Since, r.Rows, r.Total)
	}
	if p := c.Process; p != nil {
		fmt.Fprintf(w, "       process %d: %d scans of blocks and %d of records, %d bytes mapped, %d of its own\n", p.Process, p.Scans, p.Ranks, p.Mapped, p.Anonymous)
		trouble(p.LockProblem)
	}
	if c.Quarantined > 0 || c.Restarts > 0 {
		fmt.Fprintf(w, "       %d files set aside as damaged, %d restarts of the scanner\n", c.Quarantined, c.Restarts)
	}
	trouble(c.Trouble)
}

func writeRecall(w io.Writer, m *coordinator.ApproximateRecall) {
	if m.At10 == nil {
		fmt.Fprintln(w, "approximate recall: not measured; it needs a scanner, and records with vectors")
		return
	}
	fmt.Fprintf(w, "approximate recall: %.4f of the ten nearest records, over %d stored vectors\n", *m.At10, m.Queries)
}
