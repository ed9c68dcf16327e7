package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"recalld/memory"
)

// blockMark says how far the records of one kind were looked at for a model:
// those up to done, and those after backlog up to fresh. What is beyond fresh came
// later and goes first; what lies between done and backlog is what there was
// when building began. It knows ids and nothing of texts (BR-112).
type blockMark struct {
	kind                 memory.Kind
	done, backlog, fresh int64
	newest               int64 // id of the newest record
}

// idRange is the ids above after up to and including upTo.
type idRange struct{ after, upTo int64 }

func (m blockMark) table() string {
	if m.kind == memory.KindEpisode {
		return "episode"
	}
	return "memory"
}

// open are the ranges that were not looked at, new records first.
func (m blockMark) open() (parts []idRange) {
	if m.newest > m.fresh {
		parts = append(parts, idRange{m.fresh, m.newest})
	}
	if m.backlog > m.done {
		parts = append(parts, idRange{m.done, m.backlog})
	}
	return parts
}

// blockMarks returns a model's marks, episodes first. Without any, or with those
// of another splitter, nothing was looked at.
func (v *View) blockMarks(model int64) (marks [2]blockMark, err error) {
	for i, kind := range []memory.Kind{memory.KindEpisode, memory.KindMemory} {
		m := blockMark{kind: kind}
		err := v.query(`SELECT coalesce(max(id), 0), k.done, k.backlog, k.fresh FROM (SELECT 1)
			LEFT JOIN (SELECT max(id) AS id FROM `+m.table()+`) LEFT JOIN block_mark k ON k.model = ? AND k.kind = ? AND k.policy = ?`,
			[]any{model, int64(kind), BlockPolicy}, func(r row) error {
				m.newest, m.done, m.backlog, m.fresh = r.int(0), r.int(1), r.int(2), r.int(3)
				return nil
			})
		if err != nil {
			return marks, err
		}
		marks[i] = m
	}
	return marks, nil
}

