//go:build extended

package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"recalld/coordinator"
	"recalld/embed"
	"recalld/ingest"
)

// cpersonaPackage is the real package on one database file, with the built-in
// model behind its embedding URL.
type cpersonaPackage struct {
	t      *testing.T
	python string
	path   string
	url    string
}

// newCPersona makes an empty file of the package.
func newCPersona(t *testing.T, url string) *cpersonaPackage {
	t.Helper()
	folder := os.Getenv("RECALLD_CPERSONA_VENV")
	if !filepath.IsAbs(folder) {
		t.Fatal("this test needs the package cpersona: run `bench/servers/cpersona.sh FOLDER`, then `RECALLD_CPERSONA_VENV=FOLDER make test-extended`, FOLDER being absolute")
	}
	c := &cpersonaPackage{t: t, python: filepath.Join(folder, "bin", "python"), path: filepath.Join(t.TempDir(), "cpersona.db"), url: url}
	c.do("init", map[string]any{}, nil)
	return c
}

func (c *cpersonaPackage) do(command string, request, answer any) {
	c.t.Helper()
	raw, err := json.Marshal(request)
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(c.python, "-B", "testdata/drive_cpersona.py", command)
	cmd.Stdin = bytes.NewReader(raw)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	cmd.Env = append(os.Environ(), "CPERSONA_DB_PATH="+c.path, "CPERSONA_EMBEDDING_MODE=http", "CPERSONA_EMBEDDING_URL="+c.url+"/embed", "CPERSONA_AUTO_CALIBRATE=false")
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("cpersona %s: %v\n%s", command, err, problems.String())
	}
	if answer == nil {
		return
	}
	if err := json.Unmarshal(out, answer); err != nil {
		c.t.Fatalf("cpersona %s: %v\n%.400s", command, err, out)
	}
}

// embedServer answers as CPersona's embedding server does, with the built-in model.
func embedServer(t *testing.T) string {
	t.Helper()
	model, err := embed.Open(embed.Config{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Texts []string `json:"texts"`
		}
		if r.URL.Path != "/embed" || json.NewDecoder(r.Body).Decode(&asked) != nil {
			http.NotFound(w, r)
			return
		}
		vectors, err := model.Embed(r.Context(), embed.Document, asked.Texts)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"embeddings": vectors})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// recalldDo runs one command line in this process and returns what it printed.
func recalldDo(t *testing.T, args ...string) string {
	t.Helper()
	var out, problems bytes.Buffer
	if code := run(args, strings.NewReader(""), &out, &problems); code != 0 {
		t.Fatalf("recalld %s: exit code %d\n%s%s", strings.Join(args, " "), code, out.String(), problems.String())
	}
	return out.String()
}

