package sqlite

import (
	"bytes"
	"context"
	"fmt"

	"recalld/memory"
)

// Recounts of block sets, used by the check and by its repair.
const (
	blockRecount = "SELECT cell, model, count(*) AS sets, sum(n) AS blocks, sum(unembeddable) AS unembeddable FROM block_set GROUP BY cell, model"
	lostBlocks   = `WITH RECURSIVE used (id, upto) AS (
		SELECT vectors, vectors + parts FROM block_set UNION ALL SELECT id + 1, upto FROM used WHERE id + 1 < upto)
		SELECT id FROM block_vec EXCEPT SELECT id FROM used`
	wrongTasks = `SELECT key FROM block_task t WHERE NOT EXISTS (SELECT 1 FROM model WHERE id = t.key >> 41 AND state <> 'retired')
		OR t.cell IS NOT CASE t.key & (1 << 40) WHEN 0 THEN (SELECT cell FROM episode WHERE id = t.key & 0xFFFFFFFFFF) ELSE (SELECT cell FROM memory WHERE id = t.key & 0xFFFFFFFFFF) END`
)

func blockChecks() []rowCheck {
	return []rowCheck{
		{
			name: "block_stats", doc: "the block sets of every cell are counted right", severity: SeverityError,
			violations: `SELECT 'cell ' || cell || ', model ' || model || ': the count of blocks is wrong' FROM (
				SELECT cell, model, sets, blocks, unembeddable FROM block_stats WHERE (sets, blocks, unembeddable) <> (0, 0, 0)
				EXCEPT SELECT * FROM (` + blockRecount + `))
				UNION SELECT 'cell ' || cell || ', model ' || model || ': the count of blocks is wrong' FROM (
				SELECT * FROM (` + blockRecount + `) EXCEPT SELECT cell, model, sets, blocks, unembeddable FROM block_stats)`,
			advice: fixCommand + " to count again",
			repair: []string{"DELETE FROM block_stats", "INSERT INTO block_stats (cell, model, sets, blocks, unembeddable) " + blockRecount},
		},
		{
			name: "block_vectors", doc: "every vector of a block belongs to a set", severity: SeverityError,
			violations: "SELECT 'row ' || id || ' of block_vec belongs to no set' FROM (" + lostBlocks + ")",
			advice:     fixCommand + " to remove them",
			repair:     []string{"DELETE FROM block_vec WHERE id IN (" + lostBlocks + ")"},
		},
		{
			name: "block_tasks", doc: "every record that waits for blocks again exists, and carries its cell", severity: SeverityWarning,
			violations: "SELECT 'the task of model ' || (key >> 41) || ', record ' || (key & 0xFFFFFFFFFF) || ' is wrong' FROM (" + wrongTasks + ")",
			advice:     fixCommand + " to mend them",
			repair: []string{
				`UPDATE block_task SET cell = r.cell FROM (SELECT (1 << 40) | id AS at, cell FROM memory UNION ALL SELECT id, cell FROM episode) r
					WHERE r.at = block_task.key & 0x1FFFFFFFFFF AND block_task.key IN (` + wrongTasks + `)`,
				"DELETE FROM block_task WHERE key IN (" + wrongTasks + ")",
			},
		},
	}
}

// checkBlockSets reads every set like a search does, and beside its record.
func (s *Store) checkBlockSets(ctx context.Context) (Finding, error) {
	var evidence tally
	err := s.eachWrongSet(ctx, func(key int64, problem string) {
		evidence.add(fmt.Sprintf("blocks of %s under model %d: %s", refOfKey(key), key>>41, problem))
	})
	return evidence.finding(SeverityError, fixCommand+" to drop them; they are built again"), err
}

func refOfKey(key int64) memory.Ref {
	return memory.Ref{Kind: memory.Kind(key>>40&1 + 1), ID: key & maxID}
}

