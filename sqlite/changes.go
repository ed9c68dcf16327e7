package sqlite

import (
	"context"
	"fmt"

	"recalld/memory"
)

// Op is what happened to a record.
type Op uint8

// The operations of the change log.
const (
	OpInsert   Op = 1
	OpText     Op = 2 // its text, an episode's keywords, its source or its time
	OpRetag    Op = 3 // its cell
	OpDelete   Op = 4
	OpEmbedded Op = 5 // it got a vector of Model
	OpBlocks   Op = 6 // its block set of Model was written (NewCell) or dropped (OldCell); nothing else of it changed
)

// Change is one row of the change log: no text, only where it happened. Lineage
// is random; a generation that names a sequence and its lineage belongs to this
// history and no other (DECISIONS 4).
type Change struct {
	Seq     int64
	Op      Op
	Ref     memory.Ref
	OldCell int64 // 0: none
	NewCell int64 // 0: none
	Model   int64 // OpEmbedded, OpBlocks
	Lineage int64
}

// Changes calls each for up to limit changes after a sequence, ascending. It
// serves index builds, never a request.
func (v *View) Changes(after int64, limit int, each func(Change) error) error {
	return v.query("SELECT seq, op, kind, parent, old_cell, new_cell, model, lineage FROM index_changes WHERE seq > ? ORDER BY seq LIMIT ?",
		[]any{after, limit}, func(r row) error {
			return each(Change{
				Seq: r.int(0), Op: Op(r.int(1)), Ref: memory.Ref{Kind: memory.Kind(r.int(2)), ID: r.int(3)},
				OldCell: r.int(4), NewCell: r.int(5), Model: r.int(6), Lineage: r.int(7),
			})
		})
}

// OldestChange is the first sequence that the log still holds, 0 when it is
// empty.
func (v *View) OldestChange() (seq int64, err error) {
	err = v.query("SELECT coalesce(min(seq), 0) FROM index_changes", nil, func(r row) error {
		seq = r.int(0)
		return nil
	})
	return seq, err
}

// TrimChanges removes the changes up to and including a sequence; the caller
// knows the lowest consumer.
func (s *Store) TrimChanges(ctx context.Context, upTo int64) error {
	err := s.write(ctx, func(t *tx) error {
		return t.item(func() error {
			_, _, err := t.exec("DELETE FROM index_changes WHERE seq <= ?", upTo)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("trim the change log: %w", err)
	}
	return nil
}
