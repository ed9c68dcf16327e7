package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"recalld/access"
	"recalld/coordinator"
	"recalld/front/guard"
	pb "recalld/proto/recalld/v1"
	"recalld/proto/recalld/v1/recalldv1connect"
)

const (
	miaToken = "token-of-mia-0123456789"
	opsToken = "token-of-ops-0123456789"
)

// overTCP serves the service behind a guard on loopback until the test ends:
// mia's client may write mia's memory, ops may read everything.
func overTCP(t testing.TB, service coordinator.Service, log *slog.Logger) (url string, m *Metrics) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "grants.json")
	text := `{"clients": [
		{"name": "mia's", "token": "` + miaToken + `", "agents": {"mia": "read-write"}},
		{"name": "ops", "token": "` + opsToken + `", "agents": {"*": "read", "蓮": "none"}}
	]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	grants, _, err := access.ReadFile(path, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	m = NewMetrics(service, time.Now)
	server := NewServer(guard.Service(service, nil), Options{Log: log, Health: service, Metrics: m})
	guarded, err := guard.New(server, guard.Options{Grants: func() *access.Grants { return grants }, Refused: m.Refused, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- guard.Serve(ctx, l, guarded, log) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return "http://" + l.Addr().String(), m
}

// post makes one call as curl would.
func post(t testing.TB, url, token, call string, body io.Reader, headers ...string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", url+"/recalld.v1.MemoryService/"+call, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// withToken sets the header of every call.
func withToken(token string) connect.ClientOption {
	return connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			r.Header().Set("Authorization", "Bearer "+token)
			return next(ctx, r)
		}
	}))
}

// Connect, gRPC, gRPC-Web and JSON clients come in over TCP with a token, and
// without one each hears so in its own protocol.
func TestProtocolsOverTCP(t *testing.T) {
	url, _ := overTCP(t, &scripted{recall: func(_ context.Context, r coordinator.RecallRequest) (*coordinator.RecallResponse, error) {
		return &coordinator.RecallResponse{Order: r.Query}, nil
	}}, nil)
	for name, options := range map[string][]connect.ClientOption{"connect": nil, "grpc": {connect.WithGRPC()}, "grpc-web": {connect.WithGRPCWeb()}, "json": {connect.WithProtoJSON()}} {
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetUnencryptedHTTP2(true)
		if name != "grpc" {
			transport.Protocols.SetHTTP1(true)
			transport.Protocols.SetUnencryptedHTTP2(false)
		}
		h := &http.Client{Transport: transport}
		calls := recalldv1connect.NewMemoryServiceClient(h, url, append(options, withToken(miaToken))...)
		if out, err := calls.Recall(t.Context(), &pb.RecallRequest{Agent: "mia", Query: "会議"}); err != nil || out.GetOrder() != "会議" {
			t.Errorf("%s: %v, %v", name, out, err)
		}
		if _, err := calls.Recall(t.Context(), &pb.RecallRequest{Agent: "bob"}); connect.CodeOf(err) != connect.CodePermissionDenied || !errors.Is(restore(t.Context(), err), access.ErrDenied) {
			t.Errorf("%s, another agent: %v", name, err)
		}
		calls = recalldv1connect.NewMemoryServiceClient(h, url, options...)
		if _, err := calls.Recall(t.Context(), &pb.RecallRequest{Agent: "mia"}); connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("%s without a token: %v", name, err)
		}
		transport.CloseIdleConnections()
	}
}

// The header with a call's time limit is a deadline of the service, and a client
// that goes away ends the call.
func TestDeadlineAndCancellationOverTCP(t *testing.T) {
	ended := make(chan error, 1)
	entered := make(chan struct{}, 1)
	url, _ := overTCP(t, &scripted{recall: func(ctx context.Context, _ coordinator.RecallRequest) (*coordinator.RecallResponse, error) {
		entered <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}}, nil)
	status, body := post(t, url, miaToken, "Recall", strings.NewReader(`{"agent":"mia"}`), "Connect-Timeout-Ms", "30", "Connect-Protocol-Version", "1")
	if err := <-ended; !errors.Is(err, context.DeadlineExceeded) || status != http.StatusGatewayTimeout || !strings.Contains(body, "deadline_exceeded") {
		t.Errorf("%d %s, the service saw %v", status, body, err)
	}
	<-entered
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", url+recalldv1connect.MemoryServiceRecallProcedure, strings.NewReader(`{"agent":"mia"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+miaToken)
	gone := make(chan error, 1)
	go func() {
		response, err := http.DefaultClient.Do(r)
		if err == nil {
			err = response.Body.Close()
		}
		gone <- err
	}()
	<-entered
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the service saw %v", err)
	}
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the client saw %v", err)
	}
}

