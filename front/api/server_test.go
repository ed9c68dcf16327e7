package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"recalld/coordinator"
	"recalld/memory"
	pb "recalld/proto/recalld/v1"
	"recalld/proto/recalld/v1/recalldv1connect"
)

// scripted is a service whose calls do what a test says; other calls panic.
type scripted struct {
	coordinator.Service
	store   func(context.Context, coordinator.StoreRequest) (coordinator.StoreResponse, error)
	recall  func(context.Context, coordinator.RecallRequest) (*coordinator.RecallResponse, error)
	status  func(context.Context) (*coordinator.Status, error)
	index   func() (*coordinator.IndexState, error)
	backup  func(context.Context, string, coordinator.Progress) error
	vacuum  func(context.Context, coordinator.Progress) error
	export  func(context.Context, coordinator.ExportRequest, func(json.RawMessage) error) error
	setting func(string, string) (coordinator.Setting, error)
}

func (s *scripted) Store(ctx context.Context, r coordinator.StoreRequest) (coordinator.StoreResponse, error) {
	return s.store(ctx, r)
}

func (s *scripted) Recall(ctx context.Context, r coordinator.RecallRequest) (*coordinator.RecallResponse, error) {
	return s.recall(ctx, r)
}

func (s *scripted) Status(ctx context.Context) (*coordinator.Status, error) { return s.status(ctx) }

func (s *scripted) Backup(ctx context.Context, path string, p coordinator.Progress) error {
	return s.backup(ctx, path, p)
}

func (s *scripted) Index(context.Context, coordinator.IndexStateRequest) (*coordinator.IndexState, error) {
	if s.index == nil {
		return nil, errors.New("there is no index")
	}
	return s.index()
}

func (s *scripted) Vacuum(ctx context.Context, p coordinator.Progress) error { return s.vacuum(ctx, p) }

func (s *scripted) SetSetting(_ context.Context, name, value string) (coordinator.Setting, error) {
	return s.setting(name, value)
}

func (s *scripted) Export(ctx context.Context, r coordinator.ExportRequest, each func(json.RawMessage) error) error {
	return s.export(ctx, r, each)
}

