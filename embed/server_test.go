package embed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// server is a real embedding server on a loopback socket that speaks both
// contracts, can be killed with its connections, and started again on its port.
type server struct {
	t    testing.TB
	addr string

	mu       sync.Mutex
	http     *http.Server
	done     chan struct{}
	texts    [][]string    // of every request that reached the model, in order
	headers  []http.Header // of the same
	salt     string        // another salt is another model
	dims     int           // 0 keeps the model's
	shuffle  bool
	sabotage func(w http.ResponseWriter, path string, texts []string) bool // true: it has answered
}

func newServer(t testing.TB) *server {
	t.Helper()
	s := &server{t: t, addr: "127.0.0.1:0"}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *server) start() {
	s.t.Helper()
	listener, err := net.Listen("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.addr = listener.Addr().String()
	server, done := &http.Server{Handler: s}, make(chan struct{})
	s.http, s.done = server, done
	go func() {
		defer close(done)
		server.Serve(listener)
	}()
}

// kill closes the listener and every connection, and waits for the end.
func (s *server) kill() {
	s.http.Close()
	<-s.done
}

func (s *server) url() string { return "http://" + s.addr }

func (s *server) set(change func(*server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// seen returns the texts of every request since the last call, probes left out.
func (s *server) seen() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out [][]string
	for _, texts := range s.texts {
		if len(texts) != 1 || !slices.Contains(probes(), texts[0]) {
			out = append(out, texts)
		}
	}
	s.texts = nil
	return out
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var request struct {
		Model          string
		Input, Texts   []string
		EncodingFormat string `json:"encoding_format"`
	}
	if err := json.Unmarshal(body, &request); err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	texts := append(request.Input, request.Texts...)
	s.mu.Lock()
	s.texts = append(s.texts, texts)
	s.headers = append(s.headers, r.Header.Clone())
	salt, dims, shuffle, sabotage := s.salt, s.dims, s.shuffle, s.sabotage
	s.mu.Unlock()
	if sabotage != nil && sabotage(w, r.URL.Path, texts) {
		return
	}
	vectors := serve(salt, dims, texts)
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/v1/embeddings":
		if request.Model == "" || request.EncodingFormat != "float" {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		type entry struct {
			Object    string    `json:"object"`
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		}
		data := make([]entry, len(vectors))
		for i, v := range vectors {
			data[i] = entry{"embedding", i, v}
		}
		if shuffle {
			slices.Reverse(data)
		}
		json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data, "model": request.Model})
	case "/embed":
		json.NewEncoder(w).Encode(map[string]any{"embeddings": vectors, "dimensions": len(vectors[0])})
	default:
		http.NotFound(w, r)
	}
}

// serve makes vectors of length three, since a server's normalisation is not
// trusted (RR-399). Like any model it reads a window of each text.
func serve(salt string, dims int, texts []string) [][]float32 {
	salted := make([]string, len(texts))
	for i, text := range texts {
		salted[i] = salt + text[:min(len(text), 1000)]
	}
	vectors, err := newHashing().Embed(context.Background(), Document, salted)
	if err != nil {
		panic(err)
	}
	for _, v := range vectors {
		for i := range v {
			v[i] *= 3
		}
	}
	if dims > 0 {
		for i := range vectors {
			vectors[i] = vectors[i][:dims]
		}
	}
	return vectors
}

// open opens a model at s with waiting that costs no time.
func (s *server) open(backend string, change ...func(*Config)) Model {
	s.t.Helper()
	cfg := Config{
		Backend: backend, URL: s.url(), Name: "test-model", Timeout: 5 * time.Second,
		Sleep:  func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		Jitter: func() float64 { return 0 },
	}
	for _, c := range change {
		c(&cfg)
	}
	m, err := Open(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { m.Close() })
	return m
}

func numbered(n int) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf("text number %d 番目", i)
	}
	return texts
}

func wantHashVectors(t testing.TB, got [][]float32, texts []string) {
	t.Helper()
	want := vectorsOf(t, newHashing(), Document, texts...)
	if len(got) != len(want) {
		t.Fatalf("%d vectors for %d texts", len(got), len(want))
	}
	for i := range want {
		if (got[i] == nil) != (want[i] == nil) || got[i] != nil && cosine(got[i], want[i]) < 1-1e-6 {
			t.Fatalf("vector %d is not that of %q", i, texts[i])
		}
		if got[i] == nil {
			continue
		}
		if c := cosine(got[i], got[i]); c < 1-1e-6 || c > 1+1e-6 {
			t.Fatalf("vector %d has squared length %v", i, c)
		}
	}
}

func embedError(m Model, texts ...string) error {
	if len(texts) == 0 {
		texts = []string{"text"}
	}
	_, err := m.Embed(context.Background(), Document, texts)
	return err
}

func answer(status int, body string) func(http.ResponseWriter, string, []string) bool {
	return func(w http.ResponseWriter, _ string, _ []string) bool {
		w.WriteHeader(status)
		io.WriteString(w, body)
		return true
	}
}

func wantError(t testing.TB, err, kind error, parts ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("%v, want %v", err, kind)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}