// dropBlockSets drops what checkBlockSets found, whole (BR-005), and has the
// records looked at again. A set that shared vectors with a dropped one is wrong
// from then on, so that it looks again until nothing is.
func (s *Store) dropBlockSets(ctx context.Context) (dropped int64, err error) {
	for {
		var keys []int64
		if err := s.eachWrongSet(ctx, func(key int64, _ string) { keys = append(keys, key) }); err != nil || len(keys) == 0 {
			return dropped, err
		}
		err := s.write(ctx, func(t *tx) error {
			return t.item(func() error {
				for _, key := range keys {
					if err := t.dropBlockSet(key); err != nil {
						return err
					}
				}
				return nil
			})
		})
		if err != nil {
			return dropped, err
		}
		dropped += int64(len(keys))
	}
}

func (t *tx) dropBlockSet(key int64) error {
	if _, _, err := t.exec("DELETE FROM block_set WHERE key = ?", key); err != nil {
		return err
	}
	ref := refOfKey(key)
	_, _, err := t.exec("INSERT INTO block_task (key, cell) SELECT ?, cell FROM "+blockMark{kind: ref.Kind}.table()+` WHERE id = ?
		AND EXISTS (SELECT 1 FROM block_mark WHERE model = ? AND kind = ?)
		ON CONFLICT DO UPDATE SET attempts = 0, not_before = 0, error = ''`, key, ref.ID, key>>41, int64(ref.Kind))
	return err
}

// eachWrongSet calls each for the sets that are not what was written for their
// record. Sets of another splitter are right as they are, and not current.
func (s *Store) eachWrongSet(ctx context.Context, each func(key int64, problem string)) error {
	_, err := read(ctx, s, func(v *View) (struct{}, error) {
		end := int64(0)
		return struct{}{}, v.query(`SELECT b.key, b.cell, coalesce(m.cell, e.cell), b.revision, coalesce(m.digest, e.digest), length(coalesce(m.content, e.summary)),
			k.dims, b.n, b.unembeddable, b.spans, b.bits, b.vectors, b.parts FROM block_set b
			LEFT JOIN memory m ON b.kind = 2 AND m.id = b.parent
			LEFT JOIN episode e ON b.kind = 1 AND e.id = b.parent
			LEFT JOIN model k ON k.id = b.model AND k.state <> 'retired' ORDER BY b.vectors, b.key`, nil, func(r row) error {
			values, err := v.partsOf(r.int(11), r.int(12))
			if err != nil {
				return err
			}
			problem := wrongSet(r, values)
			if r.int(11) < end {
				problem = "they share vectors with another set"
			}
			if end = max(end, r.int(11)+r.int(12)); problem != "" {
				each(r.int(0), problem)
			}
			return nil
		})
	})
	return err
}

// partsOf reads the vectors of one set. It is called inside a query of the view,
// which holds its lock.
func (v *View) partsOf(first, parts int64) (values []byte, err error) {
	err = v.conn.query(v.ctx, "SELECT value FROM block_vec WHERE id >= ? AND id < ? ORDER BY id", []any{first, first + parts}, func(r row) error {
		values = append(values, r.blob(0)...)
		return nil
	})
	return values, err
}

func wrongSet(r row, values []byte) string {
	b := BlockSet{Blocks: decodeSpans(r.blob(9)), Dims: int(r.int(6)), Bits: r.blob(10), Values: values}
	unembeddable, length := 0, 0
	for _, s := range b.Blocks {
		if length = s.End; s.Unembeddable {
			unembeddable++
		}
	}
	switch {
	case r.null(2):
		return "the record is gone"
	case r.null(6):
		return "the model is gone"
	case r.int(1) != r.int(2):
		return "they carry another cell than the record"
	case !bytes.Equal(r.blob(3), r.blob(4)):
		return "they are of another text"
	case len(b.Blocks) != int(r.int(7)) || unembeddable != int(r.int(8)):
		return "they are counted wrong"
	case length != int(r.int(5)):
		return "they do not cover the text"
	}
	if err := b.check(); err != nil {
		return err.Error()
	}
	return ""
}
