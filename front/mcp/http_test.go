package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recalld/access"
	"recalld/coordinator"
	"recalld/front/guard"
)

// grants are two clients: one of mia's memory, one that may read everybody's but
// ken's.
const grants = `{"clients":[
	{"name":"writer","token":"writer-token-0123456789","agents":{"mia":"read-write"}},
	{"name":"reader","token":"reader-token-0123456789","agents":{"*":"read","ken":"none"}}]}`

// overHTTP serves MCP behind the guard and returns where.
func overHTTP(t *testing.T, service coordinator.Service) string { return overHTTPWith(t, service, nil) }

// overHTTPWith also has folders for files.
func overHTTPWith(t *testing.T, service coordinator.Service, files *guard.Folders) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "grants.json")
	if err := os.WriteFile(file, []byte(grants), 0o600); err != nil {
		t.Fatal(err)
	}
	live, _, err := access.Open(file, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := Handler(guard.Service(service, nil), Options{All: true, Files: files, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	guarded, err := guard.New(handler, guard.Options{Grants: live.Grants})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(guarded)
	t.Cleanup(server.Close)
	return server.URL
}

// bearer adds a token to every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func clientAt(t *testing.T, url, token string) *sdk.ClientSession {
	t.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(token)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// A client over HTTP lists and calls, and does what its grants say and no more;
// an agent that it may not see is like one that is not there.
func TestGrantsHoldOverHTTP(t *testing.T) {
	service := whole(t)
	url := overHTTP(t, service)
	writer, reader := clientAt(t, url, "writer-token-0123456789"), clientAt(t, url, "reader-token-0123456789")
	if got := len(tools(t, writer)); got != len(usual())+len(further()) {
		t.Errorf("%d tools", got)
	}
	if _, err := service.Store(t.Context(), coordinator.StoreRequest{Agent: "ken", Items: []coordinator.StoreItem{{Content: "Ken's own 会議"}}}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		session         *sdk.ClientSession
		tool, arguments string
		denied          bool
	}{
		{writer, "store", `{"agent_id":"mia","content":"会議は木曜の三時から。"}`, false},
		{writer, "recall", `{"agent_id":"mia","query":"会議"}`, false},
		{writer, "recall", `{"agent_id":"ken","query":"会議"}`, true},
		{writer, "store", `{"agent_id":"ken","content":"planted"}`, true},
		{writer, "delete_agent_data", `{"agent_id":"ken"}`, true},
		{writer, "merge_memories", `{"source_agent_id":"ken","target_agent_id":"mia"}`, true},
		{writer, "merge_memories", `{"source_agent_id":"mia","target_agent_id":"ken"}`, true},
		{writer, "check_health", `{}`, true},
		{writer, "pause_persistence", `{"agent_id":"ken"}`, true},
		{writer, "get_operating_context", `{}`, false},
		{reader, "recall", `{"agent_id":"mia","query":"会議"}`, false},
		{reader, "get_contents", `{"agent_id":"mia","refs":["mem:1"]}`, false},
		{reader, "store", `{"agent_id":"mia","content":"x"}`, true},
		{reader, "update_memory", `{"agent_id":"mia","memory_id":2,"content":"x"}`, true},
		{reader, "recall", `{"agent_id":"ken","query":"会議"}`, true},
		{reader, "deep_check", `{"agent_id":"mia"}`, false},
		{reader, "get_queue_status", `{}`, false},
		{reader, "pause_persistence", `{"agent_id":"mia"}`, true},
		{reader, "merge_memories", `{"source_agent_id":"mia","target_agent_id":"new"}`, true},
	} {
		answer, failed := call(t, test.session, test.tool, json.RawMessage(test.arguments))
		if failed != test.denied || test.denied && !strings.Contains(answer["error"].(string), "denied") {
			t.Errorf("%s %s: %v", test.tool, test.arguments, answer)
		}
	}
	known, _ := call(t, writer, "recall", map[string]any{"agent_id": "ken", "query": "x"})
	unknown, _ := call(t, writer, "recall", map[string]any{"agent_id": "zoe", "query": "x"})
	if strings.ReplaceAll(canonical(t, known), "ken", "zoe") != canonical(t, unknown) {
		t.Errorf("an agent that is there answers %v, one that is not %v", known, unknown)
	}
}

// A client that is denied learns nothing of the folder for files: no name, and no
// line of a dry run.
func TestDeniedClientsSeeNoFiles(t *testing.T) {
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "ken.jsonl"), []byte(`{"type":"memory","secret":"会議"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := guard.OpenFolders(t.TempDir(), []string{folder})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = files.Close() })
	url := overHTTPWith(t, whole(t), files)
	writer, reader := clientAt(t, url, "writer-token-0123456789"), clientAt(t, url, "reader-token-0123456789")
	for _, test := range []struct {
		session         *sdk.ClientSession
		tool, arguments string
	}{
		{writer, "import_memories", `{"input_path":"ken.jsonl","target_agent_id":"ken","dry_run":true}`},
		{reader, "import_memories", `{"input_path":"ken.jsonl","target_agent_id":"mia","dry_run":true}`},
		{writer, "import_memories", `{"input_path":"other.jsonl","target_agent_id":"ken"}`},
		{writer, "export_memories", `{"output_path":"ken.jsonl","agent_id":"ken"}`},
		{reader, "export_memories", `{"output_path":"new.jsonl","agent_id":"ken"}`},
	} {
		answer, failed := call(t, test.session, test.tool, json.RawMessage(test.arguments))
		if text := canonical(t, answer); !failed || !strings.Contains(text, "denied") || strings.Contains(text, "jsonl") || strings.Contains(text, "secret") {
			t.Errorf("%s %s: %s", test.tool, test.arguments, text)
		}
	}
	if answer, failed := call(t, writer, "import_memories", json.RawMessage(`{"input_path":"ken.jsonl","target_agent_id":"mia","dry_run":true}`)); failed || answer["rejected"] != 1.0 {
		t.Errorf("who may store: %v", answer)
	}
}

// post sends one JSON-RPC message and returns the answer.
func post(t *testing.T, url, token, version, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	if version != "" {
		request.Header.Set("MCP-Protocol-Version", version)
		var named struct{ Method string }
		if err := json.Unmarshal([]byte(body), &named); err == nil && version >= "2026-07-28" {
			request.Header.Set("Mcp-Method", named.Method)
		}
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(bytes.TrimSpace(text))
}

// The versions of the protocol that clients may speak, over HTTP and on standard
// input: the newest by discovery, the others by their handshake.
func TestProtocolVersions(t *testing.T) {
	want := []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}
	if got := sdk.SupportedProtocolVersions(); !slices.Equal(got, want) {
		t.Errorf("the SDK speaks %v", got)
	}
	url := overHTTP(t, &recorder{})
	const token = "writer-token-0123456789"
	for _, version := range want[1:] {
		hello := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
		if status, text := post(t, url, token, "", hello); status != http.StatusOK || !strings.Contains(text, `"protocolVersion":"`+version+`"`) {
			t.Errorf("%s over HTTP: %d %s", version, status, text)
		}
		if status, text := post(t, url, token, version, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); status != http.StatusOK || !strings.Contains(text, `"name":"recall"`) {
			t.Errorf("%s over HTTP: %d %.300s", version, status, text)
		}
		lines := session(t, &recorder{}, strings.NewReader(hello+"\n"))
		if len(lines) != 1 || !strings.Contains(lines[0], `"protocolVersion":"`+version+`"`) {
			t.Errorf("%s on standard input: %v", version, lines)
		}
	}
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	discover := `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + meta + `}}`
	if status, text := post(t, url, token, "2026-07-28", discover); status != http.StatusOK || !strings.Contains(text, `"supportedVersions":["2026-07-28",`) || !strings.Contains(text, "Long-term memory") {
		t.Errorf("2026-07-28 over HTTP: %d %s", status, text)
	}
	if status, text := post(t, url, token, "2026-07-28", `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{`+meta+`}}`); status != http.StatusOK || !strings.Contains(text, `"name":"recall"`) {
		t.Errorf("2026-07-28 over HTTP: %d %.300s", status, text)
	}
	if lines := session(t, &recorder{}, strings.NewReader(discover+"\n")); len(lines) != 1 || !strings.Contains(lines[0], `"supportedVersions":["2026-07-28",`) {
		t.Errorf("2026-07-28 on standard input: %v", lines)
	}
}

// Nothing is answered without a token, to a foreign page, or at a foreign name;
// nothing is kept between requests.
func TestHTTPIsGuarded(t *testing.T) {
	url := overHTTP(t, &recorder{})
	const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	for _, token := range []string{"", "wrong-token-0123456789"} {
		if status, text := post(t, url, token, "", list); status != http.StatusUnauthorized || strings.Contains(text, "recall_with_context") {
			t.Errorf("token %q: %d %.200s", token, status, text)
		}
	}
	if status, _ := post(t, url, "writer-token-0123456789", "", `{"jsonrpc":"2.0","id":2,"method":"ping","params":{"x":"`+strings.Repeat("x", MaxFrame)+`"}}`); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a long body: %d", status)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer writer-token-0123456789")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusMethodNotAllowed || answer.Header.Get("Mcp-Session-Id") != "" {
		t.Errorf("a stream of a session: %s %v", answer.Status, answer.Header)
	}
}

// A client that leaves ends its call, whichever version it speaks.
func TestLeavingClientCancels(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},`
	for version, extra := range map[string]string{"2025-06-18": "", "2026-07-28": meta} {
		service := &waiting{entered: make(chan struct{}), left: make(chan struct{})}
		url := overHTTP(t, service)
		ctx, leave := context.WithCancel(t.Context())
		body := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{` + extra + `"name":"recall","arguments":{"agent_id":"mia","query":"x"}}}`
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer writer-token-0123456789",
			"MCP-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": "recall",
		} {
			request.Header.Set(name, value)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if answer, err := http.DefaultClient.Do(request); err == nil {
				answer.Body.Close()
			}
		}()
		for _, step := range []struct {
			name string
			done <-chan struct{}
			then func()
		}{{"the call arrives", service.entered, leave}, {"the call ends", service.left, func() {}}} {
			select {
			case <-step.done:
				step.then()
			case <-time.After(20 * time.Second):
				t.Fatalf("%s: it does not come that %s", version, step.name)
			}
		}
		<-ended
	}
}

// waiting answers a recall when its caller has left.
type waiting struct {
	recorder
	entered, left chan struct{}
}

func (w *waiting) Recall(ctx context.Context, _ coordinator.RecallRequest) (*coordinator.RecallResponse, error) {
	close(w.entered)
	<-ctx.Done()
	close(w.left)
	return nil, ctx.Err()
}
