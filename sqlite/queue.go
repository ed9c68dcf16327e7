package sqlite

import (
	"context"
	"fmt"
	"time"

	"recalld/memory"
)

// Task is one record that waits for a model.
type Task struct {
	ID       int64
	Ref      memory.Ref
	Agent    string
	Model    int64
	Text     string // content or summary
	Revision string // [memory.Revision] of Text, for PutVectors
	Attempts int    // failures so far
}

// Claim leases up to n tasks of a model that are due, oldest first. A task whose
// lease ran out, or whose worker's process is gone, can be claimed again.
func (s *Store) Claim(ctx context.Context, model int64, n int, lease time.Duration) ([]Task, error) {
	var tasks []Task
	err := s.write(ctx, func(t *tx) error {
		return t.item(func() error {
			tasks = nil
			now := t.w.store.now().UnixMilli()
			err := t.query(context.Background(), `SELECT q.id, q.kind, q.parent, c.agent, q.attempts, coalesce(m.content, e.summary)
				FROM queue q
				LEFT JOIN memory m ON q.kind = 2 AND m.id = q.parent
				LEFT JOIN episode e ON q.kind = 1 AND e.id = q.parent
				JOIN cell c ON c.id = coalesce(m.cell, e.cell)
				WHERE q.model = ? AND q.state = 0 AND q.not_before <= ? AND q.leased_until <= ? ORDER BY q.id LIMIT ?`,
				[]any{model, now, now, n}, func(r row) error {
					tasks = append(tasks, Task{
						ID: r.int(0), Ref: memory.Ref{Kind: memory.Kind(r.int(1)), ID: r.int(2)}, Agent: r.text(3), Model: model,
						Attempts: int(r.int(4)), Text: r.text(5), Revision: memory.Revision(r.text(5)),
					})
					return nil
				})
			if err != nil {
				return err
			}
			for _, task := range tasks {
				if _, _, err := t.exec("UPDATE queue SET leased_until = ? WHERE id = ?", now+lease.Milliseconds(), task.ID); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("claim embedding tasks: %w", err)
	}
	return tasks, nil
}

// Fail gives claimed tasks back after a failure; they are due again at
// notBefore. Tasks that are gone by now are passed over. cause must not contain
// a record's text.
func (s *Store) Fail(ctx context.Context, ids []int64, cause string, notBefore time.Time) error {
	return s.settle(ctx, "UPDATE queue SET attempts = attempts + 1, leased_until = 0, error = ?, not_before = ? WHERE id = ?", []any{cause, notBefore.UnixMilli()}, ids)
}

// Release gives claimed tasks back as they were.
func (s *Store) Release(ctx context.Context, ids []int64) error {
	return s.settle(ctx, "UPDATE queue SET leased_until = 0 WHERE id = ?", nil, ids)
}

// MarkUnembeddable ends tasks whose text the model cannot embed: counted, never
// tried again until the text changes (DECISIONS 26). An edit gives a claimed
// task back, so that a text which came meanwhile is not marked for the old one.
func (s *Store) MarkUnembeddable(ctx context.Context, ids []int64) error {
	return s.settle(ctx, "UPDATE queue SET state = 1, leased_until = 0 WHERE id = ? AND leased_until <> 0", nil, ids)
}

func (s *Store) settle(ctx context.Context, sql string, args []any, ids []int64) error {
	err := s.write(ctx, func(t *tx) error {
		return t.item(func() error {
			for _, id := range ids {
				if _, _, err := t.exec(sql, append(args[:len(args):len(args)], id)...); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("settle embedding tasks: %w", err)
	}
	return nil
}

// missingCursor remembers how far EnqueueMissing has looked in each kind.
type missingCursor struct{ episode, memory int64 }

// EnqueueMissing queues up to limit records that have neither a vector of the
// model nor a queue entry for it, and returns how many. Calls go on where the
// last one stopped; 0 means that a whole pass found none, or that the counts of the
// cells say there is none: a pass reads every record, and a file of many would do
// little else.
func (s *Store) EnqueueMissing(ctx context.Context, model int64, limit int) (n int, err error) {
	if some, err := read(ctx, s, func(v *View) (bool, error) { return v.missesVectors(model) }); err != nil || !some {
		return 0, err
	}
	err = s.write(ctx, func(t *tx) error {
		return t.item(func() (err error) {
			began := t.w.missing[model]
			n, err = t.enqueueMissing(model, limit)
			if err == nil && n == 0 && began != (missingCursor{}) {
				n, err = t.enqueueMissing(model, limit) // from the beginning
			}
			return err
		})
	})
	if err != nil {
		return 0, fmt.Errorf("queue records without a vector: %w", err)
	}
	return n, nil
}

// missesVectors reports whether there are more records than those that have a vector
// of a model or wait for their first one. `recalld doctor` checks the counts.
func (v *View) missesVectors(model int64) (some bool, err error) {
	err = v.query(`SELECT coalesce(sum(CASE WHEN model = 0 THEN memories + episodes ELSE -memories - episodes END), 0) >
		(SELECT count(*) FROM queue q WHERE q.model = ?1
			AND (q.kind = 2 AND EXISTS (SELECT 1 FROM memory WHERE id = q.parent) OR q.kind = 1 AND EXISTS (SELECT 1 FROM episode WHERE id = q.parent))
			AND NOT EXISTS (SELECT 1 FROM vector x WHERE x.key = (?1 << 41) + ((q.kind - 1) << 40) + q.parent))
		FROM cell_stats WHERE model IN (0, ?1)`, []any{model}, func(r row) error {
		some = r.int(0) != 0
		return nil
	})
	return some, err
}

func (t *tx) enqueueMissing(model int64, limit int) (n int, err error) {
	if limit <= 0 {
		return 0, nil
	}
	at := t.w.missing[model]
	for _, part := range []struct {
		kind   memory.Kind
		table  string
		cursor *int64
	}{{memory.KindEpisode, "episode", &at.episode}, {memory.KindMemory, "memory", &at.memory}} {
		var ids []int64
		err := t.query(context.Background(), "SELECT r.id FROM "+part.table+` r WHERE r.id > ?
			AND NOT EXISTS (SELECT 1 FROM vector WHERE key = ? + r.id)
			AND NOT EXISTS (SELECT 1 FROM queue WHERE kind = ? AND parent = r.id AND model = ?) ORDER BY r.id LIMIT ?`,
			[]any{*part.cursor, vectorKey(model, memory.Ref{Kind: part.kind}), int64(part.kind), model, limit - n}, func(r row) error {
				ids = append(ids, r.int(0))
				return nil
			})
		if err != nil {
			return 0, err
		}
		for _, id := range ids {
			if _, _, err := t.exec("INSERT INTO queue (kind, parent, model) VALUES (?, ?, ?)", int64(part.kind), id, model); err != nil {
				return 0, err
			}
			*part.cursor = id
		}
		if n += len(ids); n >= limit {
			t.w.missing[model] = at
			return n, nil
		}
	}
	delete(t.w.missing, model)
	return n, nil
}

// QueueStats counts embedding work, over all models.
type QueueStats struct {
	Pending      int64
	Failed       int64 // of the pending ones, those that failed before
	Unembeddable int64
	LastError    string
}

// QueueStats counts the queue; model 0 means all models.
func (v *View) QueueStats(model int64) (q QueueStats, err error) {
	err = v.query(`SELECT coalesce(sum(state = 0), 0), coalesce(sum(state = 0 AND attempts > 0), 0), coalesce(sum(state = 1), 0),
		coalesce((SELECT error FROM queue WHERE error <> '' AND ? IN (0, model) ORDER BY not_before DESC, id DESC LIMIT 1), '')
		FROM queue WHERE ? IN (0, model)`, []any{model, model}, func(r row) error {
		q = QueueStats{Pending: r.int(0), Failed: r.int(1), Unembeddable: r.int(2), LastError: r.text(3)}
		return nil
	})
	return q, err
}

// WaitingAgents returns the agents with records that wait for a model, in name
// order. It serves the change of a model, never a request.
func (v *View) WaitingAgents(model int64) ([]string, error) {
	var agents []string
	err := v.query(`SELECT agent FROM cell WHERE id IN (
			SELECT m.cell FROM queue q JOIN memory m ON m.id = q.parent WHERE q.kind = 2 AND q.model = ?1 AND q.state = 0
			UNION SELECT e.cell FROM queue q JOIN episode e ON e.id = q.parent WHERE q.kind = 1 AND q.model = ?1 AND q.state = 0)
		GROUP BY agent ORDER BY agent`, []any{model}, func(r row) error {
		agents = append(agents, r.text(0))
		return nil
	})
	return agents, err
}

// PendingIn counts the records of a scope that wait for a model. It walks
// the shorter of the two, the queue or the scope, so that what others have
// waiting costs a request no more than its own records do (DECISIONS 1).
func (v *View) PendingIn(scope memory.Scope, model int64) (n int64, err error) {
	stats, err := v.Stats(scope)
	if err != nil {
		return 0, err
	}
	records := stats.Memories + stats.Episodes
	queued := int64(0)
	count := func(into *int64) func(row) error {
		return func(r row) error {
			*into += r.int(0)
			return nil
		}
	}
	if err := v.query("SELECT count(*) FROM (SELECT 1 FROM queue LIMIT ?)", []any{records + 1}, count(&queued)); err != nil {
		return 0, err
	}
	if queued <= records {
		where, args := predicate("coalesce(m.cell, e.cell)", scope)
		err = v.query(`SELECT count(*) FROM queue q
			LEFT JOIN memory m ON q.kind = 2 AND m.id = q.parent
			LEFT JOIN episode e ON q.kind = 1 AND e.id = q.parent
			WHERE q.model = ? AND q.state = 0 AND `+where, append([]any{model}, args...), count(&n))
		return n, err
	}
	where, args := predicate("r.cell", scope)
	for _, part := range []struct {
		kind memory.Kind
		rows string
	}{{memory.KindEpisode, "episode r INDEXED BY episode_cell"}, {memory.KindMemory, "memory r INDEXED BY memory_cell"}} {
		err := v.query("SELECT count(*) FROM "+part.rows+` CROSS JOIN queue q ON q.kind = ? AND q.parent = r.id AND q.model = ? AND q.state = 0
			WHERE `+where, append([]any{int64(part.kind), model}, args...), count(&n))
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

// QueueStats counts the queue over all models.
func (s *Store) QueueStats(ctx context.Context) (QueueStats, error) {
	return read(ctx, s, func(v *View) (QueueStats, error) { return v.QueueStats(0) })
}
