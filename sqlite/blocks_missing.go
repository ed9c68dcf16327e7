package sqlite

import (
	"bytes"
	"context"
	"fmt"

	"recalld/memory"
)

// WithoutBlocks calls each for every record without a current set of the model,
// episodes first, ids ascending. waits says that it was not looked at yet, or will
// be looked at again. It serves checks, never a request.
func (s *Store) WithoutBlocks(ctx context.Context, model int64, each func(rec BlockRecord, waits bool) error) error {
	_, err := read(ctx, s, func(v *View) (struct{}, error) {
		marks, err := v.blockMarks(model)
		if err != nil {
			return struct{}{}, err
		}
		for _, m := range marks {
			text := "content"
			if m.kind == memory.KindEpisode {
				text = "summary"
			}
			err := v.query("SELECT r.id, r.digest, r."+text+", EXISTS (SELECT 1 FROM block_task WHERE key = ?1 + r.id) FROM "+m.table()+" r WHERE NOT "+fmt.Sprintf(hasCurrentSet, "?1 + r.id", currentSet)+" ORDER BY r.id",
				[]any{vectorKey(model, memory.Ref{Kind: m.kind})}, func(r row) error {
					rec := BlockRecord{Ref: memory.Ref{Kind: m.kind, ID: r.int(0)}, Text: r.text(2)}
					rec.Damaged = !bytes.Equal(digest(rec.Text), r.blob(1))
					waits := r.int(3) != 0
					for _, part := range m.open() {
						waits = waits || rec.Ref.ID > part.after && rec.Ref.ID <= part.upTo
					}
					return each(rec, waits)
				})
			if err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	if err != nil {
		return fmt.Errorf("records without blocks: %w", err)
	}
	return nil
}

// AskForBlocks has records looked at again now. Those that are gone are passed
// over.
func (s *Store) AskForBlocks(ctx context.Context, model int64, refs []memory.Ref) error {
	err := s.write(ctx, func(t *tx) error {
		return t.item(func() error {
			for _, ref := range refs {
				r, err := t.first(context.Background(), blockParentSQL(ref.Kind), ref.ID)
				if err != nil {
					return err
				}
				if r == nil {
					continue
				}
				if err := t.putBlockTask(vectorKey(model, ref), r.int(0), 0, 0, ""); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("ask for blocks: %w", err)
	}
	return nil
}
