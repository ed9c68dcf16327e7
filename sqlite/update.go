package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"recalld/memory"
)

// Patch edits one record in place; nil fields stay (DECISIONS 11).
type Patch struct {
	Content  *string // an episode's summary
	Project  *string
	Channel  *string
	Source   *memory.Source   // memories
	Metadata *json.RawMessage // memories; an empty text removes it
	Time     *memory.Time     // an episode's start; the zero Time removes it
	End      *memory.Time     // episodes
	Keywords *[]string        // episodes
	Resolved *bool            // episodes
	// Vector of Model belongs to the new Content and is stored with it, instead of
	// being made by the queue.
	Vector []float32
	Model  int64
	// Queue names models that shall embed the new Content later, beside those that
	// had embedded the old one.
	Queue []int64
}

// Replaces reports whether the patch puts something that was said in the place of
// something else, whose bytes go as those of a deleted record do (DECISIONS 14).
func (p *Patch) Replaces() bool {
	return p.Content != nil || p.Keywords != nil || p.Metadata != nil || p.Source != nil
}

// Update edits a record of the agent in place and returns it as it is then. On
// return the former bytes are gone from the file and its log where the patch
// [Patch.Replaces] some, unless [Stats.ErasePending]. A
// changed text drops the record's vectors and queues it for their models; a
// changed project or channel keeps them (BR-095, BR-096). Errors:
// [memory.ErrNotFound] also for another agent's record, [memory.ErrLocked], and
// a FieldError when the result would be a duplicate.
func (s *Store) Update(ctx context.Context, agent string, ref memory.Ref, p Patch) (memory.Record, error) {
	var updated memory.Record
	err := s.submit(&job{ctx: ctx, erase: p.Replaces(), run: func(t *tx) error {
		return t.item(func() (err error) {
			updated, err = t.update(agent, ref, p)
			return err
		})
	}})
	if err != nil {
		return memory.Record{}, fmt.Errorf("update %s: %w", ref, err)
	}
	return updated, nil
}

// record reads one record of an agent through the predicate. whole is false when
// it is not what was stored.
func (t *tx) record(agent string, ref memory.Ref) (rec memory.Record, whole bool, err error) {
	where, args := predicate("m.cell", memory.Scope{Agent: agent})
	sql, decode := "SELECT "+memoryColumns+" FROM "+memoryTables, decodeMemory
	if ref.Kind == memory.KindEpisode {
		sql, decode = "SELECT "+episodeColumns+" FROM "+episodeTables, decodeEpisode
	}
	r, err := t.first(context.Background(), sql+" WHERE m.id = ? AND "+where, append([]any{ref.ID}, args...)...)
	if err != nil {
		return memory.Record{}, false, err
	}
	if r == nil {
		return memory.Record{}, false, memory.ErrNotFound
	}
	rec = decode(r)
	return rec, intact(rec, r), nil
}

func (t *tx) update(agent string, ref memory.Ref, p Patch) (memory.Record, error) {
	old, whole, err := t.record(agent, ref)
	if err != nil {
		return memory.Record{}, err
	}
	if old.Locked {
		return memory.Record{}, memory.ErrLocked
	}
	if err := p.check(ref.Kind); err != nil {
		return memory.Record{}, err
	}
	if !whole && p.Content == nil {
		return memory.Record{}, damage(ref) // its digest would become that of the damaged text
	}
	rec := p.applied(old)
	if p.Time != nil || p.End != nil {
		field := "time"
		if p.Time == nil {
			field = "end"
		}
		if err := checkSpan(field, rec.Time, rec.End); err != nil {
			return memory.Record{}, err
		}
	}
	if rec.Content != old.Content {
		rec.Updated = t.w.store.stamp()
	}
	if err := rec.Cell.Check(); err != nil {
		return memory.Record{}, err
	}
	cell, err := t.intern(rec.Cell)
	if err != nil {
		return memory.Record{}, err
	}
	if ref.Kind == memory.KindEpisode {
		err = t.updateEpisode(rec, old, cell)
	} else {
		err = t.updateMemory(rec, old, cell)
	}
	if err != nil {
		return memory.Record{}, err
	}
	if rec.Content != old.Content {
		if err := t.embedOrQueue(ref, p.Model, p.Vector, p.Queue); err != nil {
			return memory.Record{}, err
		}
		if p.Vector != nil {
			if _, _, err := t.exec("DELETE FROM queue WHERE kind = ? AND parent = ? AND model = ?", int64(ref.Kind), ref.ID, p.Model); err != nil {
				return memory.Record{}, err
			}
		}
	}
	return rec, nil
}

func (p *Patch) check(kind memory.Kind) error {
	wrong := func(field, kind string) error {
		return &memory.FieldError{Field: field, Problem: "does not belong to " + kind, Next: "leave it out"}
	}
	if kind == memory.KindEpisode {
		switch {
		case p.Source != nil:
			return wrong("source", "an episode")
		case p.Metadata != nil:
			return wrong("metadata", "an episode")
		}
	} else {
		switch {
		case p.Keywords != nil:
			return wrong("keywords", "a memory")
		case p.Resolved != nil:
			return wrong("resolved", "a memory")
		case p.End != nil:
			return wrong("end", "a memory")
		}
	}
	if p.Content != nil {
		field := "content"
		if kind == memory.KindEpisode {
			field = "summary"
		}
		if err := memory.CheckContent(field, *p.Content, memory.CeilingMaxContent); err != nil {
			return err
		}
	}
	if p.Source != nil {
		if err := checkSource(*p.Source); err != nil {
			return err
		}
	}
	if p.Metadata != nil {
		if err := checkMetadata(*p.Metadata); err != nil {
			return err
		}
	}
	if p.Keywords != nil {
		return checkKeywords(*p.Keywords)
	}
	return nil
}

