package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"

	"recalld/ingest"
	"recalld/sqlite"
)

// ImportReport counts what [Import] did, by kind.
type ImportReport struct {
	Stored   MergeCounts
	Skipped  MergeCounts // there already
	Rejected int
	Bad      []string // the first of the rejected lines, by number
}

const (
	importItems = 256     // items per store of an import
	importBytes = 4 << 20 // and about as many bytes of texts, unless one has more
)

// Import stores the lines of the jsonl format for one agent, whoever's they were:
// fronts read files on their own machine, and the service may be on another.
// Importing twice changes nothing. A dry run stores nothing, and counts as stored
// what would be offered.
func Import(ctx context.Context, s Service, in io.Reader, agent string, dryRun bool) (ImportReport, error) {
	i := importing{service: s, agent: agent, dryRun: dryRun}
	if err := checkAgent(agent); err != nil {
		return i.report, err
	}
	reader := ingest.NewReader(in)
	for {
		item, at, err := reader.Next()
		bad := (*ingest.LineError)(nil)
		switch {
		case err == io.EOF:
			return i.report, i.store(ctx)
		case errors.As(err, &bad):
			i.reject(bad.Error())
			continue
		case err != nil:
			return i.report, fmt.Errorf("import: %w", err)
		}
		item.Agent = ""
		i.items, i.lines = append(i.items, item), append(i.lines, at.Line)
		i.bytes += len(item.Content) + len(item.Summary)
		if len(i.items) == importItems || i.bytes >= importBytes {
			if err := i.store(ctx); err != nil {
				return i.report, err
			}
		}
	}
}

// importing is an import at work.
type importing struct {
	service Service
	agent   string
	dryRun  bool
	report  ImportReport
	items   []StoreItem
	lines   []int // of the items
	bytes   int
}

func (i *importing) reject(problem string) {
	i.report.Rejected++
	if len(i.report.Bad) < ingest.MaxBadListed {
		i.report.Bad = append(i.report.Bad, problem)
	}
}

// store hands over what was read.
func (i *importing) store(ctx context.Context) error {
	items, lines := i.items, i.lines
	i.items, i.lines, i.bytes = nil, nil, 0
	if err := ctx.Err(); err != nil || len(items) == 0 {
		return err
	}
	results := make([]StoreResult, len(items))
	if !i.dryRun {
		answer, err := i.service.Store(ctx, StoreRequest{Agent: i.agent, Items: items})
		if err != nil {
			return fmt.Errorf("import: the lines before line %d are stored, and then: %w", lines[0], err)
		}
		if len(answer.Results) != len(items) {
			return fmt.Errorf("import: %d results for %d items", len(answer.Results), len(items))
		}
		results = answer.Results
	}
	for n, r := range results {
		counts := &i.report.Stored
		switch r.Outcome {
		case OutcomeRejected:
			i.reject(fmt.Sprintf("line %d: %s", lines[n], r.Error))
			continue
		case sqlite.OutcomeSkipped:
			counts = &i.report.Skipped
		}
		switch items[n].Type {
		case "episode":
			counts.Episodes++
		case "profile":
			counts.Profiles++
		default:
			counts.Memories++
		}
	}
	return nil
}
