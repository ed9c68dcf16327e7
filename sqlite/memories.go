package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"recalld/memory"
)

// What a store does with a message id that is already known, and what became of
// an item (RR-444, DECISIONS 11).
const (
	OnConflictSkip    = "skip"
	OnConflictVersion = "version"

	OutcomeStored    = "stored"
	OutcomeVersioned = "versioned"
	OutcomeSkipped   = "skipped"
	OutcomeRejected  = "rejected"
)

// maxVersion bounds the number that an item may name.
const maxVersion = 1_000_000

// NewMemory is one memory to store.
type NewMemory struct {
	Cell       memory.Cell
	Content    string
	MessageID  string
	Source     memory.Source
	Metadata   json.RawMessage // a JSON object or nil
	Time       memory.Time
	Locked     bool
	OnConflict string // "" and OnConflictSkip, or OnConflictVersion
	// Version is the item's number in the chain of its message id, with
	// OnConflictVersion; 0: the next one.
	Version int
	Kept    Kept
	// Vector of Model is stored with the record; nil: none.
	Vector []float32
	Model  int64
	// Queue names the models that shall embed the record later.
	Queue []int64
}

// StoreResult says what became of one item. Ref is the new record; for a skipped
// item it is zero and Existing is the record that made it a duplicate. Err is
// set for a rejected one. A versioned item has in Existing the version before.
type StoreResult struct {
	Ref      memory.Ref
	Outcome  string
	Existing memory.Ref
	Err      error
}

// StoreMemories stores items in order, each in a savepoint of its own, durable
// on return. Results are in the order of items; an error means that none was
// stored.
//
// With skip, an item is a duplicate when its message id is known in its project
// or the global pool, or its exact text is the newest version of a record that
// is visible wherever the item would be. With version, a message id that is
// known in the project gets another version: the earlier row stays and points
// to the new one; equal text is skipped. An item that names its version goes to
// its place in the chain when that is free, and is skipped when that version or
// a later one says the same.
func (s *Store) StoreMemories(ctx context.Context, items []NewMemory) ([]StoreResult, error) {
	results, err := storeEach(ctx, s, items, (*tx).storeMemory, kept)
	if err != nil {
		return nil, fmt.Errorf("store memories: %w", err)
	}
	return results, nil
}

// storeEach stores items in order in one transaction, each in a savepoint of its
// own. Only an error that speaks of the file ends them all. around runs the whole
// and decides whether it stays.
func storeEach[T any](ctx context.Context, s *Store, items []T, store func(*tx, *T) (StoreResult, error), around func(*tx, func() error) error) ([]StoreResult, error) {
	results := make([]StoreResult, len(items))
	err := s.write(ctx, func(t *tx) error {
		return around(t, func() error {
			for i := range items {
				err := t.item(func() (err error) {
					results[i], err = store(t, &items[i])
					return err
				})
				if fatal(err) {
					return err
				}
				if err != nil {
					results[i] = StoreResult{Outcome: OutcomeRejected, Err: err}
				}
			}
			return nil
		})
	})
	return results, err
}

// kept runs something that stays.
func kept(_ *tx, run func() error) error { return run() }

func (m *NewMemory) check() error {
	if err := m.Cell.Check(); err != nil {
		return err
	}
	if err := memory.CheckContent("content", m.Content, memory.CeilingMaxContent); err != nil {
		return err
	}
	if err := memory.CheckMessageID(m.MessageID); err != nil {
		return err
	}
	switch m.OnConflict {
	case "", OnConflictSkip:
	case OnConflictVersion:
		if m.MessageID == "" {
			return &memory.FieldError{Field: "on_conflict", Problem: "is version without a message id", Next: "give message_id, or use skip"}
		}
	default:
		return &memory.FieldError{Field: "on_conflict", Problem: memory.Shape(m.OnConflict) + " is unknown", Limit: "skip or version", Next: "leave it out for skip"}
	}
	if m.Version != 0 && (m.OnConflict != OnConflictVersion || m.Version < 0 || m.Version > maxVersion) {
		return &memory.FieldError{Field: "version", Problem: fmt.Sprintf("is %d", m.Version), Limit: fmt.Sprintf("1 to %d, with on_conflict version", maxVersion), Next: "leave it out for the next version"}
	}
	if err := m.Kept.check(); err != nil {
		return err
	}
	if err := checkSource(m.Source); err != nil {
		return err
	}
	return checkMetadata(m.Metadata)
}