// What a client without a grant hears about an agent is the same whether the
// agent has memories or not, in every call.
func TestForeignAgentLooksLikeNone(t *testing.T) {
	service := whole(t)
	answers := func() (all string) {
		url, _ := overTCP(t, service, nil)
		for _, use := range []struct{ call, body string }{
			{"Recall", `{"agent":"蓮","query":"東京"}`}, {"GetContents", `{"agent":"蓮","refs":["mem:1"]}`}, {"List", `{"agent":"蓮"}`}, {"Profiles", `{"agent":"蓮"}`},
			{"Store", `{"agent":"蓮","items":[{"content":"東京"}]}`}, {"Delete", `{"agent":"蓮","refs":["mem:1"]}`}, {"Update", `{"agent":"蓮","ref":"mem:1","content":"x"}`},
			{"Lock", `{"agent":"蓮","refs":["mem:1"],"locked":true}`}, {"Paused", `{"agent":"蓮"}`}, {"Merge", `{"source":"蓮","target":"mia"}`}, {"Merge", `{"source":"mia","target":"蓮"}`},
			{"GetContents", `{"agent":"mia","refs":["mem:1"]}`}, {"Delete", `{"agent":"mia","refs":["mem:1"]}`},
		} {
			for _, token := range []string{miaToken, opsToken} {
				status, body := post(t, url, token, use.call, strings.NewReader(use.body))
				// protojson spaces its output as it likes.
				all += fmt.Sprintln(use.call, status, strings.ReplaceAll(body, " ", ""))
			}
		}
		return all
	}
	before := answers()
	if _, err := service.Store(t.Context(), coordinator.StoreRequest{Agent: "蓮", Items: []coordinator.StoreItem{{Content: "東京の会議は火曜"}, {Type: "profile", UserID: "u", Content: "技術者"}}}); err != nil {
		t.Fatal(err)
	}
	if after := answers(); after != before {
		t.Errorf("before the agent was there\n%s\nafterwards\n%s", before, after)
	}
	if strings.Count(before, "permission_denied") != 23 {
		t.Errorf("not all were denied:\n%s", before)
	}
	if page, err := service.List(t.Context(), coordinator.ListRequest{Agent: "蓮"}); err != nil || len(page.Rows) != 1 || page.Rows[0].Locked {
		t.Errorf("the record is %+v, %v", page, err)
	}
}

// Items of a store cannot name another agent than the one that was granted.
func TestStoreForAnotherAgentInside(t *testing.T) {
	service := whole(t)
	url, _ := overTCP(t, service, nil)
	status, body := post(t, url, miaToken, "Store", strings.NewReader(`{"agent":"mia","items":[{"content":"x","agent":"bob"}]}`))
	if status != 200 || !strings.Contains(body, "rejected") {
		t.Errorf("%d %s", status, body)
	}
	if page, err := service.List(t.Context(), coordinator.ListRequest{Agent: "bob"}); err != nil || len(page.Rows) != 0 {
		t.Errorf("%+v, %v", page, err)
	}
}

// Large, compressed and many-membered requests end at their bounds over TCP as
// they do over the socket.
func TestBoundsOverTCP(t *testing.T) {
	url, _ := overTCP(t, &scripted{}, nil)
	var bomb bytes.Buffer
	zipped := gzip.NewWriter(&bomb)
	for range 64 {
		_, _ = zipped.Write(bytes.Repeat([]byte(" "), 1<<20))
	}
	_ = zipped.Close()
	for _, test := range []struct {
		name, call string
		body       io.Reader
		headers    []string
		status     int
		want       string
	}{
		{"known length", "Recall", bytes.NewReader(make([]byte, guard.MaxBody+1)), nil, 413, "limit: 16842752"},
		{"a gzip bomb", "Recall", bytes.NewReader(bomb.Bytes()), []string{"Content-Encoding", "gzip"}, 429, "16777216"},
		{"unknown compression", "Recall", strings.NewReader("x"), []string{"Content-Encoding", "br"}, 501, "unknown compression"},
		{"two-byte items", "Store", bytes.NewReader(bytes.Repeat([]byte{0x12, 0}, 1<<20)), []string{"Content-Type", "application/proto"}, 400, "too many fields"},
		{"items of items", "Store", bytes.NewReader(append([]byte{0x12, 0x80, 0x80, 0x40}, bytes.Repeat([]byte{0x72, 0}, 1<<19)...)), []string{"Content-Type", "application/proto"}, 400, "too many fields"},
		{"JSON items", "Store", strings.NewReader(`{"items":[` + strings.Repeat("{},", 1<<17) + `{}]}`), nil, 400, "too many values"},
		{"no protobuf", "Store", bytes.NewReader([]byte{0x12, 0xff, 0xff, 0xff, 0x7f}), []string{"Content-Type", "application/proto"}, 400, "unmarshal"},
		{"deep JSON", "Recall", strings.NewReader(strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000)), nil, 400, "nests too deep"},
	} {
		status, body := post(t, url, miaToken, test.call, test.body, test.headers...)
		if status != test.status || !strings.Contains(body, test.want) {
			t.Errorf("%s: %d %.300s, want %d and %q", test.name, status, body, test.status, test.want)
		}
	}
}

