package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"recalld/bench"
	"recalld/coordinator"
	"recalld/ingest"
	"recalld/memory"
)

// peersFlags are the flags of bench peers.
type peersFlags struct {
	tasks, peers      []string
	rows              []int
	dims, k           int
	queries, repeat   int
	questions         int
	python, scripts   string
	reference, folder string
}

func (a *app) benchPeers() *cobra.Command {
	var f peersFlags
	c := &cobra.Command{
		Use:   "peers",
		Short: "The same searches and recalls through other libraries and servers",
		Long: `Let other libraries search the same rows for the same queries as recalld, call by
call in turns, and compare every answer with one that is computed apart.

signs    nearest sign codes: the kernel, a scanner process, numpy, faiss, usearch and
         sqlite-vec
records  highest inner products of float32 vectors: the same, and two graphs
recall   whole recalls beside the memory server CPersona, on the same texts and
         vectors, embedding excluded on both sides

A peer that is not installed is skipped and named. docs/benchmarks/peers.md says how
to install them and what was measured.`,
		Example: `  recalld bench peers --json
  recalld bench peers --task signs --rows 1000000 --dims 1024 --k 200 --python VENV/bin/python
  recalld bench peers --task recall --rows 1000,10000 --reference VENV/bin/python --json`,
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return a.runPeers(c.Context(), f) },
	}
	flags := c.Flags()
	flags.StringSliceVar(&f.tasks, "task", []string{bench.TaskSigns, bench.TaskRecords, bench.TaskRecall}, "signs, records, recall")
	flags.StringSliceVar(&f.peers, "peers", nil, "who takes part in signs and records (default: all)")
	flags.IntSliceVar(&f.rows, "rows", nil, "rows, or records of recall; several are measured one after the other (default: 100000 of signs and records, 1000 of recall)")
	flags.IntVar(&f.dims, "dims", 0, "bits of a code, a multiple of 64; components of a vector, a multiple of 4 (default: 1024 and 384)")
	flags.IntVar(&f.k, "k", 100, "nearest rows wanted")
	flags.IntVar(&f.queries, "queries", 32, "different queries, which take turns")
	flags.IntVar(&f.repeat, "repeat", 30, "calls of each kind")
	flags.IntVar(&f.questions, "questions", 200, "questions of recall at most")
	flags.StringVar(&f.python, "python", os.Getenv("RECALLD_PEERS_PYTHON"), "Python of bench/peers/setup.sh (environment: RECALLD_PEERS_PYTHON)")
	flags.StringVar(&f.scripts, "scripts", "bench/peers", "folder of peer.py and reference.py")
	flags.StringVar(&f.reference, "reference", os.Getenv("RECALLD_REFERENCE_PYTHON"), "Python of bench/servers/cpersona.sh (environment: RECALLD_REFERENCE_PYTHON)")
	flags.StringVar(&f.folder, "folder", "", "folder for the files of a run, which are removed (default: the system's)")
	c.MarkFlagDirname("scripts")
	c.MarkFlagDirname("folder")
	return c
}

func (a *app) runPeers(ctx context.Context, f peersFlags) error {
	known := []string{bench.TaskSigns, bench.TaskRecords, bench.TaskRecall}
	for _, task := range f.tasks {
		if !slices.Contains(known, task) {
			return &memory.FieldError{Field: "--task", Problem: memory.Shape(task) + " is not known", Limit: fmt.Sprint(known), Next: "choose among them"}
		}
	}
	machine := bench.ThisMachine(time.Now(), version())
	report := &bench.PeersReport{Kind: "peers", Machine: machine, Date: machine.Date, Commit: machine.Version, Command: machine.Command, Load: []string{bench.LoadAverage()}}
	for _, task := range f.tasks {
		for _, rows := range f.rowsOf(task) {
			if err := a.peersOf(ctx, f, task, rows, report); err != nil {
				return err
			}
		}
	}
	report.Load = append(report.Load, bench.LoadAverage())
	return a.print(report, func(w io.Writer) { writePeers(w, report) })
}

func (f *peersFlags) rowsOf(task string) []int {
	switch {
	case len(f.rows) > 0:
		return f.rows
	case task == bench.TaskRecall:
		return []int{1_000}
	}
	return []int{100_000}
}