func checkSource(s memory.Source) error {
	for _, f := range [...]struct{ name, value string }{{"source.type", s.Type}, {"source.id", s.ID}, {"source.name", s.Name}} {
		if err := memory.CheckText(f.name, f.value, memory.MaxSource); err != nil {
			return err
		}
	}
	if n := memory.Len(s.Type) + memory.Len(s.ID) + memory.Len(s.Name); n > memory.MaxSource {
		return &memory.FieldError{Field: "source", Problem: fmt.Sprintf("has %d code points", n), Limit: fmt.Sprintf("%d code points in type, id and name together", memory.MaxSource), Next: "shorten it"}
	}
	return nil
}

func checkMetadata(m json.RawMessage) error {
	if len(m) == 0 {
		return nil
	}
	if err := memory.CheckText("metadata", string(m), memory.MaxMetadata); err != nil {
		return err
	}
	if !json.Valid(m) || !strings.HasPrefix(strings.TrimSpace(string(m)), "{") {
		return &memory.FieldError{Field: "metadata", Problem: "is not a JSON object", Limit: "one JSON object", Next: "give an object such as {\"topic\":\"travel\"}"}
	}
	return nil
}

func (t *tx) storeMemory(m *NewMemory) (StoreResult, error) {
	if err := m.check(); err != nil {
		return StoreResult{}, err
	}
	cell, err := t.intern(m.Cell)
	if err != nil {
		return StoreResult{}, err
	}
	sum := digest(m.Content)
	at := place{version: max(1, int64(m.Version))}
	var head row
	if m.MessageID != "" {
		known, skip, err := t.knownMessage(m, cell)
		if err != nil || skip != nil {
			return orZero(skip), err
		}
		if head = known; head != nil {
			var same int64
			if at, same, err = t.versionPlace(m, cell, head); err != nil || same != 0 {
				return skipped(same), err
			}
			if id, err := t.earlierVersion(m, cell, sum); err != nil || id != 0 {
				return skipped(id), err
			}
		}
	}
	if head == nil {
		if id, err := t.sameText(m.Cell, sum, m.Content, 0); err != nil || id != 0 {
			return skipped(id), err
		}
	}
	number, err := m.Kept.number(t, memory.KindMemory)
	if err != nil {
		return StoreResult{}, err
	}
	created, updated := m.Kept.times(t.w.store.stamp())
	_, id, err := t.exec(`INSERT INTO memory (id, cell, pool, digest, message_id, version, superseded_by, locked, time, time_offset,
		created, created_offset, updated, updated_offset, source_type, source_id, source_name, metadata, content)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		number, cell.id, cell.pool, sum, m.MessageID, at.version, orNull(at.after), m.Locked, milli(m.Time), m.Time.Offset,
		created.Milli, created.Offset, updated.Milli, updated.Offset, m.Source.Type, m.Source.ID, m.Source.Name, jsonText(m.Metadata), m.Content)
	if err != nil {
		return StoreResult{}, err
	}
	ref := memory.Ref{Kind: memory.KindMemory, ID: id}
	if indexed, err := m.Kept.settle(t, ref); err != nil {
		return StoreResult{}, err
	} else if !indexed {
		t.awaitIndex(m.Content)
	}
	if err := t.embedOrQueue(ref, m.Model, m.Vector, m.Queue); err != nil {
		return StoreResult{}, err
	}
	if head == nil {
		return StoreResult{Ref: ref, Outcome: OutcomeStored}, nil
	}
	if at.before == 0 {
		return StoreResult{Ref: ref, Outcome: OutcomeVersioned}, nil
	}
	if _, _, err := t.exec("UPDATE memory SET superseded_by = ? WHERE id = ?", id, at.before); err != nil {
		return StoreResult{}, err
	}
	return StoreResult{Ref: ref, Outcome: OutcomeVersioned, Existing: memory.Ref{Kind: memory.KindMemory, ID: at.before}}, nil
}

// knownMessage looks for the newest version of the item's message id. head is
// the row that a new version follows: id, version, content.
func (t *tx) knownMessage(m *NewMemory, cell interned) (head row, skip *StoreResult, err error) {
	ctx := context.Background()
	head, err = t.first(ctx, "SELECT id, version, content FROM memory WHERE pool = ? AND message_id = ? AND message_id <> '' ORDER BY version DESC LIMIT 1", cell.pool, m.MessageID)
	if err != nil || m.OnConflict == OnConflictVersion {
		return head, nil, err
	}
	if head == nil && m.Cell.Project != "" {
		head, err = t.first(ctx, `SELECT id FROM memory WHERE pool = (SELECT pool FROM cell WHERE agent = ? AND project = '' LIMIT 1)
			AND message_id = ? AND message_id <> '' ORDER BY version DESC LIMIT 1`, m.Cell.Agent, m.MessageID)
		if err != nil {
			return nil, nil, err
		}
	}
	if head != nil {
		r := skipped(head.int(0))
		return nil, &r, nil
	}
	return nil, nil, nil
}

// earlierVersion returns the id of a version of the item's message id that says
// the same of the same time, so that a history that is stored again stays as it
// is. An item without a time may take an earlier text back and is a new version.
func (t *tx) earlierVersion(m *NewMemory, cell interned, sum []byte) (id int64, err error) {
	if m.Time.IsZero() {
		return 0, nil
	}
	err = t.query(context.Background(), "SELECT id, content FROM memory WHERE pool = ? AND message_id = ? AND message_id <> '' AND digest = ? AND time = ? ORDER BY version",
		[]any{cell.pool, m.MessageID, sum, m.Time.Milli}, func(r row) error {
			if r.text(1) == m.Content {
				id = r.int(0)
				return errStop
			}
			return nil
		})
	return id, err
}

// sameText returns the id of a memory other than except that is not superseded,
// has exactly this text, and is visible wherever a record of the cell would be.
func (t *tx) sameText(c memory.Cell, sum []byte, content string, except int64) (id int64, err error) {
	where, args := covering(c)
	args = append(args, sum, except)
	err = t.query(context.Background(), `SELECT m.id, m.content FROM cell CROSS JOIN memory m INDEXED BY memory_digest ON m.cell = cell.id
		WHERE `+where+` AND m.digest = ? AND m.superseded_by IS NULL AND m.id <> ? ORDER BY m.id`, args, func(r row) error {
		if r.text(1) == content {
			id = r.int(0)
			return errStop
		}
		return nil
	})
	return id, err
}

func (t *tx) embedOrQueue(ref memory.Ref, model int64, vector []float32, queue []int64) error {
	if vector != nil {
		if err := t.checkVector(model, vector); err != nil {
			return err
		}
		if err := t.putVector(ref, model, vector); err != nil {
			return err
		}
	}
	for _, m := range queue {
		if _, _, err := t.exec("INSERT INTO queue (kind, parent, model) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", int64(ref.Kind), ref.ID, m); err != nil {
			return err
		}
	}
	return nil
}

func skipped(id int64) StoreResult {
	return StoreResult{Outcome: OutcomeSkipped, Existing: memory.Ref{Kind: memory.KindMemory, ID: id}}
}

func orZero(r *StoreResult) StoreResult {
	if r == nil {
		return StoreResult{}
	}
	return *r
}

func orNull(id int64) any {
	if id == 0 {
		return nil
	}
	return id
}

func milli(t memory.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.Milli
}

func jsonText(m json.RawMessage) any {
	if len(m) == 0 {
		return nil
	}
	return string(m)
}
