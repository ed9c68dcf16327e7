package sqlite

import (
	"context"
	"fmt"

	"recalld/memory"
)

// NewEpisode is one episode to store.
type NewEpisode struct {
	Cell     memory.Cell
	Summary  string
	Keywords []string
	Start    memory.Time
	End      memory.Time
	Resolved bool
	Locked   bool
	Kept     Kept
	Vector   []float32 // of Model, or nil
	Model    int64
	Queue    []int64 // models that shall embed it later
}

// StoreEpisodes stores episodes like [Store.StoreMemories]. An episode with the
// summary, start and end of one that is visible wherever it would be is skipped.
func (s *Store) StoreEpisodes(ctx context.Context, items []NewEpisode) ([]StoreResult, error) {
	results, err := storeEach(ctx, s, items, (*tx).storeEpisode, kept)
	if err != nil {
		return nil, fmt.Errorf("store episodes: %w", err)
	}
	return results, nil
}

func (e *NewEpisode) check() error {
	if err := e.Cell.Check(); err != nil {
		return err
	}
	if err := memory.CheckContent("summary", e.Summary, memory.CeilingMaxContent); err != nil {
		return err
	}
	if err := checkSpan("end", e.Start, e.End); err != nil {
		return err
	}
	if err := e.Kept.check(); err != nil {
		return err
	}
	return checkKeywords(e.Keywords)
}

// checkSpan refuses an episode that ends before it starts; field is what the
// caller gave.
func checkSpan(field string, start, end memory.Time) error {
	if start.Known && end.Known && start.Milli > end.Milli {
		return &memory.FieldError{Field: field, Problem: "makes the episode end before it starts", Limit: "start ≤ end", Next: "give a start that is not behind the end, or both together"}
	}
	return nil
}

func checkKeywords(words []string) error {
	if len(words) > memory.MaxKeywords {
		return &memory.FieldError{Field: "keywords", Problem: fmt.Sprintf("has %d entries", len(words)), Limit: fmt.Sprint(memory.MaxKeywords), Next: "keep the ones that matter"}
	}
	for i, w := range words {
		field := fmt.Sprintf("keywords[%d]", i)
		if w == "" {
			return &memory.FieldError{Field: field, Problem: "is empty", Next: "leave it out"}
		}
		if err := memory.CheckName(field, w); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) storeEpisode(e *NewEpisode) (StoreResult, error) {
	if err := e.check(); err != nil {
		return StoreResult{}, err
	}
	cell, err := t.intern(e.Cell)
	if err != nil {
		return StoreResult{}, err
	}
	sum := digest(e.Summary)
	if id, err := t.sameEpisode(e.Cell, sum, e.Summary, e.Start, e.End, 0); err != nil || id != 0 {
		return StoreResult{Outcome: OutcomeSkipped, Existing: memory.Ref{Kind: memory.KindEpisode, ID: id}}, err
	}
	number, err := e.Kept.number(t, memory.KindEpisode)
	if err != nil {
		return StoreResult{}, err
	}
	created, updated := e.Kept.times(t.w.store.stamp())
	_, id, err := t.exec(`INSERT INTO episode (id, cell, digest, resolved, locked, start, start_offset, finish, finish_offset,
		created, created_offset, updated, updated_offset, keywords, summary)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		number, cell.id, sum, e.Resolved, e.Locked, milli(e.Start), e.Start.Offset, milli(e.End), e.End.Offset,
		created.Milli, created.Offset, updated.Milli, updated.Offset, joinKeywords(e.Keywords), e.Summary)
	if err != nil {
		return StoreResult{}, err
	}
	ref := memory.Ref{Kind: memory.KindEpisode, ID: id}
	if indexed, err := e.Kept.settle(t, ref); err != nil {
		return StoreResult{}, err
	} else if !indexed {
		t.awaitIndex(e.Summary)
	}
	if err := t.embedOrQueue(ref, e.Model, e.Vector, e.Queue); err != nil {
		return StoreResult{}, err
	}
	return StoreResult{Ref: ref, Outcome: OutcomeStored}, nil
}

func (t *tx) sameEpisode(c memory.Cell, sum []byte, summary string, start, end memory.Time, except int64) (id int64, err error) {
	where, args := covering(c)
	args = append(args, sum, milli(start), milli(end), except)
	err = t.query(context.Background(), `SELECT m.id, m.summary FROM cell CROSS JOIN episode m INDEXED BY episode_digest ON m.cell = cell.id
		WHERE `+where+` AND m.digest = ? AND m.start IS ? AND m.finish IS ? AND m.id <> ? ORDER BY m.id`, args, func(r row) error {
		if r.text(1) == summary {
			id = r.int(0)
			return errStop
		}
		return nil
	})
	return id, err
}