func (p *Patch) applied(rec memory.Record) memory.Record {
	set(&rec.Content, p.Content)
	set(&rec.Cell.Project, p.Project)
	set(&rec.Cell.Channel, p.Channel)
	set(&rec.Source, p.Source)
	set(&rec.Metadata, p.Metadata)
	set(&rec.Time, p.Time)
	set(&rec.End, p.End)
	set(&rec.Keywords, p.Keywords)
	set(&rec.Resolved, p.Resolved)
	return rec
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

func (t *tx) updateMemory(rec, old memory.Record, cell interned) error {
	sum := digest(rec.Content)
	if rec.SupersededBy == (memory.Ref{}) && (rec.Content != old.Content || rec.Cell != old.Cell) {
		same, err := t.sameText(rec.Cell, sum, rec.Content, rec.Ref.ID)
		if err != nil {
			return err
		}
		if same != 0 {
			return &memory.FieldError{Field: "content", Problem: fmt.Sprintf("is the text of mem:%d, which is visible there", same), Next: "delete one of the two"}
		}
	}
	if rec.MessageID != "" && rec.Cell.Project != old.Cell.Project {
		r, err := t.first(context.Background(), "SELECT id FROM memory WHERE pool = ? AND message_id = ? AND message_id <> '' LIMIT 1", cell.pool, rec.MessageID)
		if err != nil {
			return err
		}
		if r != nil {
			return &memory.FieldError{Field: "project", Problem: fmt.Sprintf("already has the message id, as mem:%d", r.int(0)), Next: "delete one of the two"}
		}
		if old.SupersededBy != (memory.Ref{}) || old.Version > 1 {
			return &memory.FieldError{Field: "project", Problem: "cannot change for one version of a message", Next: "delete the other versions first"}
		}
	}
	_, _, err := t.exec(`UPDATE memory SET cell = ?, pool = ?, digest = ?, time = ?, time_offset = ?, updated = ?, updated_offset = ?,
		source_type = ?, source_id = ?, source_name = ?, metadata = ?, content = ? WHERE id = ?`,
		cell.id, cell.pool, sum, milli(rec.Time), rec.Time.Offset, rec.Updated.Milli, rec.Updated.Offset,
		rec.Source.Type, rec.Source.ID, rec.Source.Name, jsonText(rec.Metadata), rec.Content, rec.Ref.ID)
	return err
}

func (t *tx) updateEpisode(rec, old memory.Record, cell interned) error {
	sum := digest(rec.Content)
	if rec.Content != old.Content || rec.Cell != old.Cell || rec.Time != old.Time || rec.End != old.End {
		same, err := t.sameEpisode(rec.Cell, sum, rec.Content, rec.Time, rec.End, rec.Ref.ID)
		if err != nil {
			return err
		}
		if same != 0 {
			return &memory.FieldError{Field: "summary", Problem: fmt.Sprintf("is the text of ep:%d, which is visible there", same), Next: "delete one of the two"}
		}
	}
	_, _, err := t.exec(`UPDATE episode SET cell = ?, digest = ?, resolved = ?, start = ?, start_offset = ?, finish = ?, finish_offset = ?,
		updated = ?, updated_offset = ?, keywords = ?, summary = ? WHERE id = ?`,
		cell.id, sum, rec.Resolved, milli(rec.Time), rec.Time.Offset, milli(rec.End), rec.End.Offset,
		rec.Updated.Milli, rec.Updated.Offset, joinKeywords(rec.Keywords), rec.Content, rec.Ref.ID)
	return err
}

// LockResult says which refs were set; the others do not exist for the agent.
type LockResult struct {
	Done    []memory.Ref
	Missing []memory.Ref
}

// SetLocked locks records against update and delete, or unlocks them.
func (s *Store) SetLocked(ctx context.Context, agent string, refs []memory.Ref, locked bool) (LockResult, error) {
	var result LockResult
	err := s.write(ctx, func(t *tx) error {
		return t.item(func() error {
			result = LockResult{}
			for _, ref := range refs {
				where, args := predicate("cell", memory.Scope{Agent: agent})
				sql := "UPDATE memory SET locked = ? WHERE id = ? AND "
				if ref.Kind == memory.KindEpisode {
					sql = "UPDATE episode SET locked = ? WHERE id = ? AND "
				}
				n, _, err := t.exec(sql+where, append([]any{locked, ref.ID}, args...)...)
				if err != nil {
					return err
				}
				if n == 0 {
					result.Missing = append(result.Missing, ref)
				} else {
					result.Done = append(result.Done, ref)
				}
			}
			return nil
		})
	})
	if err != nil {
		return LockResult{}, fmt.Errorf("lock records: %w", err)
	}
	return result, nil
}