// The largest store that the service takes passes the count of fields.
func TestLargestStoreIsCounted(t *testing.T) {
	item := coordinator.StoreItem{Content: "x", MessageID: "m", Time: "t", Project: "p", Channel: "c", Metadata: json.RawMessage(`{}`)}
	item.Source.ID, item.Source.Name, item.Source.Type = "i", "n", "t"
	for range 64 {
		item.Keywords = append(item.Keywords, "k")
	}
	request := coordinator.StoreRequest{Agent: "mia"}
	for range coordinator.MaxStoreBatch {
		request.Items = append(request.Items, item)
	}
	in := &pb.StoreRequest{}
	if err := toMessage(in, request); err != nil {
		t.Fatal(err)
	}
	for _, codec := range []interface {
		Marshal(any) ([]byte, error)
		Unmarshal([]byte, any) error
	}{protoCodec{}, jsonCodec{}} {
		raw, err := codec.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		out := &pb.StoreRequest{}
		if err := codec.Unmarshal(raw, out); err != nil || len(out.Items) != coordinator.MaxStoreBatch {
			t.Errorf("%T: %d items, %v", codec, len(out.Items), err)
		}
	}
}

// Metrics count calls by how they ended, stored items, and requests that were
// kept out; no agent, project or text is in them.
func TestMetrics(t *testing.T) {
	url, m := overTCP(t, whole(t), nil)
	post(t, url, miaToken, "Store", strings.NewReader(`{"agent":"mia","items":[{"content":"東京","project":"atlas"},{"content":""}]}`))
	post(t, url, miaToken, "Recall", strings.NewReader(`{"agent":"mia","query":"東京"}`))
	post(t, url, miaToken, "Recall", strings.NewReader(`{"agent":"bob","query":"東京"}`))
	post(t, url, "no-such-token-0123456", "Recall", strings.NewReader(`{}`))
	get := func(token string) (int, string) {
		r, err := http.NewRequest("GET", url+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(text)
	}
	if status, _ := get(miaToken); status != http.StatusForbidden {
		t.Errorf("a client of one agent got metrics: %d", status)
	}
	status, text := get(opsToken)
	if status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	for _, line := range []string{
		`recalld_call_seconds_count{call="Store",code="ok"} 1`,
		`recalld_call_seconds_count{call="Recall",code="ok"} 1`,
		`recalld_call_seconds_count{call="Recall",code="permission_denied"} 1`,
		`recalld_store_items_total{outcome="stored"} 1`,
		`recalld_store_items_total{outcome="rejected"} 1`,
		`recalld_http_refused_total{reason="token"} 1`,
		`recalld_http_refused_total{reason="grant"} 1`,
		`recalld_records{kind="memory"} 1`,
		`recalld_records{kind="episode"} 0`,
		`recalld_agents 1`,
		`recalld_embed_queue{state="pending"} 0`,
		`recalld_ready 1`,
		`recalld_oldest_reader_seconds 0`,
		`recalld_erase_pending 0`,
		`recalld_index_recent_rows{kind="words"} 1`,
		`recalld_index_lag_changes{kind="words"} 0`,
		`recalld_build_info{version="test"} 1`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if !strings.Contains(text, "\nrecalld_wal_bytes ") || !strings.Contains(text, "\nprocess_resident_memory_bytes ") {
		t.Error("no size of the log, or none of the process")
	}
	for _, private := range []string{"mia", "bob", "atlas", "東京"} {
		if strings.Contains(text, private) {
			t.Errorf("%s is in the metrics", private)
		}
	}
	// Two servers have figures of their own.
	other := NewMetrics(whole(t), time.Now)
	other.Refused("token")
	m.Refused("token")
}

// What the scanner says of itself, and of the files that it holds, is in the
// figures, each under its kind.
func TestMetricsOfTheScanner(t *testing.T) {
	state := coordinator.IndexState{LastChange: 90, Words: coordinator.WordState{Files: 1, Bytes: 2, Rows: 3, Recent: 4, Applied: 50}, Codes: coordinator.CodeState{
		Scanner: coordinator.ScannerAuto, Lag: 5, Files: 6, Bytes: 7, ValueBytes: 8, Rows: 9, Dead: 10, DeltaRows: 11, Built: 12, Total: 32, Quarantined: 13, Restarts: 14,
		Process: &coordinator.ScannerState{Process: 15, Scans: 16, Ranks: 17, Blocks: 18, Records: 19, Bytes: 20, Passes: 21, Coalesced: 22, Seconds: .5, Waited: .25, Mapped: 23, Locked: 24, Anonymous: 25},
	}}
	service := &scripted{status: func(context.Context) (*coordinator.Status, error) { return &coordinator.Status{Ready: true}, nil }, index: func() (*coordinator.IndexState, error) { return &state, nil }}
	scrape := func() string {
		w := httptest.NewRecorder()
		NewMetrics(service, time.Now).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	text := scrape()
	for _, line := range []string{
		`index_files{kind="words"} 1`, `index_bytes{kind="words"} 2`, `index_rows{kind="words"} 3`, `index_recent_rows{kind="words"} 4`, `index_lag_changes{kind="words"} 40`,
		`index_lag_changes{kind="codes"} 5`, `index_files{kind="codes"} 6`, `index_bytes{kind="codes"} 7`, `index_bytes{kind="values"} 8`, `index_rows{kind="codes"} 9`,
		`index_dead_rows 10`, `index_recent_rows{kind="codes"} 11`, `index_cells{state="built"} 12`, `index_cells{state="missing"} 20`, `index_quarantined_files 13`,
		`scanner_restarts_total 14`, `scanner_up 1`, `scanner_scans_total{kind="blocks"} 16`, `scanner_scans_total{kind="records"} 17`, `scanner_rows_total{kind="blocks"} 18`,
		`scanner_rows_total{kind="records"} 19`, `scanner_read_bytes_total 20`, `scanner_passes_total 21`, `scanner_coalesced_queries_total 22`, `scanner_pass_seconds_total 0.5`,
		`scanner_wait_seconds_total 0.25`, `scanner_mapped_bytes 23`, `scanner_locked_bytes 24`, `scanner_anonymous_bytes 25`,
	} {
		if !strings.Contains(text, "\nrecalld_"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	state.Codes.Process = nil
	if text := scrape(); !strings.Contains(text, "\nrecalld_scanner_up 0\n") || strings.Contains(text, "scanner_passes") {
		t.Error("without a process")
	}
	state.Codes.Scanner = coordinator.ScannerOff
	if text := scrape(); strings.Contains(text, "scanner_up") || !strings.Contains(text, "recalld_index_files") {
		t.Error("without a scanner")
	}
}

// A service that does not answer is a figure, not a failed scrape.
func TestMetricsOfAServiceThatIsDown(t *testing.T) {
	url, _ := overTCP(t, &scripted{status: func(context.Context) (*coordinator.Status, error) { return nil, errors.New("down") }}, nil)
	r, err := http.NewRequest("GET", url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+opsToken)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(text), "\nrecalld_ready 0\n") {
		t.Errorf("%s, %v", text, err)
	}
}

// Readiness is answered to any client, also to one that may not see the status.
func TestReadinessNeedsNoGrant(t *testing.T) {
	url, _ := overTCP(t, whole(t), nil)
	for token, want := range map[string]int{miaToken: 200, opsToken: 200, "no-such-token-0123456": 401} {
		r, err := http.NewRequest("GET", url+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %d, want %d", token, response.StatusCode, want)
		}
	}
}

// Whatever a call brings, and however it ends, no token and no text of it is in
// the log.
func TestLogOfCallsHasNoSecrets(t *testing.T) {
	var log lockedBuffer
	const secret = "SECRET-0123456789-秘密"
	url, _ := overTCP(t, &scripted{
		recall: func(context.Context, coordinator.RecallRequest) (*coordinator.RecallResponse, error) {
			panic("a fault")
		},
		store: func(context.Context, coordinator.StoreRequest) (coordinator.StoreResponse, error) {
			return coordinator.StoreResponse{}, errors.New("a failure")
		},
	}, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	post(t, url, miaToken, "Recall", strings.NewReader(`{"agent":"mia","query":"`+secret+`"}`))
	post(t, url, miaToken, "Store", strings.NewReader(`{"agent":"mia","items":[{"content":"`+secret+`"}]}`))
	post(t, url, miaToken, "Recall", strings.NewReader(`{"agent":"`+secret+`"}`))
	post(t, url, "SECRET-0123456789", "Recall", strings.NewReader(`{"query":"`+secret+`"}`))
	post(t, url, miaToken, "Recall", strings.NewReader(`{"`+secret+`":`))
	text := log.String()
	if !strings.Contains(text, "a fault") || !strings.Contains(text, "request refused") {
		t.Errorf("the log lacks what happened:\n%s", text)
	}
	for _, s := range []string{"SECRET", "秘密", miaToken} {
		if strings.Contains(text, s) {
			t.Errorf("%s is in the log:\n%s", s, text)
		}
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
