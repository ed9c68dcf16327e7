package coordinator

import (
	"context"
	"fmt"
	"slices"

	"recalld/memory"
	"recalld/sqlite"
)

// mergeBatch is how many records are offered to the target at a time.
const mergeBatch = 256

// Merge stores everything of one agent for another one, as an export and an
// import would: what the target has already is skipped, vectors are made anew,
// recall counters begin at zero. A target's own profile of a user stays. A move
// deletes at the source whatever text the target took or had. What is locked
// there, what was changed there meanwhile, and what the target has under the same
// message id with another text stays and is named. A merge that fails in between
// has lost nothing, and can be repeated.
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
	taken   []taken
	users   []memory.Profile // of the source, which the target took
}

// taken is a record of the source and the target's that the store answered with.
type taken struct {
	from memory.Ref
	to   string
}

// copyAll offers one snapshot of the source to the target. What was left out of
// it as damaged is an error, after the rest is copied.
func (m *merge) copyAll(ctx context.Context) error {
	profiles, damage, err := m.copyRecords(ctx)
	if err != nil {
		return err
	}
	if err := m.copyProfiles(ctx, profiles); err != nil {
		return err
	}
	return damage
}

// copyRecords offers the records, and returns the profiles of the same snapshot
// and what of it is damaged.
func (m *merge) copyRecords(ctx context.Context) (profiles []memory.Profile, damage, err error) {
	view, err := m.c.store.ViewRecords(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer view.Close()
	for _, kind := range []memory.Kind{memory.KindEpisode, memory.KindMemory} {
		filter := sqlite.Filter{Kind: kind, Limit: mergeBatch}
		for more := true; more; {
			records, err := view.List(memory.Scope{Agent: m.request.Source}, filter)
			if err != nil {
				return nil, nil, err
			}
			more = len(records) == filter.Limit
			if len(records) == 0 {
				break
			}
			filter.After = records[len(records)-1].Ref.ID
			if err := m.offer(ctx, view, records); err != nil {
				return nil, nil, err
			}
		}
	}
	profiles, err = view.Profiles(m.request.Source, nil, maxProfiles)
	return profiles, damageOf(view), err
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
		m.taken = append(m.taken, taken{records[i].Ref, result.Ref})
	}
	return nil
}

func (m *merge) copyProfiles(ctx context.Context, profiles []memory.Profile) error {
	for _, p := range profiles {
		held, err := m.c.Profiles(ctx, m.request.Target, &p.UserID)
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
		m.users = append(m.users, p)
	}
	return nil
}

// deleteTaken removes from the source what the target has.
func (m *merge) deleteTaken(ctx context.Context) error {
	for batch := range slices.Chunk(m.taken, mergeBatch) {
		if err := m.deleteBatch(ctx, batch); err != nil {
			return err
		}
	}
	for _, p := range m.users {
		now, err := m.c.Profiles(ctx, m.request.Source, &p.UserID)
		if err != nil {
			return err
		}
		if len(now) == 0 || now[0].Content != p.Content {
			continue // it was changed meanwhile
		}
		if _, err := m.c.store.DeleteProfile(ctx, m.request.Source, p.UserID); err != nil {
			return err
		}
	}
	return nil
}

// deleteBatch deletes those records whose text is the one that the target has.
func (m *merge) deleteBatch(ctx context.Context, batch []taken) error {
	if err := m.c.writable(ctx, m.request.Source); err != nil {
		return err
	}
	held, err := m.textsOf(ctx, batch)
	if err != nil {
		return err
	}
	refs := make([]memory.Ref, len(batch))
	for i, t := range batch {
		refs[i] = t.from
	}
	results, err := m.c.store.DeleteWhere(ctx, m.request.Source, refs, func(r memory.Record) bool {
		text, ok := held[r.Ref]
		return ok && text == r.Content
	})
	if err != nil {
		return err
	}
	for _, r := range results {
		switch r.Outcome {
		case sqlite.OutcomeDeleted:
			m.answer.Moved++
		case sqlite.OutcomeLocked:
			m.answer.Locked = append(m.answer.Locked, r.Ref.String())
		case sqlite.OutcomeKept:
			m.answer.Rejected = append(m.answer.Rejected, r.Ref.String())
		}
	}
	if err := m.c.erase(ctx, true); err != nil {
		return fmt.Errorf("words or vectors of what was moved are %w", err)
	}
	return nil
}

// textsOf is what the target has now, by the record of the source.
func (m *merge) textsOf(ctx context.Context, batch []taken) (map[memory.Ref]string, error) {
	var refs []memory.Ref
	for _, t := range batch {
		if ref, err := memory.ParseRef(t.to); err == nil {
			refs = append(refs, ref)
		}
	}
	view, err := m.c.store.ViewRecords(ctx)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	records, err := view.Hydrate(memory.Scope{Agent: m.request.Target}, refs)
	if err != nil {
		return nil, err
	}
	texts := make(map[string]string, len(records))
	for _, r := range records {
		texts[r.Ref.String()] = r.Content
	}
	held := make(map[memory.Ref]string, len(batch))
	for _, t := range batch {
		if text, ok := texts[t.to]; ok {
			held[t.from] = text
		}
	}
	return held, nil
}
