package coordinator

import (
	"context"
	"fmt"

	"recalld/memory"
	"recalld/sqlite"
)

// Update edits one record in place and returns it as it is then, with
// [Row.ErasePending] as a deletion has it. Another agent's record is [memory.ErrNotFound] like an unknown one.
func (c *Coordinator) Update(ctx context.Context, r UpdateRequest) (*Row, error) {
	if err := c.writable(ctx, r.Agent); err != nil {
		return nil, err
	}
	ref, err := memory.ParseRef(r.Ref)
	if err != nil {
		return nil, err
	}
	patch, err := c.patch(r, ref.Kind)
	if err != nil {
		return nil, err
	}
	if r.Content != nil {
		made, err := c.models.documents(ctx, []string{*r.Content})
		if err != nil {
			return nil, fmt.Errorf("update: %w", err)
		}
		patch.Vector, patch.Model, patch.Queue = made.of(0)
	}
	record, err := c.store.Update(ctx, r.Agent, ref, patch)
	if err != nil {
		return nil, err
	}
	if err := c.erase(ctx, r.Content != nil); err != nil {
		return nil, fmt.Errorf("update: the record is changed, and words or vectors of what it said before are %w", err)
	}
	c.worker.Wake()
	row := revised(record)
	row.ErasePending = patch.Replaces() && c.store.ErasePending()
	return &row, nil
}

// patch checks the fields that are given.
func (c *Coordinator) patch(r UpdateRequest, kind memory.Kind) (sqlite.Patch, error) {
	p := sqlite.Patch{Content: r.Content, Project: r.Project, Channel: r.Channel, Source: r.Source, Resolved: r.Resolved}
	given := r.Content != nil || r.Project != nil || r.Channel != nil || r.Source != nil || r.Resolved != nil
	if r.Content != nil {
		if err := memory.CheckContent("content", *r.Content, c.policy().MaxContent); err != nil {
			return p, err
		}
	}
	if r.Source != nil {
		if err := checkSource(*r.Source); err != nil {
			return p, err
		}
	}
	if len(r.Metadata) > 0 {
		metadata, err := checkMetadata(r.Metadata)
		if err != nil {
			return p, err
		}
		p.Metadata, given = &metadata, true
	}
	if r.Time != nil {
		when, err := memory.ParseTime("time", *r.Time)
		if err != nil {
			return p, err
		}
		p.Time, given = &when, true
	}
	if r.End != nil {
		end, err := memory.ParseTime("end", *r.End)
		if err != nil {
			return p, err
		}
		p.End, given = &end, true
	}
	if r.Keywords != nil {
		if err := checkKeywords(r.Keywords); err != nil {
			return p, err
		}
		p.Keywords, given = &r.Keywords, true
	}
	for _, axis := range []struct {
		field string
		value *string
	}{{"project", r.Project}, {"channel", r.Channel}} {
		if axis.value != nil {
			if err := memory.CheckName(axis.field, *axis.value); err != nil {
				return p, err
			}
		}
	}
	if !given {
		return p, &memory.FieldError{Field: "update", Problem: "changes nothing", Next: "give at least one field to change"}
	}
	return p, nil
}
