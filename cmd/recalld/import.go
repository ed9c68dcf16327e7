package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"recalld/coordinator"
	"recalld/ingest"
	"recalld/memory"
)

// importFlags are the flags of import.
type importFlags struct {
	agent, project, format, vectors, renumbered string
	dryRun                                      bool
}

func (a *app) importCommand() *cobra.Command {
	var f importFlags
	c := &cobra.Command{
		Use:   "import PATH",
		Short: "Bring records in from a file or folder",
		Long: `Bring records in from a file or folder. What is already there is skipped, so
importing twice changes nothing; an interrupted import goes on where it stopped.
Lines that are refused are counted and listed by number, and the exit code is then
1. A dry run checks and compares as much and stores nothing.

Formats (found out from PATH where --format does not say):
  jsonl           one JSON object per line: memory, episode or profile; PATH "-"
                  reads standard input
  cpersona-db     CPersona's database file, also while its server runs: numbers,
                  vectors, counters, times and axes are kept
  cpersona-jsonl  what CPersona's export_memories wrote
  markdown        a folder of Markdown files, or one: a record per heading
  claude-code     a folder of Claude Code transcripts, or one
  chatgpt         conversations.json of a ChatGPT export, or its folder
  mcp-memory      the knowledge-graph memory server's JSONL file
  locomo          the LoCoMo benchmark's turns.jsonl, or the folder that holds it

docs/formats.md has the fields, docs/import.md what becomes of what.`,
		Example: `  recalld import --agent mia notes.jsonl
  recalld import --agent mia --format jsonl --dry-run --json notes.jsonl
  recalld import --format cpersona-db --dry-run ~/.cpersona/cpersona.db
  recalld import --agent mia --project handbook ./handbook
  recalld import --agent mia ~/.claude/projects/-home-mia-atlas`,
		Args: exactly(1, "PATH"),
		RunE: func(c *cobra.Command, args []string) error { return a.runImport(c.Context(), args[0], f) },
	}
	agentFlag(c, &f.agent)
	flags := c.Flags()
	flags.StringVar(&f.project, "project", "", "project of the records that name none; not given: the global pool, which every project sees")
	flags.StringVar(&f.format, "format", "", strings.Join(ingest.Formats(), ", ")+" (default: found out)")
	flags.StringVar(&f.vectors, "vectors", "keep", "keep: use vectors that come along where they are the configured model's; drop: embed every text anew")
	flags.StringVar(&f.renumbered, "renumbered", "", "file to add the records to whose number is another one here: a line of JSON each, from and to")
	flags.BoolVar(&f.dryRun, "dry-run", false, "read, check and compare everything, store nothing")
	return c
}

