package coordinator

import (
	"context"
	"fmt"

	"recalld/memory"
	"recalld/sqlite"
)

// List pages through one kind of record in a scope, newest first. A cursor is
// the reference of the last row of a page.
func (c *Coordinator) List(ctx context.Context, r ListRequest) (*ListResponse, error) {
	scope := memory.Scope{Agent: r.Agent, Project: r.Project, Channel: r.Channel}
	if err := scope.Check(); err != nil {
		return nil, err
	}
	kind, err := kindOf(r.Type)
	if err != nil {
		return nil, err
	}
	if err := memory.CheckText("source_id", r.SourceID, memory.MaxSource); err != nil {
		return nil, err
	}
	if err := checkCount("limit", r.Limit, 0, MaxList); err != nil {
		return nil, err
	}
	if r.Limit == 0 {
		r.Limit = DefaultList
	}
	filter := sqlite.Filter{Kind: kind, Limit: r.Limit + 1, NewestFirst: true, SourceIDPrefix: r.SourceID}
	if r.Cursor != "" {
		after, err := memory.ParseRef(r.Cursor)
		if err != nil || after.Kind != kind {
			return nil, &memory.FieldError{Field: "cursor", Problem: memory.Shape(r.Cursor) + " is not a cursor of this list", Next: "take it from the page before, or leave it out"}
		}
		filter.After = after.ID
	}
	view, err := c.store.ViewRecords(ctx)
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	defer view.Close()
	records, err := view.List(scope, filter)
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	page := &ListResponse{Rows: []Row{}}
	for i, record := range records {
		if i == r.Limit {
			page.Cursor = page.Rows[i-1].Ref
			break
		}
		page.Rows = append(page.Rows, revised(record))
	}
	return page, nil
}

func kindOf(word string) (memory.Kind, error) {
	word, err := checkWord("type", word, "memory", "episode")
	if word == "episode" {
		return memory.KindEpisode, err
	}
	return memory.KindMemory, err
}
