package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"recalld/memory"
)

// How bad a finding is.
const (
	SeverityWarning = "warning"
	SeverityError   = "error"
)

// maxEvidence is how many lines of evidence a finding shows.
const maxEvidence = 20

// Finding is what a check saw. Evidence names rows, never texts; Fix tells an
// operator what to do.
type Finding struct {
	OK       bool
	Severity string
	Evidence []string
	Fix      string
}

// Check is one named test of the whole file. Fix repairs what can be repaired
// from the file itself and returns how many rows it changed; it is nil when
// nothing can.
type Check struct {
	Name string
	Doc  string
	Run  func(ctx context.Context) (Finding, error)
	Fix  func(ctx context.Context) (int64, error)
}

// Checks returns every check in name order. Each can run beside the others and
// beside reads and writes.
func (s *Store) Checks() []Check {
	checks := []Check{
		{Name: "block_sets", Doc: "every set of blocks covers its record's text, carries its cell, and has a code and a vector for each block", Run: s.checkBlockSets, Fix: s.dropBlockSets},
		{Name: "copies", Doc: "copies of the file beside it still hold what was deleted since", Run: s.findCopies},
		{Name: "digests", Doc: "every record is what was stored: its text has its digest, and all of it is UTF-8", Run: s.checkDigests},
		{Name: "erasure", Doc: "deleted bytes are gone from the log", Run: s.checkErasure, Fix: s.fixErasure},
		{Name: "file", Doc: "every page and index of the file is sound", Run: s.checkFile},
		{Name: "foreign_writer", Doc: "no other program writes to the file", Run: s.checkForeign},
		{Name: "full_text", Doc: "the full-text index holds every record and nothing else", Run: s.checkFullText, Fix: s.rebuildFullText},
		{Name: "schema", Doc: "tables, indexes and triggers are those of this program", Run: s.checkSchema},
	}
	for _, c := range append(rowChecks(), blockChecks()...) {
		checks = append(checks, s.check(c))
	}
	slices.SortFunc(checks, func(a, b Check) int { return strings.Compare(a.Name, b.Name) })
	return checks
}

// rowCheck is a check whose violations are the rows of one query, a line of
// evidence each.
type rowCheck struct {
	name, doc  string
	severity   string
	violations string
	advice     string
	repair     []string
}

func (s *Store) check(c rowCheck) Check {
	check := Check{Name: c.name, Doc: c.doc, Run: func(ctx context.Context) (Finding, error) {
		var evidence tally
		_, err := read(ctx, s, func(v *View) (struct{}, error) {
			return struct{}{}, v.query(c.violations, nil, func(r row) error {
				evidence.add(r.text(0))
				return nil
			})
		})
		return evidence.finding(c.severity, c.advice), err
	}}
	if c.repair != nil {
		check.Fix = func(ctx context.Context) (int64, error) { return s.repair(ctx, c.repair) }
	}
	return check
}

// tally counts lines of evidence and keeps those that are shown: there may be as
// many as there are records.
type tally struct {
	shown []string
	n     int
}

func (t *tally) add(line string) {
	if t.n++; t.n <= maxEvidence {
		t.shown = append(t.shown, line)
	}
}

// finding makes a finding of what was counted; nothing means that all is well.
func (t *tally) finding(severity, advice string) Finding {
	if t.n == 0 {
		return Finding{OK: true}
	}
	if t.n > maxEvidence {
		t.shown = append(t.shown, fmt.Sprintf("and %d more", t.n-maxEvidence))
	}
	return Finding{Severity: severity, Evidence: t.shown, Fix: advice}
}

// found is the finding of a few lines.
func found(severity string, evidence []string, advice string) Finding {
	var t tally
	for _, line := range evidence {
		t.add(line)
	}
	return t.finding(severity, advice)
}

func (s *Store) repair(ctx context.Context, statements []string) (changed int64, err error) {
	err = s.write(ctx, func(t *tx) error {
		return t.item(func() error {
			changed = 0
			for _, sql := range statements {
				n, _, err := t.exec(sql)
				if err != nil {
					return err
				}
				changed += n
			}
			t.w.forget()
			return nil
		})
	})
	return changed, err
}

const fixCommand = "run `recalld doctor --fix`"