func (a *app) runImport(ctx context.Context, path string, f importFlags) error {
	in, format, err := a.openImport(ctx, path, f)
	if err != nil {
		return err
	}
	defer in.Close()
	s, err := a.openOrMake(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	status, err := s.Status(ctx)
	if err != nil {
		return err
	}
	progress, done := a.bar("importing", true)
	o := ingest.Options{Agent: f.agent, Project: f.project, DryRun: f.dryRun, Dims: status.Model.Dims, Progress: func(r ingest.Report) { progress(r.Bytes, r.Size) }}
	marks := [2]int64{status.LastMemory, status.LastEpisode}
	if path != "-" && !f.dryRun {
		if o.Cursor, err = ingest.NewCursor(a.data, status.TruthID, f.agent, format, path, marks); err != nil {
			return err
		}
		marks = o.Cursor.Marks()
	}
	if f.renumbered != "" {
		if f.renumbered, err = a.outside("--renumbered", f.renumbered); err != nil {
			return err
		}
	}
	closeMap, err := f.mapNumbers(&o)
	if err != nil {
		return err
	}
	began := time.Now()
	sink := importSink{service: s, request: coordinator.StoreRequest{DryRun: f.dryRun, MemoriesAbove: marks[0], EpisodesAbove: marks[1]}, drop: f.vectors == "drop"}
	report, err := ingest.Run(ctx, in, sink.store, o)
	done()
	if e := report.Estimate; e != nil {
		e.Minutes = (time.Since(began).Seconds() + float64(float64(e.Texts)*sink.textSeconds)) / 60
	}
	if err := errors.Join(err, closeMap()); err != nil {
		return err
	}
	if err := a.print(report, func(w io.Writer) { writeReport(w, report) }); err != nil {
		return err
	}
	if report.Rejected > 0 {
		return errReported
	}
	return nil
}

// openImport opens the input and says its format. Nothing of the store has been
// touched when it refuses.
func (a *app) openImport(ctx context.Context, path string, f importFlags) (in *ingest.Reader, format string, err error) {
	for _, p := range []struct{ name, value string }{{"PATH", path}, {"--renumbered", f.renumbered}} {
		if err := checkPath(p.name, p.value); err != nil {
			return nil, "", err
		}
	}
	if f.vectors != "keep" && f.vectors != "drop" {
		return nil, "", &memory.FieldError{Field: "--vectors", Problem: memory.Shape(f.vectors) + " is not known", Limit: "keep, drop", Next: "choose one of them"}
	}
	if _, err := os.Stat(path); path != "-" && errors.Is(err, fs.ErrNotExist) {
		return nil, "", &memory.FieldError{Field: "PATH", Problem: path + " is not there", Next: "name a file or folder to import"}
	}
	format = f.format
	switch {
	case path == "-" && (format == "" || format == ingest.FormatJSONL):
		return ingest.NewReader(a.in), ingest.FormatJSONL, nil
	case path == "-":
		return nil, "", &memory.FieldError{Field: "PATH", Problem: "is standard input", Limit: "a file or folder for the format " + memory.Shape(format), Next: "name the file"}
	case format == "":
		if format, err = ingest.Detect(path); err != nil {
			return nil, "", err
		}
	}
	if in, err = ingest.OpenFile(ctx, format, path); err != nil {
		return nil, "", err
	}
	if f.agent == "" && !in.NamesAgents() {
		return nil, "", errors.Join(&memory.FieldError{Field: "--agent", Problem: "is not given", Limit: "the agent whose memory it becomes; the format " + format + " names none", Next: "name it"}, in.Close())
	}
	return in, format, nil
}

// mapNumbers makes a run add the records that it numbered anew to a file, so that
// an import which goes on keeps what it wrote before it was interrupted.
func (f *importFlags) mapNumbers(o *ingest.Options) (closeFile func() error, err error) {
	if f.renumbered == "" {
		return func() error { return nil }, nil
	}
	out, err := os.OpenFile(f.renumbered, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	encoder := json.NewEncoder(out)
	o.Renumbered = func(from, to string) error {
		return encoder.Encode(struct {
			From string `json:"from"`
			To   string `json:"to"`
		}{from, to})
	}
	return out.Close, nil
}

// importSink stores an import's batches through the service, each as the request
// says. With drop, vectors that came along are left out.
type importSink struct {
	service     coordinator.Service
	request     coordinator.StoreRequest
	drop        bool
	textSeconds float64 // the longest that a dry run measured for one text
}

func (s *importSink) store(ctx context.Context, agent string, items []ingest.Item) ([]ingest.Outcome, error) {
	if s.drop {
		dropVectors(items)
	}
	s.request.Agent, s.request.Items = agent, items
	answer, err := s.service.Store(ctx, s.request)
	if err != nil {
		return nil, err
	}
	s.textSeconds = max(s.textSeconds, answer.TextSeconds)
	outcomes := make([]ingest.Outcome, len(answer.Results))
	for i, r := range answer.Results {
		outcomes[i] = ingest.Outcome{Word: r.Outcome, Err: r.Error, Ref: r.Ref, Embed: r.Embed}
	}
	return outcomes, nil
}

func dropVectors(items []ingest.Item) {
	for i := range items {
		if k := items[i].Kept; k != nil {
			without := *k
			without.Vector, without.Model = "", ""
			items[i].Kept = &without
		}
	}
}

func writeReport(w io.Writer, r ingest.Report) {
	if r.DryRun {
		fmt.Fprintf(w, "dry run: %d items read: %d would be stored, %d new versions, %d already there or twice, %d would be refused; nothing stored\n", r.Read, r.Stored, r.Versioned, r.Skipped, r.Rejected)
	} else {
		fmt.Fprintf(w, "%d items read: %d stored, %d new versions, %d already there, %d refused\n", r.Read, r.Stored, r.Versioned, r.Skipped, r.Rejected)
	}
	if r.Resumed > 0 {
		fmt.Fprintf(w, "went on after line %d of an interrupted import\n", r.Resumed)
	}
	if r.IDs != nil {
		fmt.Fprintf(w, "numbers: %d kept, %d other ones here\n", r.IDs.Kept, r.IDs.Renumbered)
	}
	for _, v := range r.Vectors {
		name := v.Model
		if name == "" {
			name = "not named"
		}
		fmt.Fprintf(w, "vectors of %d dimensions (%s): %d, used as they are %d, embedded anew %d\n", v.Dims, visible(name), v.Records, v.Kept, v.Records-v.Kept)
	}
	if e := r.Estimate; e != nil {
		fmt.Fprintf(w, "it would take about %s of disk and %.1f minutes before everything is embedded\n", megabytes(e.DiskBytes), e.Minutes)
	}
	for _, l := range r.Left {
		fmt.Fprintf(w, "not taken over: %d %s\n", l.Count, l.What)
	}
	for _, bad := range r.Bad {
		place := fmt.Sprintf("line %d", bad.Line)
		if bad.Where != "" {
			place = fmt.Sprintf("%s, line %d", visible(bad.Where), bad.Line)
		}
		if bad.Count > 1 {
			place += fmt.Sprintf(" and %d more up to line %d", bad.Count-1, bad.Last)
		}
		fmt.Fprintf(w, "%s: %s\n", place, visible(bad.Err))
	}
	listed := 0
	for _, bad := range r.Bad {
		listed += max(1, bad.Count)
	}
	if more := r.Rejected - listed; more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
}

// megabytes is a number of bytes for a person.
func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