// BeginBlocks makes sure that a model has marks of today's splitter: with none,
// everything stored so far becomes its backlog (BR-109).
func (s *Store) BeginBlocks(ctx context.Context, model int64) error {
	err := s.write(ctx, func(t *tx) error {
		return t.item(func() error {
			for _, m := range []blockMark{{kind: memory.KindEpisode}, {kind: memory.KindMemory}} {
				_, _, err := t.exec(`INSERT INTO block_mark (model, kind, policy, done, backlog, fresh)
					SELECT ?, ?, ?, 0, newest, newest FROM (SELECT coalesce(max(id), 0) AS newest FROM `+m.table()+`) WHERE true
					ON CONFLICT DO UPDATE SET policy = excluded.policy, done = 0, backlog = excluded.backlog, fresh = excluded.fresh WHERE policy <> excluded.policy`,
					model, int64(m.kind), BlockPolicy)
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("begin blocks: %w", err)
	}
	return nil
}

// EndBlocks forgets every mark and task, so that with building off an edit
// queues nothing (BR-129). Sets stay; building that is turned on again looks at
// every record and keeps what is current.
func (s *Store) EndBlocks(ctx context.Context) error {
	_, err := s.repair(ctx, []string{"DELETE FROM block_task", "DELETE FROM block_mark"})
	if err != nil {
		return fmt.Errorf("end blocks: %w", err)
	}
	return nil
}

// BlockRecord is one record to look at.
type BlockRecord struct {
	Ref      memory.Ref
	Text     string // content or summary; empty when Current or Damaged
	Revision string // [memory.Revision] of Text
	Current  bool   // it has a current set
	Damaged  bool   // its text is not what was stored: nothing is built from it
	Attempts int    // failures so far
	digest   []byte // of the row, as it was read
}

// BlockBatch is a run of records to look at, and where the mark stands after it.
type BlockBatch struct {
	Model   int64
	Records []BlockRecord
	kind    memory.Kind // 0: the records are tasks
	looked  idRange
	fresh   bool
}

// Empty reports that there was nothing to look at.
func (b *BlockBatch) Empty() bool { return len(b.Records) == 0 && b.looked == idRange{} }

// NextBlocks returns the next records to look at for a model: those that changed
// since, then new ones, then the backlog, ids ascending. It stops before the
// record with which there would be more than limit records or chars code points,
// but never before the first (BR-113, BR-114). Nothing is marked by it: whoever
// dies with a batch in hand has lost nothing.
func (s *Store) NextBlocks(ctx context.Context, model int64, limit, chars int) (BlockBatch, error) {
	b, err := read(ctx, s, func(v *View) (BlockBatch, error) {
		b := BlockBatch{Model: model}
		if err := v.blockTasks(&b, s.now().UnixMilli(), limit, chars); err != nil || len(b.Records) > 0 {
			return b, err
		}
		marks, err := v.blockMarks(model)
		if err != nil {
			return b, err
		}
		for _, fresh := range []bool{true, false} {
			for _, m := range marks {
				for _, part := range m.open() {
					if fresh == (part.after == m.fresh && part.upTo == m.newest) {
						b.kind, b.fresh = m.kind, fresh
						return b, v.blockRange(&b, m.table(), part, limit, chars)
					}
				}
			}
		}
		return b, nil
	})
	if err != nil {
		return b, fmt.Errorf("next records for blocks: %w", err)
	}
	return b, nil
}

const hasCurrentSet = "EXISTS (SELECT 1 FROM block_set b WHERE b.key = %s AND %s)"

func (v *View) blockTasks(b *BlockBatch, now int64, limit, chars int) error {
	return v.query(`SELECT t.key, coalesce(m.digest, e.digest), coalesce(m.content, e.summary), 0, t.attempts FROM block_task t
		LEFT JOIN memory m ON t.key & (1 << 40) <> 0 AND m.id = t.key & 0xFFFFFFFFFF
		LEFT JOIN episode e ON t.key & (1 << 40) = 0 AND e.id = t.key & 0xFFFFFFFFFF
		WHERE t.key >= ? AND t.key < ? AND t.not_before <= ? AND coalesce(m.id, e.id) IS NOT NULL ORDER BY t.not_before, t.key LIMIT ?`,
		[]any{b.Model << 41, (b.Model + 1) << 41, now, limit}, b.collect(chars))
}

func (v *View) blockRange(b *BlockBatch, table string, part idRange, limit, chars int) error {
	text, base := "content", vectorKey(b.Model, memory.Ref{Kind: b.kind})
	if b.kind == memory.KindEpisode {
		text = "summary"
	}
	current := fmt.Sprintf(hasCurrentSet, "?1 + r.id", currentSet)
	cut := true
	collect := b.collect(chars)
	n := 0
	err := v.query("SELECT ?1 + r.id, r.digest, CASE WHEN "+current+" THEN '' ELSE r."+text+" END, "+current+", 0 FROM "+table+" r WHERE r.id > ?2 AND r.id <= ?3 ORDER BY r.id LIMIT ?4",
		[]any{base, part.after, part.upTo, limit}, func(r row) error {
			if err := collect(r); err != nil {
				cut = true
				return err
			}
			n++
			cut = n == limit
			return nil
		})
	b.looked = part
	if cut && n > 0 {
		b.looked.upTo = b.Records[n-1].Ref.ID
	}
	return err
}

// collect adds a row to the batch, or ends the query before it.
func (b *BlockBatch) collect(chars int) func(row) error {
	sum := 0
	return func(r row) error {
		key := r.int(0)
		rec := BlockRecord{
			Ref: memory.Ref{Kind: memory.Kind(key>>40&1 + 1), ID: key & maxID}, Text: r.text(2), Current: r.int(3) != 0, Attempts: int(r.int(4)), digest: r.blob(1),
		}
		if rec.Damaged = !rec.Current && !bytes.Equal(digest(rec.Text), rec.digest); rec.Damaged {
			rec.Text = ""
		}
		if sum += memory.Len(rec.Text); sum > chars && len(b.Records) > 0 {
			return errStop
		}
		rec.Revision = memory.Revision(rec.Text)
		b.Records = append(b.Records, rec)
		return nil
	}
}

// BlockOutcome is what came of one record of a batch: a set, or a failure, or
// neither when its text needs no blocks.
type BlockOutcome struct {
	Set       *BlockSet
	Failure   string    // why the model could not embed it; never a record's text
	NotBefore time.Time // when to try again
}

// FinishBlocks publishes what came of a batch in one transaction: sets whole, or
// not at all when their text changed, and the mark behind the records
// (BR-100 to BR-106). outcomes belong to the batch's records; a batch that was
// ended early has fewer. What changed meanwhile is looked at again. built counts
// the sets that were written. Errors: [ErrMarkMoved]; then nothing is published.
func (s *Store) FinishBlocks(ctx context.Context, b BlockBatch, outcomes []BlockOutcome) (built int, err error) {
	err = s.write(ctx, func(t *tx) error {
		return t.item(func() error {
			built = 0
			for i, o := range outcomes {
				written, err := t.finishBlocks(b.Model, &b.Records[i], o)
				if err != nil {
					return err
				}
				if written {
					built++
				}
			}
			return t.moveMark(b, outcomes)
		})
	})
	if err != nil {
		return 0, fmt.Errorf("publish block sets: %w", err)
	}
	return built, nil
}

func (t *tx) finishBlocks(model int64, rec *BlockRecord, o BlockOutcome) (written bool, err error) {
	key := vectorKey(model, rec.Ref)
	r, err := t.first(context.Background(), blockParentSQL(rec.Ref.Kind), rec.Ref.ID)
	if err != nil || r == nil {
		return false, err
	}
	switch {
	case !bytes.Equal(r.blob(1), rec.digest):
		return false, t.putBlockTask(key, r.int(0), 0, 0, "")
	case o.Failure != "":
		return false, t.putBlockTask(key, r.int(0), rec.Attempts+1, o.NotBefore.UnixMilli(), o.Failure)
	case o.Set != nil:
		if written, err = t.putBlockSet(o.Set, rec.digest); err != nil {
			return false, err
		}
	case !rec.Current:
		if _, _, err := t.exec("DELETE FROM block_set WHERE key = ?", key); err != nil {
			return false, err
		}
	}
	_, _, err = t.exec("DELETE FROM block_task WHERE key = ?", key)
	return written, err
}

func (t *tx) putBlockTask(key, cell int64, attempts int, notBefore int64, cause string) error {
	_, _, err := t.exec(`INSERT INTO block_task (key, cell, attempts, not_before, error) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET attempts = excluded.attempts, not_before = excluded.not_before, error = excluded.error`, key, cell, attempts, notBefore, cause)
	return err
}

// moveMark moves the batch's mark behind the records that have an outcome.
// Records in between that the batch did not see, having been given a lower id
// meanwhile, become tasks.
func (t *tx) moveMark(b BlockBatch, outcomes []BlockOutcome) error {
	if b.kind == 0 {
		return nil
	}
	upTo := b.looked.upTo
	if len(outcomes) < len(b.Records) {
		if len(outcomes) == 0 {
			return nil
		}
		upTo = b.Records[len(outcomes)-1].Ref.ID
	}
	mark, table := "done", blockMark{kind: b.kind}.table()
	if b.fresh {
		mark = "fresh"
	}
	seen := make(map[int64]bool, len(outcomes))
	for i := range outcomes {
		seen[b.Records[i].Ref.ID] = true
	}
	var unseen []row
	err := t.query(context.Background(), "SELECT id, cell FROM "+table+" WHERE id > ? AND id <= ?", []any{b.looked.after, upTo}, func(r row) error {
		if !seen[r.int(0)] {
			unseen = append(unseen, row{r.int(0), r.int(1)})
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, r := range unseen {
		if err := t.putBlockTask(vectorKey(b.Model, memory.Ref{Kind: b.kind, ID: r.int(0)}), r.int(1), 0, 0, ""); err != nil {
			return err
		}
	}
	n, _, err := t.exec("UPDATE block_mark SET "+mark+" = ? WHERE model = ? AND kind = ? AND policy = ? AND "+mark+" = ?",
		upTo, b.Model, int64(b.kind), BlockPolicy, b.looked.after)
	if err == nil && n == 0 {
		err = ErrMarkMoved
	}
	return err
}

// ErrMarkMoved refuses a batch that somebody else has published, or that was taken
// before building was turned off: there is one sweep at a time (BR-110).
var ErrMarkMoved = errors.New("the records were looked at by somebody else meanwhile; begin again")

// BlockProgress is how far building came for a model, over all agents.
type BlockProgress struct {
	Sets         int64  // records with a set
	Blocks       int64  // their blocks
	Unembeddable int64  // of these, without a vector for ever
	Waiting      int64  // records to look at, at most: ids of deleted records count
	Failed       int64  // of the waiting ones, those that failed before
	LastError    string // of these, the one to be tried last
}

// BlockProgress serves operators, never a request.
func (s *Store) BlockProgress(ctx context.Context, model int64) (BlockProgress, error) {
	return read(ctx, s, func(v *View) (p BlockProgress, err error) {
		err = v.query(`SELECT coalesce(sum(sets), 0), coalesce(sum(blocks), 0), coalesce(sum(unembeddable), 0) FROM block_stats WHERE model = ?`, []any{model}, func(r row) error {
			p.Sets, p.Blocks, p.Unembeddable = r.int(0), r.int(1), r.int(2)
			return nil
		})
		if err != nil {
			return p, err
		}
		err = v.query(`SELECT count(*), coalesce(sum(attempts > 0), 0), coalesce((SELECT error FROM block_task WHERE key >= ?1 AND key < ?2 AND error <> '' ORDER BY not_before DESC, key DESC LIMIT 1), '')
			FROM block_task WHERE key >= ?1 AND key < ?2`, []any{model << 41, (model + 1) << 41}, func(r row) error {
			p.Waiting, p.Failed, p.LastError = r.int(0), r.int(1), r.text(2)
			return nil
		})
		if err != nil {
			return p, err
		}
		marks, err := v.blockMarks(model)
		for _, m := range marks {
			for _, part := range m.open() {
				p.Waiting += part.upTo - part.after
			}
		}
		return p, err
	})
}