// peersOf adds the rows of one task at one size to the report.
func (a *app) peersOf(ctx context.Context, f peersFlags, task string, rows int, report *bench.PeersReport) error {
	folder, err := os.MkdirTemp(f.folder, "peers")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if task == bench.TaskRecall {
		return a.peersOfRecall(ctx, f, rows, folder, report)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	o := bench.PeersOptions{Task: task, Rows: rows, Dims: f.dims, K: f.k, Queries: f.queries, Repeat: f.repeat, Names: f.peers, Python: f.python, Scripts: f.scripts,
		Folder: folder, Scanner: []string{program, "scanner"}, Clock: time.Now}
	if o.Dims == 0 {
		o.Dims = map[string]int{bench.TaskSigns: 1024, bench.TaskRecords: 384}[task]
	}
	if len(o.Names) == 0 {
		o.Names = bench.PeerNames(task)
	}
	progress, done := a.bar(fmt.Sprintf("%s, %d rows", task, rows), false)
	defer done()
	o.Progress = progress
	all, skipped, err := bench.Peers(ctx, o)
	report.Rows, report.Skipped = append(report.Rows, all...), append(report.Skipped, skipped...)
	return err
}

// peersOfRecall adds those of whole recalls.
func (a *app) peersOfRecall(ctx context.Context, f peersFlags, records int, folder string, report *bench.PeersReport) error {
	progress, done := a.bar(fmt.Sprintf("recall, %d records", records), false)
	defer done()
	o := bench.PeersRecallOptions{Records: records, Questions: f.questions, Reference: f.reference, Scripts: f.scripts, Folder: folder, Progress: progress, Clock: time.Now}
	o.Open = func(ctx context.Context, embedURL string) (coordinator.Service, func() error, error) {
		a.data = filepath.Join(folder, "data")
		a.embed.set["embedding.backend"], a.embed.set["embedding.url"] = "embed", embedURL
		a.scanner.serves = true
		s, err := a.openToServe(ctx)
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	}
	o.Import = func(ctx context.Context, s coordinator.Service, path string) error {
		in, err := ingest.OpenFile(ctx, ingest.FormatCPersonaDB, path)
		if err != nil {
			return err
		}
		defer in.Close()
		status, err := s.Status(ctx)
		if err != nil {
			return err
		}
		sink := importSink{service: s}
		r, err := ingest.Run(ctx, in, sink.store, ingest.Options{Dims: status.Model.Dims})
		if err != nil {
			return err
		}
		if r.Stored != records || len(r.Vectors) != 1 || r.Vectors[0].Kept != records {
			return fmt.Errorf("of %d records %d came in, of %v vectors", records, r.Stored, r.Vectors)
		}
		return nil
	}
	all, skipped, err := bench.PeersRecall(ctx, o)
	report.Rows, report.Skipped = append(report.Rows, all...), append(report.Skipped, skipped...)
	return err
}

func writePeers(w io.Writer, r *bench.PeersReport) {
	fmt.Fprintf(w, "%s, %d cores, load %q to %q\n", r.Machine.CPU, r.Machine.Cores, r.Load[0], r.Load[len(r.Load)-1])
	fmt.Fprintf(w, "%-8s %9s %5s %4s %7s %8s  %-15s %9s %9s %9s %7s %7s %6s %8s\n", "task", "n", "dims", "k", "threads", "together", "name", "p50 ms", "p95 ms", "best ms", "ratio", "recall", "equal", "rss MB")
	for _, row := range r.Rows {
		equal := "-"
		if row.Equal != nil {
			equal = strconv.FormatBool(*row.Equal)
		}
		fmt.Fprintf(w, "%-8s %9d %5d %4d %7d %8d  %-15s %9.3f %9.3f %9.3f %7.2f %7.4f %6s %8.1f\n", row.Task, row.N, row.Dims, row.K, row.Threads, row.Together, row.Name,
			row.P50, row.P95, row.Best, row.Ratio, row.Recall, equal, row.RSS)
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(w, "skipped: %s of %s: %s\n", s.Name, s.Task, s.Reason)
	}
}