// Recounts, used by the check and by its repair.
const (
	statsRecount = `SELECT cell.id AS cell, 0 AS model,
		(SELECT count(*) FROM memory WHERE memory.cell = cell.id) AS memories,
		(SELECT count(*) FROM episode WHERE episode.cell = cell.id) AS episodes,
		(SELECT min(t) FROM (SELECT min(time) AS t FROM memory WHERE memory.cell = cell.id UNION ALL SELECT min(start) FROM episode WHERE episode.cell = cell.id)) AS min_time,
		(SELECT max(t) FROM (SELECT max(time) AS t FROM memory WHERE memory.cell = cell.id UNION ALL SELECT max(start) FROM episode WHERE episode.cell = cell.id)) AS max_time,
		(SELECT max(created) FROM episode WHERE episode.cell = cell.id) AS newest_episode
		FROM cell`
	embeddedRecount = `SELECT cell, model, sum(kind = 2) AS memories, sum(kind = 1) AS episodes FROM (
		SELECT m.cell AS cell, x.model AS model, 2 AS kind FROM vector x JOIN memory m ON m.id = x.parent WHERE x.kind = 2
		UNION ALL
		SELECT e.cell, x.model, 1 FROM vector x JOIN episode e ON e.id = x.parent WHERE x.kind = 1)
		GROUP BY cell, model`
	lostVectors = `SELECT key FROM vector x WHERE NOT EXISTS (SELECT 1 FROM model WHERE id = x.model AND length(x.value) = 4 * dims)
		OR x.kind = 2 AND NOT EXISTS (SELECT 1 FROM memory WHERE id = x.parent)
		OR x.kind = 1 AND NOT EXISTS (SELECT 1 FROM episode WHERE id = x.parent)`
	lostTasks = `SELECT id FROM queue q WHERE NOT EXISTS (SELECT 1 FROM model WHERE id = q.model)
		OR q.kind = 2 AND NOT EXISTS (SELECT 1 FROM memory WHERE id = q.parent)
		OR q.kind = 1 AND NOT EXISTS (SELECT 1 FROM episode WHERE id = q.parent)
		OR EXISTS (SELECT 1 FROM vector WHERE key = (q.model << 41) | ((q.kind - 1) << 40) | q.parent)`
	lostCounts = `SELECT kind, parent FROM recall_count n WHERE
		n.kind = 2 AND NOT EXISTS (SELECT 1 FROM memory WHERE id = n.parent)
		OR n.kind = 1 AND NOT EXISTS (SELECT 1 FROM episode WHERE id = n.parent)`
	versionChains = `SELECT id, superseded_by, lead(id) OVER (PARTITION BY pool, message_id ORDER BY version) AS next
		FROM memory WHERE message_id <> ''`
	unembedded = `SELECT 2 AS kind, r.id AS parent, m.id AS model FROM model m JOIN memory r
		WHERE m.state IN ('active', 'building') AND NOT EXISTS (SELECT 1 FROM vector WHERE key = (m.id << 41) | (1 << 40) | r.id)
		AND NOT EXISTS (SELECT 1 FROM queue WHERE kind = 2 AND parent = r.id AND model = m.id)
		UNION ALL
		SELECT 1, r.id, m.id FROM model m JOIN episode r
		WHERE m.state IN ('active', 'building') AND NOT EXISTS (SELECT 1 FROM vector WHERE key = (m.id << 41) | r.id)
		AND NOT EXISTS (SELECT 1 FROM queue WHERE kind = 1 AND parent = r.id AND model = m.id)`
)