// folder returns a folder whose path leaves room for a socket's name.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "r")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// start serves the service on a socket until the test ends.
func start(t testing.TB, service coordinator.Service) (socket string) {
	t.Helper()
	socket = filepath.Join(folder(t), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- NewServer(service, Options{}).Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return socket
}

func connected(t testing.TB, service coordinator.Service) *Client {
	t.Helper()
	client := NewClient(start(t, service))
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func overUnix(socket string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
}

// A deadline of the caller is a deadline of the service, and the caller sees it
// as one.
func TestDeadlineReachesTheService(t *testing.T) {
	left := make(chan time.Duration, 1)
	client := connected(t, &scripted{recall: func(ctx context.Context, r coordinator.RecallRequest) (*coordinator.RecallResponse, error) {
		deadline, ok := ctx.Deadline()
		if !ok {
			return nil, errors.New("no deadline")
		}
		if r.Query == "how long" {
			left <- time.Until(deadline)
			return &coordinator.RecallResponse{}, nil
		}
		<-ctx.Done()
		return nil, fmt.Errorf("recall: %w", ctx.Err())
	}})
	long, stop := context.WithTimeout(t.Context(), time.Hour)
	defer stop()
	if _, err := client.Recall(long, coordinator.RecallRequest{Query: "how long"}); err != nil {
		t.Fatal(err)
	}
	if d := <-left; d <= 0 || d > time.Hour {
		t.Errorf("the service had %v left of an hour", d)
	}
	short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := client.Recall(short, coordinator.RecallRequest{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
}

func TestCancellationReachesTheService(t *testing.T) {
	entered, left := make(chan struct{}), make(chan struct{})
	client := connected(t, &scripted{recall: func(ctx context.Context, _ coordinator.RecallRequest) (*coordinator.RecallResponse, error) {
		close(entered)
		<-ctx.Done()
		close(left)
		return nil, ctx.Err()
	}})
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-entered; stop() }()
	if _, err := client.Recall(ctx, coordinator.RecallRequest{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the cancellation", err)
	}
	<-left
}

func TestPanicIsOneFailedCall(t *testing.T) {
	client := connected(t, &scripted{
		recall: func(context.Context, coordinator.RecallRequest) (*coordinator.RecallResponse, error) {
			panic("secret of another agent")
		},
		status: func(context.Context) (*coordinator.Status, error) { return &coordinator.Status{Ready: true}, nil },
	})
	if _, err := client.Recall(t.Context(), coordinator.RecallRequest{}); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("got %v, want an internal error that tells nothing", err)
	}
	if status, err := client.Status(t.Context()); err != nil || !status.Ready {
		t.Errorf("after a panic: %+v, %v", status, err)
	}
}

// A service that gives nothing and no error is a failed call, not a crash.
func TestNilAnswerIsAnError(t *testing.T) {
	client := connected(t, &scripted{recall: func(context.Context, coordinator.RecallRequest) (*coordinator.RecallResponse, error) {
		return nil, nil
	}})
	if response, err := client.Recall(t.Context(), coordinator.RecallRequest{}); err == nil {
		t.Errorf("got %+v", response)
	}
}

// A message over the limit is refused before it is taken in, whatever the
// protocol and whether it says its length or hides it in compression.
func TestOversizedMessagesAreRefused(t *testing.T) {
	socket := start(t, &scripted{recall: func(context.Context, coordinator.RecallRequest) (*coordinator.RecallResponse, error) {
		return nil, errors.New("reached the service")
	}})
	raw := &http.Client{Transport: overUnix(socket)}
	url := "http://recalld" + recalldv1connect.MemoryServiceRecallProcedure
	large := `{"query":"` + strings.Repeat("x", MaxMessage) + `"}`
	var compressed bytes.Buffer
	zipped := gzip.NewWriter(&compressed)
	_, _ = io.WriteString(zipped, large)
	_ = zipped.Close()
	for name, send := range map[string]func() (*http.Request, error){
		"known length": func() (*http.Request, error) { return http.NewRequest("POST", url, strings.NewReader(large)) },
		"unknown length": func() (*http.Request, error) {
			return http.NewRequest("POST", url, io.MultiReader(strings.NewReader(large)))
		},
		"compressed": func() (*http.Request, error) {
			r, err := http.NewRequest("POST", url, bytes.NewReader(compressed.Bytes()))
			if err == nil {
				r.Header.Set("Content-Encoding", "gzip")
			}
			return r, err
		},
	} {
		request, err := send()
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := raw.Do(request)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != http.StatusTooManyRequests || !strings.Contains(string(body), "16777216") {
			t.Errorf("%s: %d %.200s, want a refusal that names the limit", name, response.StatusCode, body)
		}
	}
	var refused *memory.FieldError
	client := NewClient(socket)
	if _, err := client.Recall(t.Context(), coordinator.RecallRequest{Query: strings.Repeat("x", MaxMessage+1)}); !errors.As(err, &refused) || refused.Field != "request" {
		t.Errorf("the client sent it: %v", err)
	}
}

// The same call in JSON, as curl makes it: names as in the contract, an absent
// project stays absent, bad texts and unknown names are refused by name.
func TestJSON(t *testing.T) {
	var asked coordinator.RecallRequest
	score := math.Copysign(0, -1)
	socket := start(t, &scripted{recall: func(_ context.Context, r coordinator.RecallRequest) (*coordinator.RecallResponse, error) {
		asked = r
		if r.Agent == "nobody" {
			return nil, fmt.Errorf("recall: %w", memory.ErrNotFound)
		}
		return &coordinator.RecallResponse{Order: "best_first", Rows: []coordinator.Row{{Ref: "mem:1", Content: "東京", MessageID: "m", Score: &score}}}, nil
	}})
	raw := &http.Client{Transport: overUnix(socket)}
	post := func(body string) (int, string) {
		t.Helper()
		response, err := raw.Post("http://recalld"+recalldv1connect.MemoryServiceRecallProcedure, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, text); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		return response.StatusCode, compact.String()
	}
	status, body := post(`{"agent":"ann","project":"","query":"どこ","full_content":true}`)
	if status != 200 || !strings.Contains(body, `"message_id":"m"`) || !strings.Contains(body, `"score":-0`) || !strings.Contains(body, "東京") {
		t.Errorf("got %d %s", status, body)
	}
	if asked.Project == nil || *asked.Project != "" || asked.Channel != nil || asked.Query != "どこ" || !asked.FullContent {
		t.Errorf("the service was asked %+v", asked)
	}
	for request, want := range map[string]string{
		`{"agent":"ann","query":"\ud83d"}`: "query: has the lone surrogate",
		"{\"agent\":\"caf\xe9\"}":          "agent: is not valid UTF-8",
		`{"agent":"a","agent":"b"}`:        "agent: is given twice",
		`{"agnet":"ann"}`:                  "agnet",
		`{"count":"many"}`:                 "count",
		`{"count":1e400}`:                  "count",
		`[]`:                               "",
		``:                                 "",
	} {
		if status, body := post(request); status != 400 || !strings.Contains(body, want) || !strings.Contains(body, `"code":"invalid_argument"`) {
			t.Errorf("%q: got %d %s, want a refusal of %q", request, status, body, want)
		}
	}
	if status, body := post(`{"agent":"nobody"}`); status != 404 || !strings.Contains(body, `"kinds":["not_found"]`) {
		t.Errorf("got %d %s", status, body)
	}
}

// gRPC and gRPC-Web clients speak to the same socket.
func TestGRPC(t *testing.T) {
	socket := start(t, &scripted{recall: func(_ context.Context, r coordinator.RecallRequest) (*coordinator.RecallResponse, error) {
		if r.Query == "" {
			return nil, &memory.FieldError{Field: "query", Problem: "is empty"}
		}
		return &coordinator.RecallResponse{Order: r.Query}, nil
	}})
	for name, option := range map[string]connect.ClientOption{"grpc": connect.WithGRPC(), "grpc-web": connect.WithGRPCWeb(), "json": connect.WithProtoJSON()} {
		transport := overUnix(socket)
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)
		calls := recalldv1connect.NewMemoryServiceClient(&http.Client{Transport: transport}, "http://recalld", option)
		if out, err := calls.Recall(t.Context(), &pb.RecallRequest{Query: "中文"}); err != nil || out.GetOrder() != "中文" {
			t.Errorf("%s: %v, %v", name, out, err)
		}
		_, err := calls.Recall(t.Context(), &pb.RecallRequest{})
		var refused *memory.FieldError
		if !errors.As(restore(t.Context(), err), &refused) || refused.Field != "query" {
			t.Errorf("%s: %v lost its field", name, err)
		}
		transport.CloseIdleConnections()
	}
}

func TestHealth(t *testing.T) {
	service := &scripted{}
	raw := &http.Client{Transport: overUnix(start(t, service))}
	get := func(path string) int {
		t.Helper()
		response, err := raw.Get("http://recalld" + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.StatusCode
	}
	for _, test := range []struct {
		status *coordinator.Status
		err    error
		code   int
	}{
		{&coordinator.Status{Ready: true}, nil, 200},
		{&coordinator.Status{}, nil, 503},
		{nil, memory.ErrCorrupt, 503},
	} {
		service.status = func(context.Context) (*coordinator.Status, error) { return test.status, test.err }
		if got := get("/readyz"); got != test.code {
			t.Errorf("%+v, %v: /readyz is %d, want %d", test.status, test.err, got, test.code)
		}
		if got := get("/healthz"); got != 200 {
			t.Errorf("/healthz is %d", got)
		}
	}
	if got := get("/elsewhere"); got != 404 {
		t.Errorf("/elsewhere is %d", got)
	}
}

func TestProgressStreams(t *testing.T) {
	var target string
	work := func(_ context.Context, p coordinator.Progress) error {
		for i := range int64(5) {
			p(i+1, 5)
		}
		return nil
	}
	service := &scripted{vacuum: work, backup: func(ctx context.Context, path string, p coordinator.Progress) error {
		target = path
		return work(ctx, p)
	}}
	client := connected(t, service)
	var seen []int64
	count := func(done, total int64) { seen = append(seen, done*10+total) }
	if err := client.Vacuum(t.Context(), count); err != nil || fmt.Sprint(seen) != "[15 25 35 45 55]" {
		t.Errorf("vacuum: %v, %v", seen, err)
	}
	if err := client.Backup(t.Context(), "copy.db", nil); err != nil {
		t.Errorf("backup: %v", err)
	}
	if working, _ := os.Getwd(); target != filepath.Join(working, "copy.db") {
		t.Errorf("backup went to %s, not beside the caller", target)
	}
	service.vacuum = func(ctx context.Context, p coordinator.Progress) error {
		p(1, 5)
		return fmt.Errorf("vacuum: %w", memory.ErrFull)
	}
	if err := client.Vacuum(t.Context(), nil); !errors.Is(err, memory.ErrFull) || err.Error() != "vacuum: disk is full" {
		t.Errorf("got %v", err)
	}
}

func TestExportStreams(t *testing.T) {
	const lines = 5_000
	stopped := make(chan error, 1)
	client := connected(t, &scripted{export: func(ctx context.Context, r coordinator.ExportRequest, each func(json.RawMessage) error) error {
		if r.Agent == "" {
			return &memory.FieldError{Field: "agent", Problem: "is empty"}
		}
		for i := 0; i < lines || r.Agent == "endless"; i++ {
			if err := each(json.RawMessage(fmt.Sprintf(`{"content":"行 %d %s"}`, i, strings.Repeat("x", 100)))); err != nil {
				stopped <- err
				return err
			}
		}
		return nil
	}})
	n := 0
	err := client.Export(t.Context(), coordinator.ExportRequest{Agent: "ann"}, func(line json.RawMessage) error {
		if !strings.HasPrefix(string(line), fmt.Sprintf(`{"content":"行 %d `, n)) {
			t.Fatalf("line %d is %s", n, line)
		}
		n++
		return nil
	})
	if err != nil || n != lines {
		t.Errorf("%d lines, %v", n, err)
	}
	if err := client.Export(t.Context(), coordinator.ExportRequest{}, nil); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	enough := errors.New("enough")
	if err := client.Export(t.Context(), coordinator.ExportRequest{Agent: "endless"}, func(json.RawMessage) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("got %v, want the caller's own error", err)
	}
	if err := <-stopped; err == nil {
		t.Error("the service went on for nobody")
	}
}

// A request that is larger than a message travels in parts and looks like one.
func TestLargeStoresTravelInParts(t *testing.T) {
	var sizes []int
	client := connected(t, &scripted{store: func(_ context.Context, r coordinator.StoreRequest) (coordinator.StoreResponse, error) {
		sizes = append(sizes, len(r.Items))
		response := coordinator.StoreResponse{Results: []coordinator.StoreResult{}}
		for _, item := range r.Items {
			response.Results = append(response.Results, coordinator.StoreResult{Outcome: "stored", Ref: item.MessageID})
		}
		return response, nil
	}})
	request := coordinator.StoreRequest{Agent: "ann"}
	for i := range 100 {
		request.Items = append(request.Items, coordinator.StoreItem{MessageID: fmt.Sprint(i), Content: strings.Repeat("y", 500_000)})
	}
	response, err := client.Store(t.Context(), request)
	if err != nil || len(response.Results) != 100 {
		t.Fatalf("%d results, %v", len(response.Results), err)
	}
	for i, r := range response.Results {
		if r.Ref != fmt.Sprint(i) {
			t.Fatalf("result %d is of item %s", i, r.Ref)
		}
	}
	if len(sizes) < 3 {
		t.Errorf("50 MB went in %d messages", len(sizes))
	}
}

// Calls in flight when the server is told to end are answered.
func TestServeAnswersCallsInFlight(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	service := &scripted{status: func(context.Context) (*coordinator.Status, error) {
		close(entered)
		<-release
		return &coordinator.Status{Path: "here"}, nil
	}}
	socket := filepath.Join(folder(t), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := NewServer(service, Options{}).Serve(ctx, l); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	go func() {
		<-entered
		stop()
		close(release)
	}()
	client := NewClient(socket)
	if status, err := client.Status(t.Context()); err != nil || status.Path != "here" {
		t.Errorf("got %+v, %v", status, err)
	}
	serving.Wait()
	if _, err := client.Status(t.Context()); !errors.Is(err, ErrNoServer) {
		t.Errorf("after the end: %v, want ErrNoServer", err)
	}
}