func importReport(t *testing.T, args ...string) (r ingest.Report) {
	t.Helper()
	if err := json.Unmarshal([]byte(recalldDo(t, append([]string{"import", "--json"}, args...)...)), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Both of CPersona's formats, written by the package itself, come in with their
// numbers and vectors; and what goes back comes in there.
func TestTheRealPackageAndBack(t *testing.T) {
	url := embedServer(t)
	c := newCPersona(t, url)
	message := func(id, text, source string) map[string]any {
		return map[string]any{"id": id, "content": text, "timestamp": "2026-03-03T09:00:00+09:00", "source": map[string]string{"type": "User", "id": source, "name": "Ken"}, "metadata": map[string]string{"topic": "ops"}}
	}
	var ids []int64
	c.do("store", map[string]any{
		"memories": []map[string]any{
			{"agent": "mia", "project": "atlas", "message": message("m-1", "The staging database moved to db-7.", "standup-14")},
			{"agent": "mia", "message": message("m-2", "障害の原因は接続プールの枯渇だった。", "inc-12")},
			{"agent": "lin", "channel": "ops", "message": message("", "会议改到星期三。", "chat-1")},
		},
		"episodes": []map[string]any{{"agent": "mia", "summary": "The move took four minutes.", "keywords": "move db-7", "resolved": true}},
		"profiles": []map[string]any{{"agent": "mia", "content": "Prefers short answers."}},
		"lock":     []int{1},
	}, &ids)
	folder := t.TempDir()
	embedding := []string{"--embed-backend", "embed", "--embed-url", url}
	at := func(name string) []string {
		return append([]string{"--data", filepath.Join(folder, name)}, embedding...)
	}
	check := func(name string, r ingest.Report, vectors int) {
		t.Helper()
		if r.Stored != 5 || r.Rejected != 0 || r.IDs == nil || r.IDs.Kept != 4 || r.IDs.Renumbered != 0 || len(r.Vectors) != 1 || r.Vectors[0].Kept != vectors {
			t.Errorf("%s: %+v, numbers %+v", name, r, r.IDs)
		}
	}
	check("dry run", importReport(t, append(at("db"), "--dry-run", c.path)...), 4)
	check("database", importReport(t, append(at("db"), c.path)...), 4)
	if r := importReport(t, append(at("db"), c.path)...); r.Skipped != 5 {
		t.Errorf("again: %+v", r)
	}
	export := filepath.Join(folder, "all.jsonl")
	c.do("export", map[string]any{"agent": "", "path": export}, nil)
	check("export", importReport(t, append(at("jsonl"), export)...), 4)
	for _, agent := range []string{"mia", "lin"} {
		a, b := recalldDo(t, append([]string{"export", "--kept", "--agent", agent}, at("db")...)...), recalldDo(t, append([]string{"export", "--kept", "--agent", agent}, at("jsonl")...)...)
		if a != b {
			t.Errorf("%s: from the database\n%s\nfrom its export\n%s", agent, a, b)
		}
	}
	// The way back, into an empty file, and from there once more.
	back := newCPersona(t, url)
	for _, agent := range []string{"mia", "lin"} {
		file := filepath.Join(folder, agent+".jsonl")
		recalldDo(t, append([]string{"export", "--to", "cpersona", "--agent", agent, file}, at("db")...)...)
		var preview, answer struct {
			OK       bool     `json:"ok"`
			Memories int      `json:"imported_memories"`
			Episodes int      `json:"imported_episodes"`
			Errors   []string `json:"errors"`
		}
		back.do("import", map[string]any{"path": file, "dry_run": true}, &preview)
		back.do("import", map[string]any{"path": file}, &answer)
		if !answer.OK || len(answer.Errors) > 0 || answer.Memories+answer.Episodes == 0 || preview.Memories != answer.Memories {
			t.Errorf("%s: the package says %+v", agent, answer)
		}
	}
	importReport(t, append(at("back"), back.path)...)
	for _, agent := range []string{"mia", "lin"} {
		a, b := recalldDo(t, append([]string{"export", "--agent", agent}, at("db")...)...), recalldDo(t, append([]string{"export", "--agent", agent}, at("back")...)...)
		if a != b {
			t.Errorf("%s: sent\n%s\ncame back\n%s", agent, a, b)
		}
	}
	var recalled [][]string
	back.do("recall", map[string]any{"agent": "mia", "queries": []string{"where is the staging database?"}}, &recalled)
	if len(recalled) != 1 || !slices.Contains(recalled[0], "The staging database moved to db-7.") {
		t.Errorf("the package recalls %v", recalled)
	}
}

// scaleRows is how many records the large file has.
const scaleRows = 100_000

// A large file of the package's own schema: how long it takes until everything is
// searched, and how the top tens differ. Durations are logged, never asserted.
func TestCPersonaAtScale(t *testing.T) {
	url := embedServer(t)
	c := newCPersona(t, url)
	texts := fillCPersona(t, c.path, scaleRows)
	info, _ := os.Stat(c.path)
	data := filepath.Join(t.TempDir(), "data")
	flags := []string{"--data", data, "--embed-backend", "embed", "--embed-url", url}
	began := time.Now()
	r := importReport(t, append(slices.Clone(flags), c.path)...)
	took := time.Since(began)
	if r.Stored != scaleRows || len(r.Vectors) != 1 || r.Vectors[0].Kept != scaleRows {
		t.Fatalf("%+v, vectors %+v", r, r.Vectors)
	}
	ask := func(query string, more ...string) (answer coordinator.RecallResponse) {
		args := append(append([]string{"recall", "--json", "--agent", "scale", "--full", "--gate", "off", query}, flags...), more...)
		if err := json.Unmarshal([]byte(recalldDo(t, args...)), &answer); err != nil {
			t.Fatal(err)
		}
		return answer
	}
	first := ask(texts[0])
	searchable := time.Since(began)
	if !first.Coverage.Full {
		t.Errorf("coverage %+v", first.Coverage)
	}
	t.Logf("%d records, a file of %.1f MB: imported in %.1f s, the first answer, of all records, after %.1f s", scaleRows, float64(info.Size())/1e6, took.Seconds(), searchable.Seconds())
	queries := scaleQueries(50)
	var theirs [][]string
	c.do("recall", map[string]any{"agent": "scale", "queries": queries, "limit": 10}, &theirs)
	for _, setting := range []struct {
		name string
		more []string
	}{
		{"as it comes", nil},
		{"its fusion", []string{"--fusion", "rrf"}},
		{"its words and fusion", []string{"--lexical", "fts", "--fusion", "rrf"}},
	} {
		same, together, shown := 0, 0, 0
		for i, query := range queries {
			var ours []string
			for _, row := range ask(query, setting.more...).Rows {
				ours = append(ours, row.Content)
			}
			left := without(theirs[i], ours)
			together += len(theirs[i]) - len(left)
			shown += len(theirs[i])
			if len(left) == 0 {
				same++
			}
			if i < 6 {
				t.Logf("%q, %s\n  only theirs: %q\n  only ours:   %q", query, setting.name, left, without(ours, theirs[i]))
			}
		}
		t.Logf("%s: of %d queries %d top tens are equal as sets, %d of their %d rows are in ours", setting.name, len(queries), same, together, shown)
	}
}

func without(all, others []string) (left []string) {
	for _, text := range all {
		if !slices.Contains(others, text) {
			left = append(left, text)
		}
	}
	return left
}

var (
	scalePeople = strings.Fields("Mia Ken Lin Aoi Bo Carla Dev Emi Farid Gus Hana Ivo 健太 美咲 王芳 李雷")
	scaleThings = []string{"the staging database", "the billing report", "the release branch", "the login page", "the search index", "the backup job", "the office plant", "the train ticket",
		"接続プール", "週次レビュー", "障害報告", "数据库迁移", "会议记录", "发布计划"}
	scaleDeeds  = []string{"moved", "fixed", "forgot", "reviewed", "postponed", "paid for", "measured", "renamed", "を直した", "を延期した", "改了", "检查了"}
	scalePlaces = []string{"in Kyoto", "on Tuesday", "before lunch", "at the standup", "in the harbour office", "last spring", "火曜日に", "在北京", "星期三"}
)

func scaleText(i int) string {
	return fmt.Sprintf("%s %s %s %s, note %d.", scalePeople[i%len(scalePeople)], scaleDeeds[i/7%len(scaleDeeds)], scaleThings[i/3%len(scaleThings)], scalePlaces[i/11%len(scalePlaces)], i)
}

func scaleQueries(n int) (queries []string) {
	r := rand.New(rand.NewSource(11))
	for i := range n {
		thing, who := scaleThings[r.Intn(len(scaleThings))], scalePeople[r.Intn(len(scalePeople))]
		switch i % 3 {
		case 0:
			queries = append(queries, fmt.Sprintf("what did %s do with %s?", who, thing))
		case 1:
			queries = append(queries, fmt.Sprintf("%s %s", thing, scalePlaces[r.Intn(len(scalePlaces))]))
		default:
			queries = append(queries, fmt.Sprintf("note %d", r.Intn(scaleRows)))
		}
	}
	return queries
}

// fillCPersona writes n records with their vectors into the package's own tables.
func fillCPersona(t *testing.T, path string, n int) (texts []string) {
	t.Helper()
	model, err := embed.Open(embed.Config{})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", path+"?_synchronous=OFF")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	insert, err := tx.Prepare("INSERT INTO memories (agent_id, content, source, timestamp, embedding) VALUES ('scale', ?, ?, ?, ?)")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := 0; i < n; i += 1000 {
		batch := make([]string, min(1000, n-i))
		for j := range batch {
			batch[j] = scaleText(i + j)
		}
		vectors, err := model.Embed(context.Background(), embed.Document, batch)
		if err != nil {
			t.Fatal(err)
		}
		for j, text := range batch {
			blob := make([]byte, 0, 4*len(vectors[j]))
			for _, x := range vectors[j] {
				blob = binary.LittleEndian.AppendUint32(blob, math.Float32bits(x))
			}
			source := fmt.Sprintf(`{"type": "User", "id": "session-%d", "name": "Ken"}`, (i+j)/20)
			if _, err := insert.Exec(text, source, start.Add(time.Duration(i+j)*time.Minute).Format(time.RFC3339), blob); err != nil {
				t.Fatal(err)
			}
		}
		texts = append(texts, batch...)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	return texts
}
