package sqlite

import (
	"context"
	"fmt"

	"recalld/memory"
)

// Recalls says how often a record was recalled since it was last counted, at
// least once, and when for the last time.
type Recalls struct {
	Ref   memory.Ref
	Count int64
	Last  memory.Time
}

// AddRecalls counts recalls in one transaction (RR-420). Refs that are gone are
// passed over. The records themselves are not written.
func (s *Store) AddRecalls(ctx context.Context, all []Recalls) error {
	err := s.write(ctx, func(t *tx) error {
		return t.item(func() error {
			for _, r := range all {
				table := "memory"
				if r.Ref.Kind == memory.KindEpisode {
					table = "episode"
				}
				_, _, err := t.exec(`INSERT INTO recall_count (kind, parent, count, last, last_offset)
					SELECT ?, id, ?, ?, ? FROM `+table+` WHERE id = ?
					ON CONFLICT DO UPDATE SET count = count + excluded.count,
						last_offset = CASE WHEN excluded.last >= last THEN excluded.last_offset ELSE last_offset END, last = max(last, excluded.last)`,
					int64(r.Ref.Kind), r.Count, r.Last.Milli, r.Last.Offset, r.Ref.ID)
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
