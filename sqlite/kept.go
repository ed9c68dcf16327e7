package sqlite

import (
	"context"
	"fmt"

	"recalld/memory"
)

// Kept is what a record keeps of its life in another store. Its zero value keeps
// nothing.
type Kept struct {
	// ID is the number that it had. It is given again when no record here ever
	// had it: when it is above every number given out so far, or, with Above set,
	// above Above and not in use. At most [MaxKeptID].
	ID int64
	// Above is a number that the caller knows to be the last one that was given
	// out before it began; 0 when it does not.
	Above    int64
	Created  memory.Time
	Updated  memory.Time
	Recalls  int64
	Recalled memory.Time // when for the last time
}

// MaxKeptID is the highest number that a record may bring along, so that nobody
// uses the numbers up.
const MaxKeptID = 1 << 36

func (k *Kept) check() error {
	if k.ID < 0 || k.ID > MaxKeptID {
		return &memory.FieldError{Field: "kept.id", Problem: fmt.Sprintf("is %d", k.ID), Limit: fmt.Sprintf("1 to %d", MaxKeptID), Next: "leave it out"}
	}
	if k.Recalls < 0 {
		return &memory.FieldError{Field: "kept.recalls", Problem: fmt.Sprintf("is %d", k.Recalls), Limit: "0 or more", Next: "leave it out"}
	}
	return nil
}

// times are when the record was stored and changed: as kept, else now.
func (k *Kept) times(now memory.Time) (created, updated memory.Time) {
	created, updated = k.Created, k.Updated
	if created.IsZero() {
		created = now
	}
	if updated.IsZero() {
		updated = created
	}
	return created, updated
}

// number returns the id that a record of a kind is stored under: the kept one, or
// nil for the next.
func (k *Kept) number(t *tx, kind memory.Kind) (any, error) {
	if k.ID == 0 {
		return nil, nil
	}
	sql := "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'memory'), 0), EXISTS (SELECT 1 FROM memory WHERE id = ?)"
	if kind == memory.KindEpisode {
		sql = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'episode'), 0), EXISTS (SELECT 1 FROM episode WHERE id = ?)"
	}
	r, err := t.first(context.Background(), sql, k.ID)
	if err != nil {
		return nil, err
	}
	if last, taken := r.int(0), r.int(1) != 0; taken || k.ID <= last && (k.Above == 0 || k.ID <= k.Above) {
		return nil, nil
	}
	return k.ID, nil
}

// settle does for a record that was just stored what its kept parts ask for: it
// counts its recalls, and adds it to the full-text index where that has gone past
// its number. indexed tells that it has.
func (k *Kept) settle(t *tx, ref memory.Ref) (indexed bool, err error) {
	if k.Recalls > 0 {
		if _, _, err := t.exec("INSERT INTO recall_count (kind, parent, count, last, last_offset) VALUES (?, ?, ?, ?, ?)",
			int64(ref.Kind), ref.ID, k.Recalls, k.Recalled.Milli, k.Recalled.Offset); err != nil {
			return false, err
		}
	}
	if k.ID != ref.ID {
		return false, nil
	}
	sql := "INSERT INTO memory_fts (rowid, content) SELECT id, content FROM memory WHERE id = ? AND id <= (SELECT upto FROM fts_mark WHERE kind = 2)"
	if ref.Kind == memory.KindEpisode {
		sql = "INSERT INTO episode_fts (rowid, summary, keywords) SELECT id, summary, keywords FROM episode WHERE id = ? AND id <= (SELECT upto FROM fts_mark WHERE kind = 1)"
	}
	n, _, err := t.exec(sql, ref.ID)
	return n > 0, err
}

// Marks returns the last numbers of memories and episodes that were given out.
func (v *View) Marks() (memories, episodes int64, err error) {
	err = v.query("SELECT name, seq FROM sqlite_sequence WHERE name IN ('memory', 'episode')", nil, func(r row) error {
		if r.text(0) == "memory" {
			memories = r.int(1)
		} else {
			episodes = r.int(1)
		}
		return nil
	})
	return memories, episodes, err
}

// place is where a version goes in the chain of its message id.
type place struct {
	version int64
	before  int64 // the record that the new one supersedes, 0 for none
	after   int64 // the record that supersedes the new one, 0 for none
}

// versionPlace finds the place of an item that names its version. same is the
// record that makes it a duplicate: one of that version or a later one that says
// the same, or the newest one. A number that another text has taken, or none,
// means the end of the chain.
func (t *tx) versionPlace(m *NewMemory, cell interned, head row) (p place, same int64, err error) {
	p = place{version: head.int(1) + 1, before: head.int(0)}
	if head.text(2) == m.Content {
		return p, head.int(0), nil
	}
	if m.Version == 0 || int64(m.Version) > head.int(1) {
		p.version = max(p.version, int64(m.Version))
		return p, 0, nil
	}
	free, next := true, int64(0)
	err = t.query(context.Background(), "SELECT id, version, content FROM memory WHERE pool = ? AND message_id = ? AND message_id <> '' AND version >= ? ORDER BY version",
		[]any{cell.pool, m.MessageID, m.Version}, func(r row) error {
			if r.text(2) == m.Content {
				same = r.int(0)
				return errStop
			}
			free = free && r.int(1) != int64(m.Version)
			if next == 0 {
				next = r.int(0)
			}
			return nil
		})
	if err != nil || same != 0 || !free {
		return p, same, err
	}
	p = place{version: int64(m.Version), after: next}
	before, err := t.first(context.Background(), "SELECT id FROM memory WHERE pool = ? AND message_id = ? AND message_id <> '' AND version < ? ORDER BY version DESC LIMIT 1",
		cell.pool, m.MessageID, m.Version)
	if before != nil {
		p.before = before.int(0)
	}
	return p, 0, err
}

// undone runs something and takes back all that it did, so that it can only be
// looked at.
func (t *tx) undone(run func() error) error {
	behind, behindBytes := t.behind, t.behindBytes
	unindexed, unindexedBytes := t.w.unindexed.Load(), t.w.unindexedBytes
	if _, _, err := t.exec("SAVEPOINT trial"); err != nil {
		return err
	}
	err := run()
	t.w.forget()
	if t.raw.AutoCommit() {
		return err
	}
	for _, sql := range []string{"ROLLBACK TO trial", "RELEASE trial"} {
		if _, _, undo := t.exec(sql); undo != nil {
			return undo
		}
	}
	t.behind, t.behindBytes = behind, behindBytes
	t.w.unindexed.Store(unindexed)
	t.w.unindexedBytes = unindexedBytes
	return err
}

// TryMemories answers what [Store.StoreMemories] would, and stores nothing.
func (s *Store) TryMemories(ctx context.Context, items []NewMemory) ([]StoreResult, error) {
	results, err := storeEach(ctx, s, items, (*tx).storeMemory, (*tx).undone)
	if err != nil {
		return nil, fmt.Errorf("try memories: %w", err)
	}
	return results, nil
}

// TryEpisodes answers what [Store.StoreEpisodes] would, and stores nothing.
func (s *Store) TryEpisodes(ctx context.Context, items []NewEpisode) ([]StoreResult, error) {
	results, err := storeEach(ctx, s, items, (*tx).storeEpisode, (*tx).undone)
	if err != nil {
		return nil, fmt.Errorf("try episodes: %w", err)
	}
	return results, nil
}
