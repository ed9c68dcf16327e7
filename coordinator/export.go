package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"recalld/memory"
	"recalld/sqlite"
)

// exportPage is how many records are read at a time.
const exportPage = 500

// Export writes a scope as lines of the jsonl format: profiles by user, then
// episodes, then memories, in the order of storing, so that an import of the
// lines stores the same again, versions included. A scope with a project or a
// channel exports no profiles, which belong to the whole agent.
func (c *Coordinator) Export(ctx context.Context, r ExportRequest, each func(line json.RawMessage) error) error {
	scope := memory.Scope{Agent: r.Agent, Project: r.Project, Channel: r.Channel}
	if err := scope.Check(); err != nil {
		return err
	}
	view, err := c.store.ViewRecords(ctx)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	defer view.Close()
	write := func(item StoreItem) error {
		item.Agent = r.Agent
		line, err := json.Marshal(item)
		if err != nil {
			return err
		}
		return each(line)
	}
	if r.Project == nil && r.Channel == nil {
		profiles, err := view.Profiles(r.Agent, nil, maxProfiles)
		if err != nil {
			return fmt.Errorf("export: %w", err)
		}
		slices.SortFunc(profiles, func(a, b memory.Profile) int { return strings.Compare(a.UserID, b.UserID) })
		for _, p := range profiles {
			if err := write(StoreItem{Type: "profile", UserID: p.UserID, Content: p.Content}); err != nil {
				return fmt.Errorf("export: %w", err)
			}
		}
	}
	for _, kind := range []memory.Kind{memory.KindEpisode, memory.KindMemory} {
		filter := sqlite.Filter{Kind: kind, Limit: exportPage}
		for more := true; more; {
			records, err := view.List(scope, filter)
			if err != nil {
				return fmt.Errorf("export: %w", err)
			}
			for _, record := range records {
				if err := write(itemOf(record)); err != nil {
					return fmt.Errorf("export: %w", err)
				}
				filter.After = record.Ref.ID
			}
			more = len(records) == filter.Limit
		}
	}
	return nil
}

// maxProfiles bounds one reading of an agent's profiles.
const maxProfiles = 1_000_000

// itemOf is the item that would store a record again.
func itemOf(r memory.Record) StoreItem {
	item := StoreItem{Project: r.Cell.Project, Channel: r.Cell.Channel, Locked: r.Locked}
	if r.Ref.Kind == memory.KindEpisode {
		item.Type, item.Summary, item.Keywords, item.Resolved = "episode", r.Content, r.Keywords, r.Resolved
		item.Start, item.End = r.Time.String(), r.End.String()
		return item
	}
	item.Type, item.Content, item.MessageID, item.Source, item.Metadata, item.Time = "memory", r.Content, r.MessageID, r.Source, r.Metadata, r.Time.String()
	if r.Version > 1 {
		item.OnConflict = sqlite.OnConflictVersion
	}
	return item
}
