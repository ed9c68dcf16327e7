//go:build extended

package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
	more   []string // of its environment
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
	cmd.Env = append(cmd.Env, c.more...)
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
