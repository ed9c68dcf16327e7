package coordinator

import (
	"context"
	"fmt"
	"slices"

	"recalld/memory"
)

// GetContents returns whole rows or exact ranges of them in the order asked,
// within a budget (RR-236, RR-438). A range whose text has changed, that is not
// inside the text, or whose form this server cannot give exactly, and whatever is
// of a damaged record, is unresolved; nothing is widened or clamped (BR-087).
func (c *Coordinator) GetContents(ctx context.Context, r ContentsRequest) (*ContentsResponse, error) {
	scope := memory.Scope{Agent: r.Agent, Project: r.Project, Channel: r.Channel}
	if err := scope.Check(); err != nil {
		return nil, err
	}
	if err := checkCount("refs", len(r.Refs), 1, MaxContentRefs); err != nil {
		return nil, err
	}
	answer := &ContentsResponse{Rows: []Row{}}
	var handles []handle
	var refs []memory.Ref
	seen := make(map[string]bool)
	for _, text := range r.Refs {
		if seen[text] {
			continue
		}
		seen[text] = true
		h, _ := parseHandle(text)
		h.text = text
		handles = append(handles, h)
		if h.ref.ID != 0 {
			refs = append(refs, h.ref)
		}
	}
	view, err := c.store.ViewRecords(ctx)
	if err != nil {
		return nil, fmt.Errorf("get contents: %w", err)
	}
	defer view.Close()
	records, err := view.Hydrate(scope, refs)
	if err != nil {
		return nil, fmt.Errorf("get contents: %w", err)
	}
	damaged := view.Damaged()
	byRef := make(map[memory.Ref]memory.Record, len(records))
	for _, record := range records {
		byRef[record.Ref] = record
	}

	budget := c.policy().ContentsBudget
	spent, full := 0, false
	for _, h := range handles {
		record, found := byRef[h.ref]
		if slices.Contains(damaged, h.ref) {
			answer.Unresolved = append(answer.Unresolved, h.text)
			continue
		}
		if !found {
			answer.Missing = append(answer.Missing, shownRef(h.text))
			continue
		}
		if err := h.locate(view, r.Agent); err != nil {
			return nil, fmt.Errorf("get contents: %w", err)
		}
		row, ok := h.row(record)
		if !ok {
			answer.Unresolved = append(answer.Unresolved, shownRef(h.text))
			continue
		}
		size := memory.Len(row.Content)
		if full = full || len(answer.Rows) > 0 && spent+size > budget; full {
			answer.Deferred = append(answer.Deferred, shownRef(h.text))
			answer.Budget = budget
			continue
		}
		spent += size
		answer.Rows = append(answer.Rows, row)
	}
	return answer, nil
}

// row gives what the handle names of its record; ok is false when that cannot
// be given exactly.
func (h handle) row(record memory.Record) (row Row, ok bool) {
	row = revised(record)
	if !h.exact || h.revision != "" && h.revision != row.Revision {
		return Row{}, false
	}
	if h.part == nil {
		return row, true
	}
	part, inside := h.part.Slice(record.Content)
	if !inside {
		return Row{}, false
	}
	row.Ref = h.text
	if part != record.Content {
		row.ContentTruncated = true
		row.ContentLen = memory.Len(record.Content)
	}
	row.Content = part
	return row, true
}

// shownRef repeats an unusable reference without repeating a megabyte of it or
// bytes that are no text.
func shownRef(s string) string {
	if memory.CheckText("ref", s, memory.MaxName) != nil {
		return memory.Shape(s)
	}
	return s
}
