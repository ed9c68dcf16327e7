package coordinator

import (
	"context"
	"fmt"

	"recalld/memory"
	"recalld/sqlite"
)

// mergeBatch is how many records are offered to the target at a time.
const mergeBatch = 256

// Merge stores everything of one agent for another one, as an export and an
// import would: what the target has already is skipped, vectors are made anew,
// recall counters begin at zero. A target's own profile of a user stays. A move
// deletes at the source what the target took or had; what is locked there stays
// and is named. A merge that fails in between has lost nothing, and can be
// repeated.
func (c *Coordinator) Merge(ctx context.Context, r MergeRequest) (*MergeResponse, error) {
	mode, err := checkWord("mode", r.Mode, "copy", "move")
	if err != nil {
		return nil, err
	}
	for _, who := range []struct{ field, agent string }{{"source", r.Source}, {"target", r.Target}} {
		if who.agent == "" {
			return nil, &memory.FieldError{Field: who.field, Problem: "is empty", Limit: fmt.Sprintf("1 to %d code points", memory.MaxName), Next: "name the agent"}
		}
		if err := memory.CheckName(who.field, who.agent); err != nil {
			return nil, err
		}
	}
	if r.Source == r.Target {
		return nil, &memory.FieldError{Field: "target", Problem: "is the source", Next: "name another agent"}
	}
	if !r.DryRun {
		if err := c.writable(ctx, r.Target); err != nil {
			return nil, err
		}
	}
	if !r.DryRun && mode == "move" {
		if err := c.writable(ctx, r.Source); err != nil {
			return nil, err
		}
	}
	m := &merge{c: c, request: r, answer: &MergeResponse{}}
	if err := m.copyAll(ctx); err != nil {
		return nil, fmt.Errorf("merge: %w", err)
	}
	if mode == "move" && !r.DryRun {
		if err := m.deleteTaken(ctx); err != nil {
			return nil, fmt.Errorf("merge: everything is copied, and then: %w", err)
		}
	}
	return m.answer, nil
}

// merge is one merge at work.
type merge struct {
	c       *Coordinator
	request MergeRequest
	answer  *MergeResponse
	taken   []memory.Ref // of the source; the target has them
	users   []string     // of the source, whose profile the target has
}

// copyAll offers one snapshot of the source to the target.
func (m *merge) copyAll(ctx context.Context) error {
	view, err := m.c.store.ViewRecords(ctx)
	if err != nil {
		return err
	}
	defer view.Close()
	for _, kind := range []memory.Kind{memory.KindEpisode, memory.KindMemory} {
		filter := sqlite.Filter{Kind: kind, Limit: mergeBatch}
		for more := true; more; {
			records, err := view.List(memory.Scope{Agent: m.request.Source}, filter)
			if err != nil {
				return err
			}
			more = len(records) == filter.Limit
			if len(records) == 0 {
				break
			}
			filter.After = records[len(records)-1].Ref.ID
			if err := m.offer(ctx, view, records); err != nil {
				return err
			}
		}
	}
	if err := m.copyProfiles(ctx, view); err != nil {
		return err
	}
	return damageOf(view)
}

// offer stores records of one kind for the target.
func (m *merge) offer(ctx context.Context, view *sqlite.View, records []memory.Record) error {
	merged, skipped := &m.answer.Merged.Memories, &m.answer.Skipped.Memories
	if records[0].Ref.Kind == memory.KindEpisode {
		merged, skipped = &m.answer.Merged.Episodes, &m.answer.Skipped.Episodes
	}
	if m.request.DryRun {
		*merged += int64(len(records))
		return nil
	}
	global, err := view.GlobalMessages(m.request.Source, messageIDs(records))
	if err != nil {
		return err
	}
	items := make([]StoreItem, len(records))
	for i, record := range records {
		items[i] = itemOf(record, global[record.MessageID])
	}
	stored, err := m.c.Store(ctx, StoreRequest{Agent: m.request.Target, Items: items})
	if err != nil {
		return err
	}
	for i, result := range stored.Results {
		switch result.Outcome {
		case OutcomeRejected:
			m.answer.Rejected = append(m.answer.Rejected, records[i].Ref.String())
			continue
		case sqlite.OutcomeSkipped:
			*skipped++
		default:
			*merged++
		}
		m.taken = append(m.taken, records[i].Ref)
	}
	return nil
}

func (m *merge) copyProfiles(ctx context.Context, view *sqlite.View) error {
	profiles, err := view.Profiles(m.request.Source, nil, maxProfiles)
	if err != nil {
		return err
	}
	for _, p := range profiles {
		held, err := view.Profiles(m.request.Target, &p.UserID, 1)
		if err != nil {
			return err
		}
		if len(held) > 0 {
			m.answer.Skipped.Profiles++
			continue
		}
		m.answer.Merged.Profiles++
		if m.request.DryRun {
			continue
		}
		if _, err := m.c.store.PutProfile(ctx, memory.Profile{Agent: m.request.Target, UserID: p.UserID, Content: p.Content}); err != nil {
			return err
		}
		m.users = append(m.users, p.UserID)
	}
	return nil
}

// deleteTaken removes from the source what the target has.
func (m *merge) deleteTaken(ctx context.Context) error {
	for len(m.taken) > 0 {
		n := min(len(m.taken), MaxDeleteRefs)
		names := make([]string, n)
		for i, ref := range m.taken[:n] {
			names[i] = ref.String()
		}
		m.taken = m.taken[n:]
		deleted, err := m.c.Delete(ctx, DeleteRequest{Agent: m.request.Source, Refs: names})
		if err != nil {
			return err
		}
		m.answer.Moved += deleted.Memories + deleted.Episodes
		m.answer.Locked = append(m.answer.Locked, deleted.Locked...)
	}
	for _, user := range m.users {
		if _, err := m.c.store.DeleteProfile(ctx, m.request.Source, user); err != nil {
			return err
		}
	}
	return nil
}
