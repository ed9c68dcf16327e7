package sqlite

import (
	"context"
	"fmt"

	"recalld/memory"
)

// AddRecalls counts one recall of each ref at the given time (RR-420). Refs that
// are gone are passed over. The records themselves are not written.
func (s *Store) AddRecalls(ctx context.Context, refs []memory.Ref, at memory.Time) error {
	err := s.write(ctx, func(t *tx) error {
		return t.item(func() error {
			for _, ref := range refs {
				table := "memory"
				if ref.Kind == memory.KindEpisode {
					table = "episode"
				}
				_, _, err := t.exec(`INSERT INTO recall_count (kind, parent, count, last, last_offset)
					SELECT ?, id, 1, ?, ? FROM `+table+` WHERE id = ?
					ON CONFLICT DO UPDATE SET count = count + 1, last = max(last, excluded.last), last_offset = excluded.last_offset`,
					int64(ref.Kind), at.Milli, at.Offset, ref.ID)
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("count recalls: %w", err)
	}
	return nil
}
