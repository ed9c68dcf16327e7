package sqlite

import "context"

// Adding a text to the full-text index as part of every store would be two
// fifths of what the store writes, so the writer adds new records in batches:
// once enough wait, when a snapshot needs them, when it has nothing else to do,
// and at the end. fts_mark says how far the index goes; triggers keep what is
// in it.

// indexTexts brings the full-text index up to the last record.
func (t *tx) indexTexts() error {
	for _, sql := range []string{
		"INSERT INTO memory_fts (rowid, content) SELECT id, content FROM memory WHERE id > (SELECT upto FROM fts_mark WHERE kind = 2)",
		"UPDATE fts_mark SET upto = max(upto, coalesce((SELECT max(id) FROM memory), 0)) WHERE kind = 2",
		"INSERT INTO episode_fts (rowid, summary, keywords) SELECT id, summary, keywords FROM episode WHERE id > (SELECT upto FROM fts_mark WHERE kind = 1)",
		"UPDATE fts_mark SET upto = max(upto, coalesce((SELECT max(id) FROM episode), 0)) WHERE kind = 1",
	} {
		if _, _, err := t.exec(sql); err != nil {
			return err
		}
	}
	t.indexed, t.behind, t.behindBytes = true, 0, 0
	return nil
}

func indexJob(ctx context.Context) *job {
	return &job{ctx: ctx, done: make(chan struct{}), run: func(t *tx) error { return t.item(t.indexTexts) }}
}

// awaitIndex counts a record that the index does not hold yet. Readers see it
// counted before they can see it.
func (t *tx) awaitIndex(text string) {
	t.behind++
	t.behindBytes += int64(len(text))
	t.w.unindexed.Add(1)
	t.w.unindexedBytes += int64(len(text))
}

// settleIndex counts afresh once a commit has published what was indexed: before
// it, readers would find neither the count nor the index.
func (t *tx) settleIndex() {
	if t.indexed {
		t.w.unindexed.Store(t.behind)
		t.w.unindexedBytes = t.behindBytes
	}
}

// countUnindexed counts the records behind the mark.
func (w *writer) countUnindexed() error {
	r, err := w.conn.first(context.Background(), unindexedSQL)
	if err == nil {
		w.unindexed.Store(r.int(0))
	}
	return err
}

const unindexedSQL = `SELECT (SELECT count(*) FROM memory WHERE id > (SELECT upto FROM fts_mark WHERE kind = 2))
	+ (SELECT count(*) FROM episode WHERE id > (SELECT upto FROM fts_mark WHERE kind = 1))`
