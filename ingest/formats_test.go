package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"recalld/memory"
	"recalld/sqlite/cpersona/cpersonatest"
)

var rewrite = flag.Bool("rewrite", false, "write the goldens of the formats anew")

// fixtures are the inputs under testdata, each of the true shape of its format.
var fixtures = map[string]string{
	FormatMarkdown:      "testdata/markdown/handbook",
	FormatClaudeCode:    "testdata/claude-code/-home-mia-atlas",
	FormatChatGPT:       "testdata/chatgpt",
	FormatMCPMemory:     "testdata/memory.jsonl",
	FormatCPersonaJSONL: "testdata/cpersona.jsonl",
}

// withDatabase adds a database of the newest schema that holds what the JSONL
// fixture says.
func withDatabase(t testing.TB) map[string]string {
	all := map[string]string{FormatCPersonaDB: cpersonaFile(t, 21)}
	for format, path := range fixtures {
		all[format] = path
	}
	return all
}

// cpersonaFile makes a database of a schema from the lines of the JSONL fixture.
func cpersonaFile(t testing.TB, schema int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cpersona.db")
	db, err := cpersonatest.Create(path, schema)
	if err != nil {
		t.Fatal(err)
	}
	exec := func(sql string, args ...any) {
		if _, err := db.Exec(sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(fixtures[FormatCPersonaJSONL])
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		var x exportLine
		if err := json.Unmarshal(line, &x); err != nil {
			t.Fatal(err)
		}
		r, err := x.row()
		if err != nil {
			t.Fatal(err)
		}
		var vector any
		if len(r.Vector) > 0 {
			vector = r.Vector
		}
		null := func(s string) any {
			if s == "" {
				return nil
			}
			return s
		}
		switch x.Kind {
		case TypeMemory:
			exec(`INSERT INTO memories (id, agent_id, project_id, msg_id, content, source, timestamp, metadata, embedding, channel, recall_count, last_recalled_at, locked, created_at)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, r.ID, r.Agent, r.Project, r.MessageID, r.Content, r.Source, r.Time, r.Metadata, vector, r.Channel, r.Recalls, null(r.Recalled), r.Locked, r.Created)
			if schema >= 18 {
				exec("UPDATE memories SET embedding_model = ? WHERE id = ?", r.Model, r.ID)
			}
		case TypeEpisode:
			exec(`INSERT INTO episodes (id, agent_id, project_id, summary, keywords, embedding, start_time, end_time, resolved, channel, created_at)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, r.ID, r.Agent, r.Project, r.Content, r.Keywords, vector, null(r.Start), null(r.End), r.Resolved, r.Channel, r.Created)
			if schema >= 18 {
				exec("UPDATE episodes SET embedding_model = ? WHERE id = ?", r.Model, r.ID)
			}
		case TypeProfile:
			exec("INSERT INTO profiles (agent_id, user_id, content, updated_at) VALUES (?, ?, ?, ?)", r.Agent, r.UserID, r.Content, r.Updated)
		}
	}
	if schema >= 21 {
		exec("INSERT INTO entities (agent_id, name, normalized, declared_by, created_at) VALUES ('mia', 'Ken', 'ken', 'mia', '')")
		exec("INSERT INTO folders (agent_id, name) VALUES ('mia', 'notes')")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func openFixture(t testing.TB, format, path string) *Reader {
	t.Helper()
	r, err := OpenFile(context.Background(), format, path)
	if err != nil {
		t.Fatal(format, err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// show is all that a reader gives, a line for each item or refusal.
func show(t testing.TB, r *Reader) string {
	var b strings.Builder
	for {
		item, at, err := r.Next()
		var refused *LineError
		switch {
		case errors.Is(err, io.EOF):
			for _, l := range r.Left() {
				fmt.Fprintf(&b, "left: %d %s\n", l.Count, l.What)
			}
			return b.String()
		case errors.As(err, &refused):
			fmt.Fprintf(&b, "%s:%d refused: %s\n", refused.Where, refused.Line, refused.Err)
		case err != nil:
			t.Fatal(err)
		default:
			raw, err := json.Marshal(item)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s:%d %s\n", at.Where, at.Line, raw)
		}
	}
}

// RR-444
func TestFormatsBecomeItems(t *testing.T) {
	for format, path := range withDatabase(t) {
		got := show(t, openFixture(t, format, path))
		golden := filepath.Join("testdata", format+".golden")
		if *rewrite {
			if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s gives (write it anew with -rewrite):\n%s", format, got)
		}
		if again := show(t, openFixture(t, format, path)); again != got {
			t.Errorf("%s: read again it gives\n%s", format, again)
		}
	}
}

// The database and its own export say the same, in every schema that is read; one
// from before the labels does not name the vectors' model.
func TestDatabaseSaysWhatItsExportSays(t *testing.T) {
	items, bad := readAll(t, openFixture(t, FormatCPersonaJSONL, fixtures[FormatCPersonaJSONL]))
	byID := map[string]Item{}
	for _, item := range items {
		if item.Kept != nil {
			byID[fmt.Sprint(item.Type, item.Kept.ID)] = item
		}
	}
	for _, schema := range []int{13, 17, 18, 21} {
		rows, refused := readAll(t, openFixture(t, FormatCPersonaDB, cpersonaFile(t, schema)))
		if len(rows) != len(items) || len(refused) != 0 || len(bad) != 1 {
			t.Fatalf("schema %d: %d items and %v, the export %d and %v", schema, len(rows), refused, len(items), bad)
		}
		for _, row := range rows {
			want := byID[fmt.Sprint(row.Type, row.Kept.ID)]
			if schema < 18 && want.Kept.Model != "" {
				kept := *want.Kept
				kept.Model = ""
				want.Kept = &kept
			}
			if !reflect.DeepEqual(row, want) {
				t.Errorf("schema %d: %+v %+v\nexport     %+v %+v", schema, row, row.Kept, want, want.Kept)
			}
		}
	}
}

func TestUnknownSchemasAreRefused(t *testing.T) {
	for schema, next := range map[int]string{12: "bring", 22: "cpersona-jsonl"} {
		var refused *memory.FieldError
		_, err := OpenFile(context.Background(), FormatCPersonaDB, cpersonaFile(t, schema))
		if !errors.As(err, &refused) || refused.Limit != "13 to 21" || !strings.Contains(refused.Next, next) {
			t.Errorf("schema %d: %v", schema, err)
		}
	}
	var refused *memory.FieldError
	if _, err := OpenFile(context.Background(), FormatCPersonaDB, "testdata/memory.jsonl"); !errors.As(err, &refused) {
		t.Errorf("no SQLite file: %v", err)
	}
}

// A file that another process writes to is read as it was when it was opened.
func TestDatabaseIsReadWhileItIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cpersona.db")
	db, err := cpersonatest.Create(path, 21)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	put := func(from, to int) {
		for i := from; i <= to; i++ {
			if _, err := db.Exec("INSERT INTO memories (agent_id, content, timestamp) VALUES ('mia', ?, '')", fmt.Sprint("note ", i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(1, rowsPage+10)
	r := openFixture(t, FormatCPersonaDB, path)
	if _, _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	put(rowsPage+11, rowsPage+20)
	if _, err := db.Exec("DELETE FROM memories WHERE id > 3 AND id < 100"); err != nil {
		t.Fatal(err)
	}
	items, bad := readAll(t, r)
	if len(items) != rowsPage+9 || len(bad) != 0 {
		t.Errorf("%d items and %v, want the %d of the snapshot", len(items), bad, rowsPage+9)
	}
}

// Detected by what is in it, for every format and for what is none.
func TestDetect(t *testing.T) {
	for format, path := range withDatabase(t) {
		if got, err := Detect(path); got != format || err != nil {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	for path, want := range map[string]string{
		"testdata/chatgpt/conversations.json":                       FormatChatGPT,
		"testdata/claude-code/-home-mia-atlas/0b1c.jsonl":           FormatClaudeCode,
		"testdata/markdown/handbook/deploy.md":                      FormatMarkdown,
		write(t, "a.jsonl", `{"content":"x"}`):                      FormatJSONL,
		write(t, "b.jsonl", "\ufeff\n{\"content\":"):                FormatJSONL,
		write(t, "c.jsonl", ""):                                     FormatJSONL,
		write(t, "d.jsonl", `{"conversation":"c","dia_id":"D1:1"}`): FormatLocomo,
		write(t, "e.txt", "just words"):                             "",
		write(t, "f.json", `[{"a":1}]`):                             "",
		t.TempDir():                                                 "",
	} {
		got, err := Detect(path)
		if got != want || (err == nil) == (want == "") {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// From wherever an interrupted run goes on, nothing of the rest is missing.
func TestEveryPositionCanBeGoneOnFrom(t *testing.T) {
	for format, path := range withDatabase(t) {
		var places []Position
		var texts []string
		r := openFixture(t, format, path)
		for {
			item, at, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			places, texts = append(places, at), append(texts, item.Content+item.Summary)
		}
		for i, at := range places {
			r := openFixture(t, format, path)
			if err := r.SkipTo(at); err != nil {
				t.Fatal(format, err)
			}
			var rest []string
			for {
				item, _, err := r.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				rest = append(rest, item.Content+item.Summary)
			}
			want := texts[i+1:]
			if len(rest) < len(want) || strings.Join(rest[len(rest)-len(want):], "\x00") != strings.Join(want, "\x00") {
				t.Errorf("%s: after %+v come %q, want at least %q", format, at, rest, want)
			}
			if i+1 == len(places) && len(rest) > 0 {
				t.Errorf("%s: after the end come %q", format, rest)
			}
		}
	}
}

func TestACutExportIsSaid(t *testing.T) {
	_, bad := readAll(t, openFixture(t, FormatCPersonaJSONL, "testdata/cut.jsonl"))
	if len(bad) != 1 || bad[0].Line != 4 || !strings.Contains(bad[0].Err, "2 lines of type memory, its header says 7") {
		t.Errorf("bad = %v", bad)
	}
}

func TestDamagedChatExportsAreRefusedWhereTheyAre(t *testing.T) {
	for text, want := range map[string]string{
		`{"title":"no list"}`: "conversation 0",
		`[{"id":"c","mapping":{"a":{"parent":"b"},"b":{"parent":"a"}},"current_node":"a"}]`: "leads in a circle",
		`[{"id":"c","mapping":{}},{"id":`: "conversation 2",
		`[{"id":"c","mapping":{}}`:        "ends in the middle",
		`[{"id":"c","mapping":[]}]`:       "is not of this format",
	} {
		_, bad := readAll(t, openFixture(t, FormatChatGPT, write(t, "conversations.json", text)))
		if len(bad) != 1 || !strings.Contains(bad[0].Where+" "+bad[0].Err, want) {
			t.Errorf("%s: %v, want %q", text, bad, want)
		}
	}
}

// Parts joined are the text, none is longer than a record may be, and each is as
// long as its boundary lets it be.
func TestParts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "会议", "障害", " ", "\n", "\n\n", "word ", "😀"}), 0, 200).Draw(rt, "words")
		text, limit := strings.Join(words, ""), rapid.IntRange(1, 50).Draw(rt, "limit")
		all := parts(text, limit)
		if strings.Join(all, "") != text {
			rt.Fatalf("%q became %q", text, all)
		}
		for i, p := range all {
			if n := memory.Len(p); n > limit || i+1 < len(all) && 2*len(p) < limit/2 {
				rt.Fatalf("part %d of %q has %d code points", i, all, n)
			}
		}
	})
}

func TestALongTextBecomesPartsThatAreStored(t *testing.T) {
	paragraph := strings.Repeat("The pool runs dry. 接続が尽きる。", 200)
	text := "# Log\n\n" + strings.Repeat(paragraph+"\n\n", 12)
	items, bad := readAll(t, openFixture(t, FormatMarkdown, write(t, "log.md", text)))
	if len(bad) != 0 || len(items) < 4 {
		t.Fatalf("%d items, %v", len(items), bad)
	}
	ids := map[string]bool{}
	for i, item := range items {
		if memory.CheckContent("content", item.Content, memory.DefaultMaxContent) != nil || ids[item.MessageID] || !strings.HasSuffix(item.Content, "\n\n") && i+1 < len(items) {
			t.Errorf("part %d: %d code points, id %q", i, memory.Len(item.Content), item.MessageID)
		}
		ids[item.MessageID] = true
		if want := fmt.Sprintf(`{"part":%d,"parts":%d}`, i+1, len(items)); string(item.Metadata) != want {
			t.Errorf("metadata %s, want %s", item.Metadata, want)
		}
	}
}

func TestReadTime(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"2026-03-03T09:00:00+09:00":        "2026-03-03T09:00:00+09:00",
		"2026-03-03T09:00:00.123456+00:00": "2026-03-03T09:00:00.123Z",
		"2026-03-03T09:00:00+0900":         "2026-03-03T09:00:00+09:00",
		"2026-03-03 09:00:00":              "2026-03-03T09:00:00Z",
		"2026-03-03T09:00:00":              "2026-03-03T09:00:00Z",
		"2026-03-03 09:00":                 "2026-03-03T09:00:00Z",
		" 2026-03-03 ":                     "2026-03-03T00:00:00Z",
		"2026/03/03":                       "2026-03-03T00:00:00Z",
		"soon":                             "refused",
		"2026-13-03":                       "refused",
		"1772528400":                       "refused",
	} {
		got, ok := readTime(text)
		if !ok {
			got = "refused"
		}
		if got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	for seconds, want := range map[float64]string{0: "", 1772528400.5: "2026-03-03T09:00:00.500Z", 1e18: "", math.NaN(): "", -1: "1969-12-31T23:59:59Z"} {
		if got := unixTime(seconds); got != want {
			t.Errorf("%v is %q, want %q", seconds, got, want)
		}
	}
}

func TestProjectOfFolder(t *testing.T) {
	for folder, want := range map[string]string{
		"/home/mia/atlas": "atlas", "/home/mia/atlas/": "atlas", "/": "", "": "", ".": "",
		`C:\Users\mia\atlas`: "atlas", "C:": "", "/home/ミア/会議": "会議",
	} {
		if got := ProjectOfFolder(folder); got != want {
			t.Errorf("%q is %q, want %q", folder, got, want)
		}
	}
}

// Whatever a file holds, it becomes items and refusals with places that do not go
// back.
func FuzzFormats(f *testing.F) {
	for _, path := range []string{"testdata/cpersona.jsonl", "testdata/memory.jsonl", "testdata/chatgpt/conversations.json", "testdata/claude-code/-home-mia-atlas/0b1c.jsonl", "testdata/markdown/handbook/deploy.md"} {
		raw, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, input []byte) {
		for _, format := range []string{FormatCPersonaJSONL, FormatMCPMemory, FormatChatGPT, FormatClaudeCode, FormatMarkdown} {
			path := filepath.Join(folder, "fuzzed")
			if err := os.WriteFile(path, input, 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := OpenFile(context.Background(), format, path)
			if err != nil {
				t.Fatal(err)
			}
			last := int64(0)
			for {
				item, at, err := r.Next()
				var refused *LineError
				if errors.Is(err, io.EOF) {
					break
				} else if err != nil && !errors.As(err, &refused) {
					t.Fatal(format, err)
				}
				if at.Offset < last || at.Offset > int64(len(input)) {
					t.Fatalf("%s: offset went from %d to %d of %d bytes", format, last, at.Offset, len(input))
				}
				last = at.Offset
				if err == nil && !json.Valid(orObject(item.Metadata)) {
					t.Fatalf("%s: metadata %q", format, item.Metadata)
				}
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func orObject(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

// What the writer makes of items, its reader makes into the same items again,
// but for what CPersona has no place for.
func TestCPersonaWriterIsUndoneByItsReader(t *testing.T) {
	items := []Item{
		{Type: TypeProfile, UserID: "ken", Content: "喜欢简短的回答。", Kept: &Kept{Updated: "2026-03-07T08:00:00Z"}},
		{Type: TypeEpisode, Project: "atlas", Summary: "障害と対応。", Keywords: []string{"障害", "接続 プール"}, Start: "2026-03-01T00:00:00Z", Resolved: true, Kept: &Kept{ID: 2, Created: "2026-03-02T00:00:00Z"}},
		{Type: TypeEpisode, Summary: "The move.", Keywords: []string{"move", "db-7"}, Kept: &Kept{ID: 4, Created: "2026-03-02T00:00:00Z", Vector: "AAAAAAAAgD8="}},
		{Type: TypeMemory, Channel: "ops", Content: "<b>The staging database</b> moved.", MessageID: "m-1", Time: "2026-03-03T09:00:00+09:00", Locked: true,
			Source: memory.Source{Type: "User", ID: "ken"}, Metadata: json.RawMessage(`{"topic":"ops"}`), Kept: &Kept{ID: 3, Created: "2026-03-03T00:00:01Z", Recalls: 4, Recalled: "2026-11-29T10:00:00Z", Vector: "AACAPwAAAAA=", Model: "tiny"}},
		{Type: TypeMemory, Content: "undated", Kept: &Kept{ID: 7, Created: "2026-03-03T00:00:01Z"}},
		{Type: TypeMemory, Content: "40", MessageID: "pool", Kept: &Kept{ID: 8, Created: "2026-03-03T00:00:01Z", Superseded: true}},
		{Type: TypeMemory, Content: "60", MessageID: "pool", OnConflict: "version", Version: 2, Time: "2026-03-04T00:00:00Z", Kept: &Kept{ID: 9, Created: "2026-03-03T00:00:02Z"}},
		{Type: TypeMemory, Content: "odd", Metadata: json.RawMessage(`{"cpersona_metadata":"not json","cpersona_source":{"room":"蓝"},"cpersona_timestamp":"soon"}`), Kept: &Kept{ID: 10, Created: "2026-03-03T00:00:02Z"}},
	}
	w := NewCPersonaWriter("mia", fixedTime())
	defer w.Close()
	for _, item := range items {
		if err := w.Write(item); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := w.Finish(&out); err != nil {
		t.Fatal(err)
	}
	got, bad := readAll(t, openFixture(t, FormatCPersonaJSONL, write(t, "out.jsonl", out.String())))
	if len(bad) != 0 || len(got) != len(items) {
		t.Fatalf("%d items, %v\n%s", len(got), bad, out.String())
	}
	for i := range items {
		want := items[i]
		want.Agent = "mia"
		kept := *want.Kept
		if kept.Superseded {
			kept.Superseded = false
			want.OnConflict, want.Version = "version", 1
		}
		want.Kept = &kept
		a, _ := json.Marshal(want)
		b, _ := json.Marshal(got[i])
		if string(a) != string(b) {
			t.Errorf("item %d\n     %s\nwant %s", i, b, a)
		}
	}
}
