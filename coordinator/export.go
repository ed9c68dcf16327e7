package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"recalld/ingest"
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
	models, err := exportModels(view, r)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if r.Project == nil && r.Channel == nil {
		profiles, err := view.Profiles(r.Agent, nil, maxProfiles)
		if err != nil {
			return fmt.Errorf("export: %w", err)
		}
		slices.SortFunc(profiles, func(a, b memory.Profile) int { return strings.Compare(a.UserID, b.UserID) })
		for _, p := range profiles {
			item := StoreItem{Type: "profile", UserID: p.UserID, Content: p.Content}
			if r.Kept {
				item.Kept = &ingest.Kept{Updated: p.Updated.String()}
			}
			if err := write(item); err != nil {
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
			var kept map[memory.Ref]*ingest.Kept
			if r.Kept {
				if kept, err = keptOf(view, records, models); err != nil {
					return fmt.Errorf("export: %w", err)
				}
			}
			for _, record := range records {
				item := itemOf(record, global[record.MessageID])
				item.Kept = kept[record.Ref]
				if err := write(item); err != nil {
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
		item.OnConflict, item.Version = sqlite.OnConflictVersion, r.Version
	}
	return item
}

// exportModels are the models whose vectors an export gives, in the order in
// which one is taken: the agent's active one, then the others by id.
func exportModels(view *sqlite.View, r ExportRequest) ([]sqlite.Model, error) {
	if !r.Kept {
		return nil, nil
	}
	active, ok, err := view.ActiveModel(r.Agent)
	if err != nil {
		return nil, err
	}
	stored, err := view.Models()
	if err != nil {
		return nil, err
	}
	var use []sqlite.Model
	if ok {
		use = append(use, active)
	}
	for _, m := range stored {
		if m.State != sqlite.ModelRetired && (!ok || m.ID != active.ID) {
			use = append(use, m)
		}
	}
	return use, nil
}

// keptOf is what records take along when they move.
func keptOf(view *sqlite.View, records []memory.Record, models []sqlite.Model) (map[memory.Ref]*ingest.Kept, error) {
	kept := make(map[memory.Ref]*ingest.Kept, len(records))
	without := make([]memory.Ref, 0, len(records))
	for _, r := range records {
		kept[r.Ref] = &ingest.Kept{ID: r.Ref.ID, Created: r.Created.String(), Updated: r.Updated.String(), Recalls: r.RecallCount, Recalled: r.LastRecalled.String(),
			Superseded: r.SupersededBy.ID != 0}
		without = append(without, r.Ref)
	}
	for _, m := range models {
		vectors, err := view.VectorsOf(m.ID, without)
		if err != nil {
			return nil, err
		}
		for ref, values := range vectors {
			kept[ref].Vector, kept[ref].Model = writeVector(values), m.Name
		}
		without = slices.DeleteFunc(without, func(ref memory.Ref) bool { return vectors[ref] != nil })
	}
	return kept, nil
}