func rowChecks() []rowCheck {
	return []rowCheck{
		{
			name: "cell_stats", doc: "the counts and bounds of every cell are those of its rows", severity: SeverityError,
			violations: `SELECT 'cell ' || a.cell || ': ' || coalesce(s.memories, 'no') || ' memories and ' || coalesce(s.episodes, 'no') || ' episodes counted, ' || a.memories || ' and ' || a.episodes || ' there'
				FROM (` + statsRecount + `) a LEFT JOIN cell_stats s ON s.cell = a.cell AND s.model = 0
				WHERE (a.memories, a.episodes, a.min_time, a.max_time, a.newest_episode) IS NOT (s.memories, s.episodes, s.min_time, s.max_time, s.newest_episode)
				UNION ALL SELECT 'cell ' || cell || ' is counted and does not exist' FROM cell_stats WHERE cell NOT IN (SELECT id FROM cell)
				UNION ALL SELECT DISTINCT 'cell ' || cell || ' has memories and does not exist' FROM memory WHERE cell NOT IN (SELECT id FROM cell)
				UNION ALL SELECT DISTINCT 'cell ' || cell || ' has episodes and does not exist' FROM episode WHERE cell NOT IN (SELECT id FROM cell)`,
			advice: fixCommand + " to count again",
			repair: []string{"DELETE FROM cell_stats WHERE model = 0 OR cell NOT IN (SELECT id FROM cell)", "INSERT INTO cell_stats (cell, model, memories, episodes, min_time, max_time, newest_episode) " + statsRecount},
		},
		{
			name: "embedded_counts", doc: "the embedded records of every cell are counted right", severity: SeverityError,
			violations: `SELECT 'cell ' || cell || ', model ' || model || ': the count of embedded records is wrong' FROM (
				SELECT cell, model, memories, episodes FROM cell_stats WHERE model > 0 AND (memories <> 0 OR episodes <> 0)
				EXCEPT SELECT cell, model, memories, episodes FROM (` + embeddedRecount + `))
				UNION SELECT 'cell ' || cell || ', model ' || model || ': the count of embedded records is wrong' FROM (
				SELECT cell, model, memories, episodes FROM (` + embeddedRecount + `)
				EXCEPT SELECT cell, model, memories, episodes FROM cell_stats WHERE model > 0)`,
			advice: fixCommand + " to count again",
			repair: []string{"DELETE FROM cell_stats WHERE model > 0", "INSERT INTO cell_stats (cell, model, memories, episodes) " + embeddedRecount},
		},
		{
			name: "pools", doc: "the cells of one agent and project share a pool, and memories carry it", severity: SeverityError,
			violations: `SELECT 'cell ' || id || ' has another pool than its project' FROM cell c
				WHERE pool <> (SELECT min(pool) FROM cell WHERE agent = c.agent AND project = c.project)
				UNION ALL SELECT 'mem:' || m.id || ' has another pool than its cell' FROM memory m JOIN cell c ON c.id = m.cell WHERE m.pool <> c.pool`,
			advice: "bring a backup back with `recalld restore`",
		},
		{
			name: "duplicates", doc: "no two memories of one cell have one text, versions of a message excepted", severity: SeverityWarning,
			violations: `SELECT 'mem:' || min(id) || ' and mem:' || max(id) || ' have one text' FROM memory
				WHERE superseded_by IS NULL AND version = 1 GROUP BY cell, digest HAVING count(*) > 1`,
			advice: "delete one of each two",
		},
		{
			name: "versions", doc: "every version of a message points to the next", severity: SeverityError,
			violations: `SELECT 'mem:' || id || ' does not point to the next version' FROM (` + versionChains + `) WHERE superseded_by IS NOT next
				UNION ALL SELECT 'mem:' || id || ' is superseded without a message id' FROM memory WHERE message_id = '' AND superseded_by IS NOT NULL`,
			advice: fixCommand + " to link them again",
			repair: []string{
				`UPDATE memory SET superseded_by = c.next FROM (` + versionChains + `) c WHERE c.id = memory.id AND c.superseded_by IS NOT c.next`,
				"UPDATE memory SET superseded_by = NULL WHERE message_id = '' AND superseded_by IS NOT NULL",
			},
		},
		{
			name: "vectors", doc: "every vector has its record, its model and the model's width", severity: SeverityError,
			violations: "SELECT 'vector of model ' || (key >> 41) || ', record ' || (key & 0xFFFFFFFFFF) || ' belongs to nothing' FROM (" + lostVectors + ")",
			advice:     fixCommand + " to remove them",
			repair:     []string{"DELETE FROM vector WHERE key IN (" + lostVectors + ")"},
		},
		{
			name: "queue", doc: "every embedding task has its record and its model, and work to do", severity: SeverityWarning,
			violations: "SELECT 'task ' || id || ' has nothing to do' FROM (" + lostTasks + ")",
			advice:     fixCommand + " to remove them",
			repair:     []string{"DELETE FROM queue WHERE id IN (" + lostTasks + ")"},
		},
		{
			name: "queue_failures", doc: "embedding does not fail again and again", severity: SeverityWarning,
			violations: "SELECT 'task ' || id || ' failed ' || attempts || ' times: ' || error FROM queue WHERE state = 0 AND attempts >= 5 ORDER BY id",
			advice:     "look at the embedding server; the tasks are tried again by themselves",
		},
		{
			name: "missing_vectors", doc: "every record is embedded or waits for it", severity: SeverityWarning,
			violations: "SELECT CASE kind WHEN 2 THEN 'mem:' ELSE 'ep:' END || parent || ' was never queued for model ' || model FROM (" + unembedded + ")",
			advice:     fixCommand + " to queue them",
			repair:     []string{"INSERT INTO queue (kind, parent, model) " + unembedded},
		},
		{
			name: "recall_counts", doc: "every recall counter has its record", severity: SeverityWarning,
			violations: "SELECT 'record ' || parent || ' is gone and counted' FROM (" + lostCounts + ")",
			advice:     fixCommand + " to remove them",
			repair:     []string{"DELETE FROM recall_count WHERE (kind, parent) IN (" + lostCounts + ")"},
		},
		{
			name: "change_log", doc: "the change log has no gap, ends at its sequence, and every lineage is its own", severity: SeverityError,
			violations: `SELECT 'changes ' || min(seq) || ' to ' || max(seq) || ' are ' || count(*) FROM index_changes HAVING count(*) > 0 AND max(seq) - min(seq) + 1 <> count(*)
				UNION ALL SELECT 'the last change is ' || max(seq) || ', the sequence is at ' || coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'index_changes'), 0)
					FROM index_changes HAVING count(*) > 0 AND max(seq) <> coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'index_changes'), 0)
				UNION ALL SELECT 'changes ' || min(seq) || ' and ' || max(seq) || ' share a lineage' FROM index_changes GROUP BY lineage HAVING count(*) > 1`,
			advice: "delete the derived folder; it is built again at the next start",
		},
		{
			name: "free_space", doc: "less than half of the file is free pages", severity: SeverityWarning,
			violations: `SELECT freelist_count || ' of ' || page_count || ' pages are free' FROM pragma_freelist_count, pragma_page_count
				WHERE freelist_count > 1024 AND freelist_count * 2 > page_count`,
			advice: "run `recalld vacuum`",
		},
	}
}

