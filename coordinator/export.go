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
// channel exports no profiles, which belong to the whole agent. The error is
// [memory.ErrCorrupt], after the last line, when records had to be left out.
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
			global, err := view.GlobalMessages(r.Agent, messageIDs(records))
			if err != nil {
				return fmt.Errorf("export: %w", err)
			}
			for _, record := range records {
				if err := write(itemOf(record, global[record.MessageID])); err != nil {
					return fmt.Errorf("export: %w", err)
				}
				filter.After = record.Ref.ID
			}
			more = len(records) == filter.Limit
		}
	}
	if err := damageOf(view); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

func messageIDs(records []memory.Record) []string {
	var ids []string
	for _, record := range records {
		if record.MessageID != "" {
			ids = append(ids, record.MessageID)
		}
	}
	return ids
}

// maxProfiles bounds one reading of an agent's profiles.
const maxProfiles = 1_000_000

// itemOf is the item that would store a record again. global says that the global
// pool knows its message id too, which would make a plain item of a project a
// duplicate.
func itemOf(r memory.Record, global bool) StoreItem {
	item := StoreItem{Project: r.Cell.Project, Channel: r.Cell.Channel, Locked: r.Locked}
	if r.Ref.Kind == memory.KindEpisode {
		item.Type, item.Summary, item.Keywords, item.Resolved = "episode", r.Content, r.Keywords, r.Resolved
		item.Start, item.End = r.Time.String(), r.End.String()
		return item
	}
	item.Type, item.Content, item.MessageID, item.Source, item.Metadata, item.Time = "memory", r.Content, r.MessageID, r.Source, r.Metadata, r.Time.String()
	if r.Version > 1 || global && r.Cell.Project != "" {
		item.OnConflict = sqlite.OnConflictVersion
	}
	return item
}
