package sqlite

import (
	"context"
	"errors"
	"fmt"

	"recalld/memory"
)

// What became of a record that was to be deleted.
const (
	OutcomeDeleted = "deleted"
	OutcomeMissing = "missing"
	OutcomeLocked  = "locked"
	OutcomeKept    = "kept" // [Store.DeleteWhere] was told not to
)

// DeleteResult says what became of one ref.
type DeleteResult struct {
	Ref     memory.Ref
	Outcome string
}

// Delete removes records of the agent with their vectors, queue entries,
// counters and index entries. On return their bytes are gone from the file and
// its log, unless [Stats.ErasePending]. A deleted version gives its place in
// the chain to the one before it. Unknown and foreign refs are missing.
func (s *Store) Delete(ctx context.Context, agent string, refs []memory.Ref) ([]DeleteResult, error) {
	return s.DeleteWhere(ctx, agent, refs, func(memory.Record) bool { return true })
}

// DeleteWhere is [Store.Delete] of those records that fits is true of as they are
// then; the others are kept. It is asked inside the transaction and must not use
// the store.
func (s *Store) DeleteWhere(ctx context.Context, agent string, refs []memory.Ref, fits func(memory.Record) bool) ([]DeleteResult, error) {
	results := make([]DeleteResult, len(refs))
	err := s.submit(&job{ctx: ctx, erase: true, run: func(t *tx) error {
		return t.item(func() error {
			for i, ref := range refs {
				results[i] = DeleteResult{Ref: ref, Outcome: OutcomeDeleted}
				rec, _, err := t.record(agent, ref)
				switch {
				case errors.Is(err, memory.ErrNotFound):
					results[i].Outcome = OutcomeMissing
					continue
				case err != nil:
					return err
				case rec.Locked:
					results[i].Outcome = OutcomeLocked
					continue
				case !fits(rec):
					results[i].Outcome = OutcomeKept
					continue
				}
				sql := "DELETE FROM memory WHERE id = ?"
				if ref.Kind == memory.KindEpisode {
					sql = "DELETE FROM episode WHERE id = ?"
				}
				if _, _, err := t.exec(sql, ref.ID); err != nil {
					return err
				}
			}
			return nil
		})
	}})
	if err != nil {
		return nil, fmt.Errorf("delete records: %w", err)
	}
	return results, nil
}

// AgentDeletion counts what DeleteAgent removed. Locked records stay, with the
// cells that hold them.
type AgentDeletion struct {
	Memories, Episodes, Profiles int64
	Locked                       []memory.Ref
}

// DeleteAgent removes everything the agent has, except locked records.
func (s *Store) DeleteAgent(ctx context.Context, agent string) (AgentDeletion, error) {
	var d AgentDeletion
	err := s.submit(&job{ctx: ctx, erase: true, run: func(t *tx) error {
		return t.item(func() (err error) {
			d, err = t.deleteAgent(agent)
			return err
		})
	}})
	if err != nil {
		return AgentDeletion{}, fmt.Errorf("delete the agent's records: %w", err)
	}
	return d, nil
}

func (t *tx) deleteAgent(agent string) (d AgentDeletion, err error) {
	where, args := predicate("cell", memory.Scope{Agent: agent})
	for _, kind := range []memory.Kind{memory.KindEpisode, memory.KindMemory} {
		table := "memory"
		if kind == memory.KindEpisode {
			table = "episode"
		}
		err := t.query(context.Background(), "SELECT id FROM "+table+" WHERE locked = 1 AND "+where+" ORDER BY id", args, func(r row) error {
			d.Locked = append(d.Locked, memory.Ref{Kind: kind, ID: r.int(0)})
			return nil
		})
		if err != nil {
			return d, err
		}
	}
	steps := []struct {
		sql   string
		args  []any
		count *int64
	}{
		{"DELETE FROM memory WHERE locked = 0 AND " + where, args, &d.Memories},
		{"DELETE FROM episode WHERE locked = 0 AND " + where, args, &d.Episodes},
		{"DELETE FROM profile WHERE agent = ?", []any{agent}, &d.Profiles},
		{"DELETE FROM calibration WHERE agent = ?", []any{agent}, nil},
		{"DELETE FROM agent_model WHERE agent = ?", []any{agent}, nil},
		{"DELETE FROM cell WHERE agent = ? AND id IN (SELECT cell FROM cell_stats WHERE model = 0 AND memories + episodes = 0)", []any{agent}, nil},
	}
	for _, step := range steps {
		n, _, err := t.exec(step.sql, step.args...)
		if err != nil {
			return d, err
		}
		if step.count != nil {
			*step.count = n
		}
	}
	t.w.forget()
	return d, nil
}