// findCopies looks for what migrations and restores left beside the file.
func (s *Store) findCopies(context.Context) (Finding, error) {
	var evidence []string
	for _, pattern := range []string{".before-*", asideMark + "*", ".part", restoreMark, ".new-*"} {
		names, err := filepath.Glob(escapeGlob(s.path) + pattern)
		if err != nil {
			return Finding{}, err
		}
		for _, name := range names {
			evidence = append(evidence, filepath.Base(name))
		}
	}
	return found(SeverityWarning, evidence, "remove them once you trust the present file"), nil
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func (s *Store) checkErasure(context.Context) (Finding, error) {
	if s.writer == nil || !s.writer.erasePending.Load() {
		return Finding{OK: true}, nil
	}
	_, open := s.gate.oldest()
	return found(SeverityWarning, []string{fmt.Sprintf("%d open snapshots keep the log", open)}, "it is tried again by itself; stop other programs that read the file"), nil
}

func (s *Store) fixErasure(ctx context.Context) (int64, error) {
	err := s.submit(&job{ctx: ctx, alone: func(*conn) error {
		s.writer.erase()
		return nil
	}})
	return 0, err
}

func (s *Store) checkForeign(context.Context) (Finding, error) {
	if s.writer == nil || s.writer.foreign.Load() == 0 {
		return Finding{OK: true}, nil
	}
	return found(SeverityWarning, []string{fmt.Sprintf("noticed %d times since the file was opened", s.writer.foreign.Load())}, "let every client go through one server"), nil
}

// checkFile asks SQLite to read everything.
func (s *Store) checkFile(ctx context.Context) (Finding, error) {
	var evidence []string
	_, err := read(ctx, s, func(v *View) (struct{}, error) {
		// FTS5 keeps the outline of its index on each connection and looks whether it
		// is stale when a query opens, which integrity_check does not do: it would
		// report parts as lost that were merged away since.
		for _, table := range []string{"memory_fts", "episode_fts"} {
			if err := v.query("SELECT rowid FROM "+table+" LIMIT 1", nil, func(row) error { return nil }); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, v.query("PRAGMA integrity_check(20)", nil, func(r row) error {
			if line := r.text(0); line != "ok" {
				evidence = append(evidence, line)
			}
			return nil
		})
	})
	return found(SeverityError, evidence, "bring a backup back with `recalld restore`"), err
}

// checkDigests reads every record like an answer does.
func (s *Store) checkDigests(ctx context.Context) (Finding, error) {
	var evidence tally
	_, err := read(ctx, s, func(v *View) (struct{}, error) {
		for _, part := range []struct {
			sql    string
			decode func(row) memory.Record
		}{{"SELECT " + episodeColumns + " FROM " + episodeTables, decodeEpisode}, {"SELECT " + memoryColumns + " FROM " + memoryTables, decodeMemory}} {
			err := v.query(part.sql+" ORDER BY m.id", nil, func(r row) error {
				if rec := part.decode(r); !intact(rec, r) {
					evidence.add(rec.Ref.String() + " is not what was stored")
				}
				return nil
			})
			if err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, v.query("SELECT id, user_id, content FROM profile ORDER BY id", nil, func(r row) error {
			if !utf8.ValidString(r.text(1)) || !utf8.ValidString(r.text(2)) {
				evidence.add(fmt.Sprintf("profile %d is not what was stored", r.int(0)))
			}
			return nil
		})
	})
	// Nothing says which of text and digest is right, so that nothing is computed
	// again.
	return evidence.finding(SeverityError, "bring a backup back with `recalld restore`, or mend the full-text index with `recalld doctor --fix` and give the text anew with `recalld update`; until then the record is left out of answers"), err
}

// checkFullText compares the index with the texts. It works inside the writer,
// because only a writer may ask FTS5.
func (s *Store) checkFullText(ctx context.Context) (Finding, error) {
	var evidence []string
	err := s.write(ctx, func(t *tx) error {
		evidence = nil
		for _, table := range []string{"memory_fts", "episode_fts"} {
			err := t.item(func() error {
				if err := t.indexTexts(); err != nil {
					return err
				}
				_, _, err := t.exec("INSERT INTO " + table + " (" + table + ", rank) VALUES ('integrity-check', 1)")
				return err
			})
			if err != nil {
				evidence = append(evidence, table+": "+err.Error())
			}
		}
		return nil
	})
	if s.writer == nil {
		return Finding{OK: true, Evidence: []string{"not compared: the file is open for reading only"}}, nil
	}
	return found(SeverityError, evidence, fixCommand+" to build it again"), err
}

func (s *Store) rebuildFullText(ctx context.Context) (int64, error) {
	return s.repair(ctx, []string{
		"INSERT INTO memory_fts (memory_fts) VALUES ('rebuild')",
		"INSERT INTO episode_fts (episode_fts) VALUES ('rebuild')",
		"UPDATE fts_mark SET upto = coalesce((SELECT max(id) FROM memory), 0) WHERE kind = 2",
		"UPDATE fts_mark SET upto = coalesce((SELECT max(id) FROM episode), 0) WHERE kind = 1",
	})
}

// checkSchema compares the file's schema with the one that migrations make.
func (s *Store) checkSchema(ctx context.Context) (Finding, error) {
	want, err := expectedSchema(ctx, s.version)
	if err != nil {
		return Finding{}, err
	}
	var evidence []string
	_, err = read(ctx, s, func(v *View) (struct{}, error) {
		return struct{}{}, v.query(schemaSQL, nil, func(r row) error {
			name := r.text(0)
			switch sql, known := want[name]; {
			case !known:
				evidence = append(evidence, name+" does not belong here")
			case sql != r.text(1):
				evidence = append(evidence, name+" was changed")
			}
			delete(want, name)
			return nil
		})
	})
	for _, name := range sortedKeys(want) {
		evidence = append(evidence, name+" is missing")
	}
	return found(SeverityError, evidence, "bring a backup back with `recalld restore`"), err
}

const schemaSQL = "SELECT type || ' ' || name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_stat%' ORDER BY 1"

// expectedSchema builds the schema of a version in memory.
func expectedSchema(ctx context.Context, version int) (map[string]string, error) {
	steps, err := migrations()
	if err != nil {
		return nil, err
	}
	c, err := connect(inMemory, "rwc", "", false)
	if err != nil {
		return nil, err
	}
	defer c.close()
	for _, step := range steps {
		if step.version <= version {
			if err := c.script(step.sql); err != nil {
				return nil, err
			}
		}
	}
	want := make(map[string]string)
	return want, c.query(ctx, schemaSQL, nil, func(r row) error {
		want[r.text(0)] = r.text(1)
		return nil
	})
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
