package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"recalld/memory"
	"recalld/sqlite"
)

// TestChecksFindAndRepair damages a sound file in one way after another; exactly
// the check that is meant speaks, its evidence names the row, and its repair
// leaves a sound file.
// DECISIONS 8
func TestChecksFindAndRepair(t *testing.T) {
	for _, c := range []struct {
		check    string
		damage   []string
		evidence string
		repairs  bool
		also     []string // checks that rightly speak as well
	}{
		{"cell_stats", []string{"UPDATE cell_stats SET memories = 3 WHERE cell = 1 AND model = 0"}, "cell 1: 3 memories", true, nil},
		{"cell_stats", []string{"UPDATE cell_stats SET max_time = 3 WHERE cell = 1 AND model = 0"}, "cell 1", true, nil},
		{"cell_stats", []string{"UPDATE cell_stats SET newest_episode = NULL WHERE model = 0"}, "cell", true, nil},
		{"cell_stats", []string{"DELETE FROM cell_stats WHERE cell = 1 AND model = 0"}, "cell 1", true, nil},
		{"embedded_counts", []string{"UPDATE cell_stats SET memories = memories + 1 WHERE model > 0"}, "model 1", true, nil},
		{"embedded_counts", []string{"DELETE FROM cell_stats WHERE model > 0"}, "model 1", true, nil},
		{"digests", []string{"UPDATE memory SET digest = x'00' WHERE id = 2"}, "mem:2", false, nil},
		{"digests", []string{"UPDATE episode SET digest = x'00'"}, "ep:1", false, nil},
		{"full_text", []string{"INSERT INTO memory_fts (memory_fts, rowid, content) SELECT 'delete', id, content FROM memory WHERE id = 1"}, "memory_fts", true, nil},
		{"full_text", []string{"DELETE FROM episode_fts_docsize"}, "episode_fts", true, nil},
		{"full_text", []string{"UPDATE fts_mark SET upto = 1 WHERE kind = 2"}, "memory_fts", true, nil},
		{"versions", []string{"UPDATE memory SET superseded_by = NULL"}, "mem:3", true, nil},
		{"versions", []string{"UPDATE memory SET superseded_by = 1 WHERE id = 2"}, "mem:2", true, nil},
		{"vectors", []string{"INSERT INTO vector (key, value) VALUES ((1 << 41) | (1 << 40) | 99, x'0000803f')"}, "record 99", true, nil},
		{"vectors", []string{"UPDATE vector SET value = x'00' WHERE parent = 1 AND kind = 2"}, "record 1", true, nil},
		{"vectors", []string{"INSERT INTO vector (key, value) VALUES ((7 << 41) | 1, x'0000803f')"}, "model 7", true, nil},
		{"queue", []string{"INSERT INTO queue (kind, parent, model) VALUES (2, 99, 1)"}, "task", true, nil},
		{"queue", []string{"INSERT INTO queue (kind, parent, model) VALUES (2, 1, 1)"}, "task", true, nil},
		{"queue_failures", []string{"INSERT INTO memory (cell, pool, digest, message_id, version, locked, time_offset, created, created_offset, updated, updated_offset, source_type, source_id, source_name, content) SELECT cell, pool, x'2d711642b726b04401627ca9fbac32f5', '', 1, 0, 0, 0, 0, 0, 0, '', '', '', 'x' FROM memory WHERE id = 1",
			"INSERT INTO queue (kind, parent, model, attempts, error) VALUES (2, 5, 1, 5, 'refused')"}, "5 times: refused", false, nil},
		{"missing_vectors", []string{"DELETE FROM vector WHERE parent = 1"}, "mem:1", true, nil},
		{"recall_counts", []string{"INSERT INTO recall_count VALUES (2, 99, 1, 0, 0)"}, "record 99", true, nil},
		{"change_log", []string{"DELETE FROM index_changes WHERE seq = 3"}, "changes 1 to", false, nil},
		{"change_log", []string{"DELETE FROM index_changes WHERE seq = (SELECT max(seq) FROM index_changes)"}, "the last change", false, nil},
		{"change_log", []string{"UPDATE index_changes SET lineage = 1 WHERE seq IN (2, 3)"}, "changes 2 and 3 share", false, nil},
		{"pools", []string{"UPDATE memory SET pool = 77 WHERE id = 1"}, "mem:1", false, nil},
		{"duplicates", []string{"DROP INDEX memory_digest", "UPDATE memory SET content = 'equal', digest = x'1ec1c26b50d5d3c58d9583181af8076655fe00756bf7285940ba3670f99fcba0' WHERE id IN (1, 2)", "CREATE INDEX memory_digest ON memory (cell, digest)"}, "mem:1 and mem:2", false, []string{"digests"}},
		{"schema", []string{"DROP TRIGGER memory_delete"}, "trigger memory_delete is missing", false, nil},
		{"schema", []string{"CREATE TABLE mine (x)"}, "table mine does not belong", false, nil},
	} {
		t.Run(c.check, func(t *testing.T) {
			s, path := openStore(t, sqlite.Options{Clock: fixed})
			ctx := context.Background()
			m := model(t, s, 1)
			at := func(n int64) memory.Time { return memory.Time{Milli: n, Known: true} }
			store(t, s,
				sqlite.NewMemory{Cell: cell("a", "", ""), Content: "one", Time: at(1), Vector: []float32{1}, Model: m},
				sqlite.NewMemory{Cell: cell("a", "", ""), Content: "two", Time: at(2), Vector: []float32{1}, Model: m},
				sqlite.NewMemory{Cell: cell("b", "p", "c"), Content: "three", MessageID: "m", Vector: []float32{1}, Model: m},
				sqlite.NewMemory{Cell: cell("b", "p", "c"), Content: "four", MessageID: "m", OnConflict: "version", Vector: []float32{1}, Model: m},
			)
			if _, err := s.StoreEpisodes(ctx, []sqlite.NewEpisode{{Cell: cell("a", "", ""), Summary: "an episode", Vector: []float32{1}, Model: m}}); err != nil {
				t.Fatal(err)
			}
			sound(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			foreign(t, path, c.damage...)
			s = reopen(t, path, sqlite.Options{Clock: fixed})
			for _, check := range s.Checks() {
				f, err := check.Run(ctx)
				if err != nil {
					t.Fatalf("check %s: %v", check.Name, err)
				}
				if check.Name != c.check {
					if !f.OK && !slices.Contains(c.also, check.Name) {
						t.Errorf("%s speaks as well: %v", check.Name, f.Evidence)
					}
					continue
				}
				if f.OK || f.Fix == "" || f.Severity == "" || !strings.Contains(strings.Join(f.Evidence, "\n"), c.evidence) {
					t.Fatalf("%+v, want evidence of %q", f, c.evidence)
				}
				if !c.repairs {
					continue
				}
				if _, err := check.Fix(ctx); err != nil {
					t.Fatal(err)
				}
				if f, err := check.Run(ctx); err != nil || !f.OK {
					t.Errorf("after the repair: %+v, %v", f, err)
				}
			}
			if c.repairs { // what a repair leaves for the next one
				for _, check := range s.Checks() {
					if check.Fix != nil {
						if _, err := check.Fix(ctx); err != nil {
							t.Fatal(err)
						}
					}
				}
				sound(t, s)
			}
		})
	}
}

// TestChecksOfTheFolder: copies beside the file are named.
// DECISIONS 14
func TestChecksOfTheFolder(t *testing.T) {
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	for _, suffix := range []string{".before-2", ".replaced-by-01234567"} {
		if err := os.WriteFile(path+suffix, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range s.Checks() {
		if c.Name != "copies" {
			continue
		}
		f, err := c.Run(context.Background())
		if err != nil || f.OK || fmt.Sprint(f.Evidence) != "[recall.db.before-2 recall.db.replaced-by-01234567]" {
			t.Errorf("%+v, %v", f, err)
		}
	}
}

// TestCheckFileFindsDamage: an index entry that no longer belongs to its row is
// found, though every page can be read.
// DECISIONS 13
func TestCheckFileFindsDamage(t *testing.T) {
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: "one"})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	var root int64
	if err := errors.Join(db.QueryRow("SELECT rootpage FROM sqlite_schema WHERE name = 'memory_digest'").Scan(&root), db.Close()); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	// The page's only entry ends at its end: cell, digest, row id.
	if _, err := f.WriteAt([]byte{0xff}, root*16384-4); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, path, sqlite.Options{Clock: fixed})
	for _, c := range s.Checks() {
		f, err := c.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if f.OK != (c.Name != "file") || !f.OK && !strings.Contains(fmt.Sprint(f.Evidence), "memory_digest") {
			t.Errorf("%s: %+v", c.Name, f)
		}
	}
}

// TestEvidenceIsBounded: a check that finds many violations shows some and counts
// the rest.
func TestEvidenceIsBounded(t *testing.T) {
	s, _ := openStore(t, sqlite.Options{Clock: fixed})
	model(t, s, 2)
	for i := range 25 {
		store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: fmt.Sprint(i)})
	}
	for _, c := range s.Checks() {
		if c.Name != "missing_vectors" {
			continue
		}
		f, err := c.Run(context.Background())
		if err != nil || f.OK || len(f.Evidence) != 21 || f.Evidence[20] != "and 5 more" {
			t.Errorf("%+v, %v", f, err)
		}
		return
	}
	t.Error("there is no such check")
}
