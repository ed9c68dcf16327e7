package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"recalld/memory"
	"recalld/sqlite"
)

const long = "The staging database moved to db-7. 予備は毎晩コピーします。 备份每晚运行。"

// measured is a model whose identity was measured.
func measured(t testing.TB, s *sqlite.Store, dims int) int64 {
	t.Helper()
	id, err := s.PutModel(context.Background(), sqlite.Model{Backend: "static", Name: "test", Dims: dims, Probes: [][]float32{make([]float32, dims)}, State: sqlite.ModelActive})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// vectorOf is a vector that seed alone decides; it has components on both sides.
func vectorOf(seed, dims int) []float32 {
	v := make([]float32, dims)
	for i := range v {
		v[i] = float32((seed*31+i*17)%23-11) + .5
	}
	return v
}

// setOf cuts a text into n blocks of nearly equal length, with vectors of seed,
// seed+1 and so on.
func setOf(ref memory.Ref, model int64, text string, n, seed, dims int) sqlite.BlockSet {
	b := sqlite.BlockSet{Ref: ref, Model: model, Revision: memory.Revision(text), Policy: sqlite.BlockPolicy, Dims: dims}
	for i := range n {
		b.Blocks = append(b.Blocks, sqlite.BlockSpan{Start: i * memory.Len(text) / n, End: (i + 1) * memory.Len(text) / n, Node: i == 0, Forced: i == 1})
		v := vectorOf(seed+i, dims)
		values, _ := memory.Int8(v)
		b.Bits, b.Values = append(b.Bits, memory.Signs(v)...), append(b.Values, values...)
	}
	return b
}

// unembed makes a block of a set one that the model has no vector for.
func unembed(b sqlite.BlockSet, i int) sqlite.BlockSet {
	b.Blocks, b.Bits, b.Values = slices.Clone(b.Blocks), slices.Clone(b.Bits), slices.Clone(b.Values)
	b.Blocks[i].Unembeddable = true
	clear(b.Values[i*b.Dims : (i+1)*b.Dims])
	width := (b.Dims + 7) / 8
	clear(b.Bits[i*width : (i+1)*width])
	return b
}

func putSets(t testing.TB, s *sqlite.Store, sets ...sqlite.BlockSet) {
	t.Helper()
	written, err := s.PutBlockSets(context.Background(), sets)
	if err != nil || slices.Contains(written, false) {
		t.Fatalf("%v, %v", written, err)
	}
}

// codes reads every current set of cells, as lines.
func codes(t testing.TB, s *sqlite.Store, model int64, cells ...int64) (lines []string) {
	t.Helper()
	v := view(t, s)
	defer v.Close()
	err := v.BlockBits(model, cells, func(c sqlite.BlockCodes) error {
		lines = append(lines, fmt.Sprintf("%s cell %d: %d × %d %x %v", c.Ref, c.Cell, c.N, c.Dims, c.Bits, c.Unembeddable))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// rows reads a query of the file like another program would.
func rows(t testing.TB, path, query string, args ...any) (lines []string) {
	t.Helper()
	db, err := sql.Open("sqlite3", (&url.URL{Scheme: "file", Path: path, RawQuery: "_busy_timeout=5000"}).String())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	result, err := db.Query(query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	names, _ := result.Columns()
	for result.Next() {
		values := make([]any, len(names))
		for i := range values {
			values[i] = new(any)
		}
		if err := result.Scan(values...); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for i := range values {
			switch v := (*values[i].(*any)).(type) {
			case []byte:
				fmt.Fprintf(&b, "%s=%x ", names[i], v)
			default:
				fmt.Fprintf(&b, "%s=%v ", names[i], v)
			}
		}
		lines = append(lines, strings.TrimSpace(b.String()))
	}
	return lines
}

// TestBlockSetIsRead: what is put is what a search, a quotation and the views of
// the ledger's shape read, with and without an unembeddable block.
// BR-088, BR-090, BR-099, BR-045, BR-024, DECISIONS 9
func TestBlockSetIsRead(t *testing.T) {
	for _, dims := range []int{1, 8, 9, 256} {
		t.Run(fmt.Sprint(dims), func(t *testing.T) {
			s, path := openStore(t, sqlite.Options{Clock: fixed})
			m := measured(t, s, dims)
			store(t, s, sqlite.NewMemory{Cell: cell("a", "p", ""), Content: long}, sqlite.NewMemory{Cell: cell("a", "p", ""), Content: "two sentences. no more."})
			if _, err := s.StoreEpisodes(t.Context(), []sqlite.NewEpisode{{Cell: cell("a", "p", ""), Summary: long}}); err != nil {
				t.Fatal(err)
			}
			one := unembed(setOf(mem(1), m, long, 5, 3, dims), 3)
			two, three := setOf(mem(2), m, "two sentences. no more.", 2, 30, dims), setOf(ep(1), m, long, 3, 60, dims)
			putSets(t, s, one, two, three)

			line := func(b sqlite.BlockSet, gone ...int) string {
				return fmt.Sprintf("%s cell 1: %d × %d %x %v", b.Ref, len(b.Blocks), dims, b.Bits, gone)
			}
			want := []string{line(three), line(one, 3), line(two)}
			if got := codes(t, s, m, 1); !slices.Equal(got, want) {
				t.Errorf("codes\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			v := view(t, s)
			defer v.Close()
			var asked []sqlite.BlockRow
			var expected [][]byte
			for _, b := range []sqlite.BlockSet{two, one, three} {
				if spans, ok, err := v.BlockSpans(m, b.Ref); err != nil || !ok || !slices.Equal(spans, b.Blocks) {
					t.Errorf("%s: %+v, %v, %v", b.Ref, spans, ok, err)
				}
				for i := -1; i <= len(b.Blocks); i++ {
					asked = append(asked, sqlite.BlockRow{Ref: b.Ref, Index: i})
					if i < 0 || i == len(b.Blocks) || b.Blocks[i].Unembeddable {
						expected = append(expected, nil)
					} else {
						expected = append(expected, b.Values[i*dims:(i+1)*dims])
					}
				}
			}
			for i := range asked { // sets in turns, and blocks twice
				asked, expected = append(asked, asked[i*5%len(asked)]), append(expected, expected[i*5%len(asked)])
			}
			values, err := v.BlockValues(m, append(asked, sqlite.BlockRow{Ref: mem(9)}))
			if err != nil || !slices.EqualFunc(values, append(expected, nil), func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }) {
				t.Errorf("values %x, %v; want %x", values, err, expected)
			}
			if st, err := v.BlockStats(m, []int64{1}); err != nil || st.Sets != 3 || st.Blocks != 10 || st.Unembeddable != 1 {
				t.Errorf("%+v, %v", st, err)
			}

			want = nil
			width := (dims + 7) / 8
			for _, b := range []sqlite.BlockSet{three, one, two} {
				for i, x := range b.Blocks {
					forced := 0
					if x.Forced {
						forced = 1
					}
					want = append(want, fmt.Sprintf("kind=%d parent=%d block=%d start_offset=%d end_offset=%d forced=%d bits=%x model=%d", b.Ref.Kind, b.Ref.ID, i, x.Start, x.End, forced, b.Bits[i*width:(i+1)*width], m))
				}
			}
			if got := rows(t, path, "SELECT * FROM block ORDER BY kind, parent, block"); !slices.Equal(got, want) {
				t.Errorf("view\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			last := fmt.Sprintf("kind=2 parent=2 block=1 model=%d value=%x", m, two.Values[dims:])
			if got := rows(t, path, "SELECT * FROM block_vector ORDER BY kind, parent, block"); len(got) != 10 || got[9] != last {
				t.Errorf("%v, want %s at the end", got, last)
			}
			sound(t, s, "missing_vectors")
		})
	}
}

// TestBlockSetIsChecked: a set that no search could read is refused, by the name
// of what is wrong.
// BR-026, BR-045, BR-046, BR-104, BR-107, BR-121, DECISIONS 26
func TestBlockSetIsChecked(t *testing.T) {
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	m := measured(t, s, 9)
	nameless := model(t, s, 9)
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: long})
	for field, change := range map[string]func(*sqlite.BlockSet){
		"blocks: are 1":          func(b *sqlite.BlockSet) { *b = setOf(mem(1), m, long, 1, 1, 9) },
		"blocks: number 1":       func(b *sqlite.BlockSet) { b.Blocks[1].Start++ },
		"blocks: number 0":       func(b *sqlite.BlockSet) { b.Blocks[0].Start = -1 },
		"blocks: number 2":       func(b *sqlite.BlockSet) { b.Blocks[2].End = b.Blocks[2].Start },
		"bits: have":             func(b *sqlite.BlockSet) { b.Bits = b.Bits[1:] },
		"values: have":           func(b *sqlite.BlockSet) { b.Values = b.Values[1:] },
		"values: of block 2":     func(b *sqlite.BlockSet) { clear(b.Values[18:27]) },
		"dims: are 8":            func(b *sqlite.BlockSet) { *b = setOf(mem(1), m, long, 3, 1, 8) },
		"model: is unknown":      func(b *sqlite.BlockSet) { b.Model = 77 },
		"model: is unknown, ret": func(b *sqlite.BlockSet) { b.Model = nameless },
		"revision: ":             func(b *sqlite.BlockSet) { b.Revision = "x" },
	} {
		b := setOf(mem(1), m, long, 3, 1, 9)
		change(&b)
		var refused *memory.FieldError
		if _, err := s.PutBlockSets(t.Context(), []sqlite.BlockSet{setOf(mem(1), m, long, 2, 1, 9), b}); !errors.As(err, &refused) || !strings.Contains(err.Error(), field) {
			t.Errorf("want %q refused: %v", field, err)
		}
	}
	// BR-100: the good set before the bad one left nothing behind either.
	if got := rows(t, path, "SELECT (SELECT count(*) FROM block_set) + (SELECT count(*) FROM block_vec) AS n"); got[0] != "n=0" {
		t.Error(got)
	}
}

// TestTextDropsBlocksAndCellsKeepThem: the two triggers, and the vectors' own.
// BR-091, BR-095, BR-096, BR-097, BR-098, BR-101, BR-102, BR-103
func TestTextDropsBlocksAndCellsKeepThem(t *testing.T) {
	ctx := context.Background()
	s, path := openStore(t, sqlite.Options{Clock: fixed})
	m := measured(t, s, 9)
	kept := measured(t, s, 9)
	store(t, s, sqlite.NewMemory{Cell: cell("a", "p", ""), Content: long}, sqlite.NewMemory{Cell: cell("a", "p", ""), Content: "neighbour"})
	if _, err := s.StoreEpisodes(ctx, []sqlite.NewEpisode{{Cell: cell("a", "p", ""), Summary: long}}); err != nil {
		t.Fatal(err)
	}
	sets := []sqlite.BlockSet{setOf(mem(1), m, long, 3, 1, 9), setOf(ep(1), m, long, 4, 9, 9), setOf(mem(1), kept, long, 5, 3, 9), setOf(ep(1), kept, long, 2, 4, 9)}
	counts := func() string {
		return rows(t, path, "SELECT (SELECT count(*) FROM block_set) AS sets, (SELECT count(*) FROM block_vec) AS vectors, (SELECT sum(sets) FROM block_stats) AS counted")[0]
	}
	for _, ref := range []memory.Ref{mem(1), ep(1)} {
		putSets(t, s, sets...)
		if got := counts(); got != "sets=4 vectors=4 counted=4" {
			t.Fatal(got)
		}
		before := codes(t, s, m, 1)
		// An edit of everything but the text, and the same text again, keep the set.
		project := "q"
		if _, err := s.Update(ctx, "a", ref, sqlite.Patch{Content: pointer(long), Project: &project, Time: &memory.Time{Milli: 5, Known: true}}); err != nil {
			t.Fatal(err)
		}
		moved := codes(t, s, m, 2)
		if len(moved) != 1 || len(codes(t, s, m, 1)) != 1 || !slices.Contains(before, strings.Replace(moved[0], "cell 2", "cell 1", 1)) {
			t.Errorf("%s moved from %v to %v", ref, before, moved)
		}
		if got := counts(); got != "sets=4 vectors=4 counted=4" {
			t.Error(got)
		}
		sound(t, s, "missing_vectors")
		if _, err := s.Update(ctx, "a", ref, sqlite.Patch{Content: pointer("another text of " + ref.String())}); err != nil {
			t.Fatal(err)
		}
		if got := counts(); got != "sets=2 vectors=2 counted=2" {
			t.Errorf("after another text of %s: %s", ref, got)
		}
		if written, err := s.PutBlockSets(ctx, sets); err != nil || written[0] == (ref == mem(1)) || written[1] == (ref == ep(1)) {
			t.Errorf("sets of the old text: %v, %v", written, err)
		}
		sound(t, s, "missing_vectors")
		project = "p"
		if _, err := s.Update(ctx, "a", ref, sqlite.Patch{Content: pointer(long), Project: &project}); err != nil {
			t.Fatal(err)
		}
	}
	putSets(t, s, sets...)
	if r, err := s.Delete(ctx, "a", []memory.Ref{mem(1)}); err != nil || r[0].Outcome != sqlite.OutcomeDeleted {
		t.Fatal(r, err)
	}
	if got := counts(); got != "sets=2 vectors=2 counted=2" {
		t.Errorf("after a deletion: %s", got)
	}
	if err := s.SetModelState(ctx, m, sqlite.ModelRetired); err != nil {
		t.Fatal(err)
	}
	if got := counts(); got != "sets=1 vectors=1 counted=1" {
		t.Errorf("after a model's retirement: %s", got)
	}
	if _, err := s.DeleteAgent(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if got := counts(); !strings.HasPrefix(got, "sets=0 vectors=0") {
		t.Errorf("after the agent's deletion: %s", got)
	}
	sound(t, s)
}

// TestOnlyCurrentSetsAreRead: one case for every reason of not being current.
// BR-042, BR-104, BR-107, BR-119, BR-144, BR-150
func TestOnlyCurrentSetsAreRead(t *testing.T) {
	for reason, damage := range map[string]string{
		"text":              "UPDATE block_set SET revision = x'00112233445566778899aabbccddeeff'",
		"splitter":          "UPDATE block_set SET policy = policy + 1",
		"nameless model":    "UPDATE model SET probes = x''",
		"retired model":     "UPDATE model SET state = 'retired'",
		"width of codes":    "UPDATE block_set SET bits = substr(bits, 2)",
		"width of vectors":  "UPDATE block_vec SET value = substr(value, 2)",
		"missing vectors":   "DELETE FROM block_vec",
		"one vector short":  "UPDATE block_vec SET value = substr(value, 10) WHERE id = 1",
		"number of blocks":  "UPDATE block_set SET spans = substr(spans, 3)",
		"record without it": "UPDATE memory SET digest = x'00'",
	} {
		t.Run(reason, func(t *testing.T) {
			s, path := openStore(t, sqlite.Options{Clock: fixed})
			m := measured(t, s, 9)
			store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: long})
			putSets(t, s, setOf(mem(1), m, long, 3, 1, 9))
			if got := codes(t, s, m, 1); len(got) != 1 {
				t.Fatal(got)
			}
			foreign(t, path, damage)
			if got := codes(t, s, m, 1); len(got) != 0 {
				t.Errorf("read all the same: %v", got)
			}
			v := view(t, s)
			defer v.Close()
			if _, ok, err := v.BlockSpans(m, mem(1)); ok || err != nil {
				t.Errorf("quoted all the same, %v", err)
			}
			if got, err := v.BlockValues(m, []sqlite.BlockRow{{Ref: mem(1)}}); err != nil || got[0] != nil {
				t.Errorf("re-ranked all the same, %v", err)
			}
		})
	}
}

// TestBlockChanges: writing and dropping a set is in the change log with its cell
// and model.
// DECISIONS 4
func TestBlockChanges(t *testing.T) {
	ctx := context.Background()
	s, _ := openStore(t, sqlite.Options{Clock: fixed})
	m := measured(t, s, 9)
	store(t, s, sqlite.NewMemory{Cell: cell("a", "p", ""), Content: long}, sqlite.NewMemory{Cell: cell("a", "q", ""), Content: "x"})
	after := view(t, s)
	seq := after.Seq()
	after.Close()
	putSets(t, s, setOf(mem(1), m, long, 3, 1, 9))
	putSets(t, s, setOf(mem(1), m, long, 2, 1, 9))
	if _, err := s.Update(ctx, "a", mem(1), sqlite.Patch{Project: pointer("q")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(ctx, "a", []memory.Ref{mem(1)}); err != nil {
		t.Fatal(err)
	}
	var got []string
	v := view(t, s)
	defer v.Close()
	err := v.Changes(seq, 100, func(c sqlite.Change) error {
		if c.Lineage == 0 {
			t.Error("no lineage")
		}
		got = append(got, fmt.Sprintf("%d %s %d→%d model %d", c.Op, c.Ref, c.OldCell, c.NewCell, c.Model))
		return nil
	})
	want := []string{"6 mem:1 0→1 model 1", "6 mem:1 1→0 model 1", "6 mem:1 0→1 model 1", "3 mem:1 1→2 model 0", "6 mem:1 2→0 model 1", "4 mem:1 2→0 model 0"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

// TestWrongBlocksAreFoundAndDropped: a damaged set is named, dropped whole, and
// its record is looked at again; nothing is mended in place.
// BR-005, BR-093, DECISIONS 8
func TestWrongBlocksAreFoundAndDropped(t *testing.T) {
	for _, c := range []struct{ check, damage, evidence string }{
		{"block_sets", "UPDATE block_set SET cell = 2 WHERE kind = 2", "mem:1 under model 1: they carry another cell"},
		{"block_sets", "UPDATE block_set SET revision = x'00' WHERE kind = 1", "ep:1 under model 1: they are of another text"},
		{"block_sets", "UPDATE block_set SET n = 4 WHERE kind = 1", "ep:1 under model 1: they are counted wrong"},
		{"block_sets", "UPDATE block_set SET unembeddable = 1 WHERE kind = 2", "counted wrong"},
		{"block_sets", "UPDATE block_set SET spans = CAST(substr(spans, 1, 4) || x'0009' AS BLOB) WHERE kind = 2", "they do not cover the text"},
		{"block_sets", "UPDATE block_set SET bits = substr(bits, 2) WHERE kind = 2", "bits: have 5 bytes"},
		{"block_sets", "UPDATE block_vec SET value = zeroblob(27)", "values: of block 0"},
		{"block_sets", "DELETE FROM block_vec", "values: have 0 bytes"},
		{"block_sets", "INSERT INTO block_set SELECT key + 7, cell, policy, revision, n, unembeddable, 99, parts, spans, bits FROM block_set WHERE kind = 2", "mem:8 under model 1: the record is gone"},
		{"block_sets", "INSERT INTO block_set SELECT key + (1 << 41), cell, policy, revision, n, unembeddable, 99, parts, spans, bits FROM block_set WHERE kind = 2", "mem:1 under model 2: the model is gone"},
		{"block_sets", "UPDATE block_set SET vectors = 1", "they share vectors"},
		{"block_stats", "UPDATE block_stats SET blocks = blocks + 1", "cell 1, model 1"},
		{"block_stats", "DELETE FROM block_stats", "cell 1, model 1"},
		{"block_stats", "INSERT INTO block_stats VALUES (9, 1, 1, 1, 0)", "cell 9, model 1"},
		{"block_vectors", "INSERT INTO block_vec VALUES (5, x'00')", "row 5"},
		{"block_tasks", "INSERT INTO block_task (key, cell) VALUES ((1 << 41) | 99, 1)", "record 99"},
		{"block_tasks", "INSERT INTO block_task (key, cell) VALUES ((7 << 41) | 1, 1)", "model 7"},
		{"block_tasks", "INSERT INTO block_task (key, cell) VALUES ((1 << 41) | (1 << 40) | 1, 2)", "record 1"},
	} {
		t.Run(c.check, func(t *testing.T) {
			s, path := openStore(t, sqlite.Options{Clock: fixed})
			ctx := context.Background()
			m := measured(t, s, 9)
			store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: long, Vector: vectorOf(1, 9), Model: m})
			if _, err := s.StoreEpisodes(ctx, []sqlite.NewEpisode{{Cell: cell("a", "", ""), Summary: long, Vector: vectorOf(1, 9), Model: m}}); err != nil {
				t.Fatal(err)
			}
			build(t, s, m, func(rec sqlite.BlockRecord) sqlite.BlockOutcome {
				b := setOf(rec.Ref, m, rec.Text, 3, 1, 9)
				return sqlite.BlockOutcome{Set: &b}
			})
			sound(t, s)
			before := rows(t, path, "SELECT *, hex(content) FROM memory UNION ALL SELECT *, NULL, NULL, NULL, NULL, NULL FROM episode")
			foreign(t, path, c.damage)
			for _, check := range s.Checks() {
				f, err := check.Run(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if check.Name == c.check {
					if f.OK || !strings.Contains(strings.Join(f.Evidence, "\n"), c.evidence) {
						t.Fatalf("%+v, want evidence of %q", f, c.evidence)
					}
				}
				if check.Fix != nil {
					if _, err := check.Fix(ctx); err != nil {
						t.Fatal(err)
					}
				}
			}
			sound(t, s, "foreign_writer")
			build(t, s, m, func(rec sqlite.BlockRecord) sqlite.BlockOutcome {
				b := setOf(rec.Ref, m, rec.Text, 3, 1, 9)
				return sqlite.BlockOutcome{Set: &b}
			})
			if got := codes(t, s, m, 1); len(got) != 2 {
				t.Errorf("built again: %v", got)
			}
			// BR-137: nothing of it touched a record.
			if after := rows(t, path, "SELECT *, hex(content) FROM memory UNION ALL SELECT *, NULL, NULL, NULL, NULL, NULL FROM episode"); !slices.Equal(before, after) {
				t.Errorf("records changed from %v to %v", before, after)
			}
			sound(t, s, "foreign_writer")
		})
	}
}

// build looks at everything that waits.
func build(t testing.TB, s *sqlite.Store, m int64, of func(sqlite.BlockRecord) sqlite.BlockOutcome) (order []string) {
	t.Helper()
	ctx := context.Background()
	if err := s.BeginBlocks(ctx, m); err != nil {
		t.Fatal(err)
	}
	for {
		b, err := s.NextBlocks(ctx, m, 3, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		if b.Empty() {
			return order
		}
		var outcomes []sqlite.BlockOutcome
		for _, rec := range b.Records {
			order = append(order, rec.Ref.String())
			if rec.Current || rec.Damaged {
				outcomes = append(outcomes, sqlite.BlockOutcome{})
				continue
			}
			outcomes = append(outcomes, of(rec))
		}
		if _, err := s.FinishBlocks(ctx, b, outcomes); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMigrationOfARealFile: a file of the first schema is copied, moved, and
// keeps what it had; everything in it waits for blocks then.
// RR-010, BR-109
func TestMigrationOfARealFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recall.db")
	s, err := sqlite.OpenAt(t.Context(), path, 1)
	if err != nil {
		t.Fatal(err)
	}
	store(t, s, sqlite.NewMemory{Cell: cell("a", "", ""), Content: long})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, path, sqlite.Options{Clock: fixed})
	if s.SchemaVersion() != 2 {
		t.Errorf("schema %d", s.SchemaVersion())
	}
	if got := recall(t, s, "a", mem(1)); len(got) != 1 || got[0].Content != long {
		t.Errorf("%+v", got)
	}
	sound(t, s, "copies")
	m := measured(t, s, 9)
	if order := build(t, s, m, func(rec sqlite.BlockRecord) sqlite.BlockOutcome {
		b := setOf(rec.Ref, m, rec.Text, 3, 1, 9)
		return sqlite.BlockOutcome{Set: &b}
	}); !slices.Equal(order, []string{"mem:1"}) || len(codes(t, s, m, 1)) != 1 {
		t.Errorf("looked at %v", order)
	}
	if got := rows(t, path+".before-2", "SELECT count(*) AS n FROM memory"); got[0] != "n=1" {
		t.Error(got)
	}
}
