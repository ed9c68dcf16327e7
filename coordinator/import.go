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

// Import stores the lines of the jsonl format for one agent, whoever's they were:
// fronts read files on their own machine, and the service may be on another.
// Importing twice changes nothing. A dry run stores nothing, and counts as stored
// what would be offered.
func Import(ctx context.Context, s Service, in io.Reader, agent string, dryRun bool) (ImportReport, error) {
	var report ImportReport
	if err := checkAgent(agent); err != nil {
		return report, err
	}
	sink := func(ctx context.Context, _ string, items []ingest.Item) ([]ingest.Outcome, error) {
		for i := range items {
			items[i].Agent = ""
		}
		answer, err := s.Store(ctx, StoreRequest{Agent: agent, Items: items})
		if err != nil {
			return nil, err
		}
		if len(answer.Results) != len(items) {
			return nil, fmt.Errorf("import: %d results for %d items", len(answer.Results), len(items))
		}
		outcomes := make([]ingest.Outcome, len(items))
		for i, r := range answer.Results {
			outcomes[i] = ingest.Outcome{Word: r.Outcome, Err: r.Error}
			report.count(items[i].Type, r.Outcome)
		}
		return outcomes, nil
	}
	if dryRun {
		return report, report.preview(ctx, in)
	}
	done, err := ingest.Run(ctx, ingest.NewReader(in), sink, ingest.Options{Agent: agent})
	report.Rejected = done.Rejected
	for _, bad := range done.Bad {
		report.Bad = append(report.Bad, bad.Error())
	}
	return report, err
}

// preview counts the lines that can be read.
func (r *ImportReport) preview(ctx context.Context, in io.Reader) error {
	reader := ingest.NewReader(in)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		item, _, err := reader.Next()
		if err == io.EOF {
			return nil
		}
		if bad := (*ingest.LineError)(nil); errors.As(err, &bad) {
			r.Rejected++
			if len(r.Bad) < ingest.MaxBadListed {
				r.Bad = append(r.Bad, bad.Error())
			}
			continue
		}
		if err != nil {
			return err
		}
		r.count(item.Type, OutcomeStored)
	}
}

func (r *ImportReport) count(kind, outcome string) {
	counts := &r.Stored
	switch outcome {
	case OutcomeRejected:
		return
	case sqlite.OutcomeSkipped:
		counts = &r.Skipped
	}
	switch kind {
	case "episode":
		counts.Episodes++
	case "profile":
		counts.Profiles++
	default:
		counts.Memories++
	}
}
