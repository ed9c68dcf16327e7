package embed

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"recalld/memory"
)

// Both contracts return unit vectors in the order asked, whatever the order of
// the answer (RR-399).
func TestRemoteEmbeds(t *testing.T) {
	for _, backend := range []string{"openai", "embed"} {
		for _, shuffle := range []bool{false, true} {
			s := newServer(t)
			s.set(func(s *server) { s.shuffle = shuffle })
			m := s.open(backend)
			texts := numbered(70)
			wantHashVectors(t, vectorsOf(t, m, Document, texts...), texts)
			if m.Local() {
				t.Error("a server is local")
			}
			id, err := m.Identity(context.Background())
			if err != nil || id.Dims != hashDims || id.Backend != backend || len(id.Probes) != len(probes()) {
				t.Errorf("identity %s %d %d: %v", id.Backend, id.Dims, len(id.Probes), err)
			}
		}
	}
}

// BR-178: batches are fixed by texts and settings, in order, at most 32 texts in
// the embed contract; texts of nothing are not sent.
func TestRemoteBatchesAreFixed(t *testing.T) {
	s := newServer(t)
	m := s.open("embed")
	texts := numbered(70)
	texts[10], texts[11] = "", " \n"
	vectors := vectorsOf(t, m, Document, texts...)
	if vectors[10] != nil || vectors[11] != nil {
		t.Error("an empty text has a vector")
	}
	first := s.seen()
	if len(first) != 3 || len(first[0]) != 32 || len(first[1]) != 32 || len(first[2]) != 4 || first[0][10] != texts[12] {
		t.Fatalf("%d requests", len(first))
	}
	vectorsOf(t, m, Document, texts...)
	if again := s.seen(); !slices.EqualFunc(first, again, slices.Equal[[]string]) {
		t.Error("the same texts were batched otherwise")
	}
	// Long texts end a batch by their bytes.
	vectorsOf(t, m, Document, strings.Repeat("a ", 300_000), strings.Repeat("b ", 300_000), "c")
	if got := s.seen(); len(got) != 2 || len(got[0]) != 1 || len(got[1]) != 2 {
		t.Errorf("%d requests for two long texts", len(got))
	}
	if _, err := Open(Config{Backend: "embed", URL: s.url(), BatchSize: 33}); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("33 texts a request: %v", err)
	}
}

// RT-113: each side of a search is sent with the prompt of its side.
func TestRemotePrompts(t *testing.T) {
	s := newServer(t)
	m := s.open("openai", func(c *Config) { c.Prompts = Pair{Query: "query: ", Document: "passage: "} })
	vectorsOf(t, m, Document, "x")
	vectorsOf(t, m, Query, "x")
	got := s.seen()
	if n := len(got); n < 2 || got[n-2][0] != "passage: x" || got[n-1][0] != "query: x" {
		t.Errorf("%v", got)
	}
	plainID, _ := s.open("openai").Identity(context.Background())
	id, _ := m.Identity(context.Background())
	if Compare(id, plainID) != Different {
		t.Error("another prompt policy is the same model")
	}
}

// The base URL may or may not end in /v1, or name the whole endpoint.
func TestRemoteURL(t *testing.T) {
	s := newServer(t)
	for _, tail := range []string{"", "/", "/v1", "/v1/", "/v1/embeddings"} {
		if err := embedError(s.open("openai", func(c *Config) { c.URL += tail })); err != nil {
			t.Errorf("%q: %v", tail, err)
		}
	}
	if err := embedError(s.open("embed", func(c *Config) { c.URL += "/embed" })); err != nil {
		t.Error(err)
	}
}

// DECISIONS 10: a server that comes back with another model is refused before its
// first vector, and taken again once the known one is back.
func TestRemoteNoticesASwappedModel(t *testing.T) {
	s := newServer(t)
	m := s.open("openai")
	vectorsOf(t, m, Document, "before")
	s.kill()
	wantError(t, embedError(m), ErrUnavailable, "connection refused", s.url())
	s.set(func(s *server) { s.salt = "another model says " })
	s.start()
	s.seen()
	for range 2 {
		wantError(t, embedError(m, "meanwhile"), ErrChanged, "recalld model accept")
		if !errors.Is(embedError(m), ErrUnavailable) {
			t.Error("a changed model is not unavailable")
		}
	}
	if sent := s.seen(); len(sent) != 0 {
		t.Errorf("texts were sent to another model: %v", sent)
	}
	s.set(func(s *server) { s.salt = "" })
	if err := embedError(m); err != nil {
		t.Errorf("the old model is back: %v", err)
	}
	// Swapped without an outage: the recheck on the caller's interval finds it.
	s.set(func(s *server) { s.salt = "another model says " })
	if verdict, err := Recheck(context.Background(), m); verdict != Different || err != nil {
		t.Errorf("%v %v", verdict, err)
	}
	wantError(t, embedError(m), ErrChanged)
	s.set(func(s *server) { s.salt, s.dims = "", 100 })
	wantError(t, embedError(m), ErrChanged, "512", "100")
}

// DECISIONS 10: a server swapped between two calls, so that no call ever fails,
// shows as a new connection; what the other model answered is dropped.
func TestRemoteNoticesASwapWithoutAnOutage(t *testing.T) {
	s := newServer(t)
	m := s.open("openai")
	vectorsOf(t, m, Document, "前")
	s.kill()
	s.set(func(s *server) { s.salt = "another model says " })
	s.start()
	wantError(t, embedError(m, "次"), ErrChanged, "recalld model accept")
	s.kill()
	s.set(func(s *server) { s.salt = "" })
	s.start()
	for range 2 {
		vectorsOf(t, m, Document, "又来了")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts = nil
	for range 3 {
		s.mu.Unlock()
		vectorsOf(t, m, Document, "その後")
		s.mu.Lock()
	}
	if len(s.texts) != 3 {
		t.Errorf("%d requests for three texts over a known connection", len(s.texts))
	}
}

// DECISIONS 10: at the first contact after a start the stored identity decides.
func TestRemoteExpectsTheStoredIdentity(t *testing.T) {
	s := newServer(t)
	id, err := s.open("openai").Identity(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	expect := func(c *Config) { c.Expect = &id }
	if err := embedError(s.open("openai", expect)); err != nil {
		t.Error(err)
	}
	s.set(func(s *server) { s.salt = "other " })
	wantError(t, embedError(s.open("openai", expect)), ErrChanged)
	s.kill()
	if got, err := s.open("openai", expect).Identity(context.Background()); err != nil || got.Key() != id.Key() {
		t.Errorf("a stored identity needs the server: %v", err)
	}
}

// A dimension other than the demanded one names both.
func TestRemoteDimension(t *testing.T) {
	s := newServer(t)
	wantError(t, embedError(s.open("openai", func(c *Config) { c.Dims = 384 })), ErrBadResponse, "512", "384")
	m := s.open("embed")
	vectorsOf(t, m, Document, "x")
	s.set(func(s *server) { s.dims = 64 })
	err := embedError(m)
	wantError(t, err, ErrBadResponse, "64", "512")
	var dims *DimensionError
	if !errors.As(err, &dims) || dims.Got != 64 || dims.Want != 512 {
		t.Errorf("%v", err)
	}
}

// Nothing a server sends is believed or allocated beyond its bound.
func TestRemoteRefusesBadAnswers(t *testing.T) {
	vector := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("0.5,", n), ",") + "]" }
	for name, bodies := range map[string][2]string{ // openai, embed
		"empty":             {"", ""},
		"not JSON":          {"<html>", "<html>"},
		"null":              {"null", "null"},
		"no vectors":        {`{"data":[]}`, `{"embeddings":[]}`},
		"too few":           {`{"data":[{"index":0,"embedding":[1]}]}`, `{"embeddings":[[1]]}`},
		"index twice":       {`{"data":[{"index":1,"embedding":[1]},{"index":1,"embedding":[1]}]}`, ""},
		"index outside":     {`{"data":[{"index":1,"embedding":[1]},{"index":2,"embedding":[1]}]}`, ""},
		"index below":       {`{"data":[{"index":-1,"embedding":[1]},{"index":0,"embedding":[1]}]}`, ""},
		"index of some":     {`{"data":[{"index":0,"embedding":[1]},{"embedding":[1]}]}`, ""},
		"uneven":            {`{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}`, `{"embeddings":[[1],[1,2]]}`},
		"NaN":               {`{"data":[{"index":0,"embedding":[NaN]},{"index":1,"embedding":[1]}]}`, `{"embeddings":[[NaN],[1]]}`},
		"null for NaN":      {`{"data":[{"index":0,"embedding":[null]},{"index":1,"embedding":[1]}]}`, `{"embeddings":[[null],[1]]}`},
		"infinite":          {`{"data":[{"index":0,"embedding":[1e39]},{"index":1,"embedding":[1]}]}`, `{"embeddings":[[-1e39],[1]]}`},
		"strings":           {`{"data":[{"index":0,"embedding":["1"]},{"index":1,"embedding":[1]}]}`, `{"embeddings":[["1"],[1]]}`},
		"nested":            {`{"data":[{"index":0,"embedding":[[1]]},{"index":1,"embedding":[[1]]}]}`, `{"embeddings":[[[1]],[[1]]]}`},
		"vector is null":    {`{"data":[{"index":0,"embedding":null},{"index":1,"embedding":[1]}]}`, `{"embeddings":[null,[1]]}`},
		"vector is empty":   {`{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]}`, `{"embeddings":[[],[]]}`},
		"announced wrongly": {"", `{"embeddings":[[1],[1]],"dimensions":2}`},
		"too wide":          {`{"data":[{"embedding":` + vector(MaxDims+1) + `},{"embedding":` + vector(MaxDims+1) + `}]}`, ""},
		"cut off":           {`{"data":[{"index":0,"embedding":[1]},{"index":1,"embedd`, `{"embeddings":[[1],[1`},
		"more behind":       {`{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1]}]} {}`, `{"embeddings":[[1],[1]]} {}`},
	} {
		if _, err := (openAI{}).vectors([]byte(bodies[0]), 2); !errors.Is(err, ErrBadResponse) {
			t.Errorf("openai, %s: %v", name, err)
		}
		if bodies[1] == "" && name != "empty" {
			continue
		}
		if _, err := (plain{}).vectors([]byte(bodies[1]), 2); !errors.Is(err, ErrBadResponse) {
			t.Errorf("embed, %s: %v", name, err)
		}
	}
}

// A huge body is refused at its announced length, or at the bound when it
// announces none, and takes no more memory than the bound.
func TestRemoteBoundsTheBody(t *testing.T) {
	s := newServer(t)
	m := s.open("openai")
	vectorsOf(t, m, Document, "x")
	const huge = 1 << 30
	for _, announced := range []bool{true, false} {
		s.set(func(s *server) {
			s.sabotage = func(w http.ResponseWriter, _ string, _ []string) bool {
				if announced {
					w.Header().Set("Content-Length", fmt.Sprint(huge))
				}
				chunk := bytes.Repeat([]byte(" "), 1<<20)
				for range huge / len(chunk) {
					if _, err := w.Write(chunk); err != nil {
						break
					}
				}
				return true
			}
		})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := embedError(m)
		runtime.ReadMemStats(&after)
		wantError(t, err, ErrBadResponse, "bytes")
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
			t.Errorf("announced %v: %d bytes were allocated", announced, grown)
		}
	}
}

// A zero vector is a text that cannot be embedded, not an error (DECISIONS 26); a
// text that the server refuses does not keep its neighbours from being embedded.
func TestRemoteUnembeddable(t *testing.T) {
	s := newServer(t)
	m := s.open("embed", func(c *Config) { c.BatchSize = 3 })
	vectorsOf(t, m, Document, "x")
	s.set(func(s *server) {
		s.sabotage = func(w http.ResponseWriter, _ string, texts []string) bool {
			switch {
			case slices.Contains(texts, "poison"):
				return answer(http.StatusRequestEntityTooLarge, "{}")(w, "", nil)
			case slices.Equal(texts, []string{"zero"}):
				return answer(http.StatusOK, `{"embeddings":[[`+strings.TrimSuffix(strings.Repeat("0,", hashDims), ",")+`]]}`)(w, "", nil)
			}
			return false
		}
	})
	vectors := vectorsOf(t, m, Document, "one", "poison", "two", "zero")
	if vectors[1] != nil || vectors[3] != nil {
		t.Error("a refused text or a zero vector became a vector")
	}
	wantHashVectors(t, [][]float32{vectors[0], vectors[2]}, []string{"one", "two"})
	// When the server refuses everything, no text is written off.
	s.set(func(s *server) {
		s.sabotage = answer(http.StatusBadRequest, `{"error":{"code":"model_not_found","message":"secret"}}`)
	})
	err := embedError(m, "good text")
	wantError(t, err, ErrRejected, "HTTP 400", "model_not_found")
	wantError(t, err, ErrUnavailable)
	if strings.Contains(err.Error(), "secret") {
		t.Error("the error repeats what the server sent")
	}
}

// Server errors, refusals and answers that break off are tried again, and no more
// often than set; a later success is a success.
func TestRemoteRetries(t *testing.T) {
	hijack := func(w http.ResponseWriter, _ string, _ []string) bool {
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		io.WriteString(buffered, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"embeddings\":[[0.")
		buffered.Flush()
		conn.Close()
		return true
	}
	for name, c := range map[string]struct {
		sabotage func(http.ResponseWriter, string, []string) bool
		kind     error
		says     string
		again    bool
	}{
		"500":       {answer(500, "boom"), ErrUnavailable, "HTTP 500", true},
		"503":       {answer(503, ""), ErrUnavailable, "HTTP 503", true},
		"429":       {answer(429, `{"error":{"type":"rate_limit"}}`), ErrUnavailable, "(rate_limit)", true},
		"breaks":    {hijack, ErrUnavailable, "connection closed", true},
		"401":       {answer(401, `{"error":{"code":"Bad key: sk-12"}}`), ErrRejected, "key_env", false},
		"404":       {answer(404, ""), ErrRejected, "HTTP 404", false},
		"redirect":  {answer(307, ""), ErrRejected, "final URL", false},
		"bad shape": {answer(200, "[]"), ErrBadResponse, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			var waits []time.Duration
			m := s.open("embed", func(c *Config) {
				c.Attempts = 4
				c.Jitter = func() float64 { return 0.5 }
				c.Sleep = func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil }
			})
			vectorsOf(t, m, Document, "x")
			s.seen()
			left := 99
			s.set(func(s *server) {
				s.sabotage = func(w http.ResponseWriter, path string, texts []string) bool {
					left--
					return left >= 0 && c.sabotage(w, path, texts)
				}
			})
			err := embedError(m)
			wantError(t, err, c.kind, c.says)
			if strings.Contains(err.Error(), "sk-12") {
				t.Error("the error repeats a key")
			}
			requests := len(s.seen())
			if !c.again {
				if requests != 1 || len(waits) != 0 {
					t.Errorf("%d requests, %d waits", requests, len(waits))
				}
				return
			}
			if want := []time.Duration{150 * time.Millisecond, 300 * time.Millisecond, 600 * time.Millisecond}; requests != 4 || !slices.Equal(waits, want) {
				t.Errorf("%d requests, waits %v, want %v", requests, waits, want)
			}
			s.set(func(*server) { left = 2 })
			if err := embedError(m); err != nil {
				t.Errorf("the third try succeeds: %v", err)
			}
		})
	}
}

// A server's own waiting time is honoured up to a bound.
func TestRemoteRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{"7": 7 * time.Second, "3600": 100 * time.Millisecond, "soon": 100 * time.Millisecond, "-1": 100 * time.Millisecond} {
		s := newServer(t)
		var waits []time.Duration
		m := s.open("embed", func(c *Config) {
			c.Attempts = 2
			c.Sleep = func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil }
		})
		s.set(func(s *server) {
			s.sabotage = func(w http.ResponseWriter, _ string, _ []string) bool {
				w.Header().Set("Retry-After", header)
				w.WriteHeader(503)
				return true
			}
		})
		wantError(t, embedError(m), ErrUnavailable)
		if !slices.Equal(waits, []time.Duration{want}) {
			t.Errorf("Retry-After %s: waited %v, want %v", header, waits, want)
		}
	}
}

// An answer that drips forever ends with the timeout, a caller's deadline is an
// outage, and a cancellation is not.
func TestRemoteTimeouts(t *testing.T) {
	s := newServer(t)
	m := s.open("embed", func(c *Config) { c.Timeout, c.Attempts = 150*time.Millisecond, 2 })
	vectorsOf(t, m, Document, "x")
	drip := func(w http.ResponseWriter, _ string, _ []string) bool {
		for {
			if _, err := io.WriteString(w, " "); err != nil {
				return true
			}
			w.(http.Flusher).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	}
	s.set(func(s *server) { s.sabotage = drip })
	wantError(t, embedError(m), ErrUnavailable, "150ms")

	slow := s.open("embed", func(c *Config) { c.Timeout = time.Minute })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := slow.Embed(ctx, Query, []string{"x"})
	wantError(t, err, ErrUnavailable)
	wantError(t, err, context.DeadlineExceeded)

	ctx, cancel = context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = slow.Embed(ctx, Query, []string{"x"})
	wantError(t, err, context.Canceled)
	if errors.Is(err, ErrUnavailable) {
		t.Error("a cancellation is an outage")
	}
}

// A waiting caller leaves with its own context, not with the first caller's.
func TestRemoteWaitersKeepTheirDeadline(t *testing.T) {
	s := newServer(t)
	release := make(chan struct{})
	s.set(func(s *server) {
		s.sabotage = func(http.ResponseWriter, string, []string) bool { <-release; return false }
	})
	m := s.open("embed")
	var first sync.WaitGroup
	first.Go(func() {
		if err := embedError(m); err != nil {
			t.Errorf("first caller: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := m.Embed(ctx, Query, []string{"x"})
	wantError(t, err, context.DeadlineExceeded)
	close(release)
	first.Wait()
}

// The key goes into the header and nowhere else.
func TestRemoteKey(t *testing.T) {
	const key = "sk-not-to-be-seen"
	t.Setenv("EMBED_TEST_KEY", key)
	s := newServer(t)
	m := s.open("openai", func(c *Config) { c.KeyEnv = "EMBED_TEST_KEY"; c.URL += "/v1?api-version=" + key })
	vectorsOf(t, m, Document, "x")
	s.mu.Lock()
	got := s.headers[0].Get("Authorization")
	s.mu.Unlock()
	if got != "Bearer "+key {
		t.Errorf("Authorization %q", got)
	}
	id, err := m.Identity(context.Background())
	if err != nil || strings.Contains(fmt.Sprintf("%+v", id), key) {
		t.Errorf("the identity holds the key: %v", err)
	}
	s.set(func(s *server) { s.sabotage = answer(401, key) })
	wantError(t, embedError(m), ErrRejected)
	if err := embedError(m); strings.Contains(err.Error(), key) {
		t.Errorf("%v", err)
	}
	s.kill()
	if err := embedError(m); strings.Contains(err.Error(), key) {
		t.Errorf("%v", err)
	}
}

// A server that has no window setting and counts no tokens says so (DECISIONS 26); one
// that counts tells its window.
func TestRemoteCountsTokens(t *testing.T) {
	s := newServer(t)
	m := s.open("embed")
	counter := m.(TokenCounter)
	if _, err := counter.CountTokens(context.Background(), []string{"x"}); !errors.Is(err, ErrNotOffered) || m.Window().Known {
		t.Errorf("%v, %+v", err, m.Window())
	}
	for body, want := range map[string]error{
		`{"token_info":null}`: ErrNotOffered,
		`{"token_info":[]}`:   ErrBadResponse,
		`{"token_info":[{"count":6,"window":5,"truncated":true}]}`:                      ErrBadResponse,
		`{"token_info":[{"count":6,"window":5,"truncated":true,"window_end_char":99}]}`: ErrBadResponse,
		`{"token_info":[{"count":6,"window":5,"truncated":true,"window_end_char":4}]}`:  ErrBadResponse,
		`{"token_info":[{"count":3,"window":5,"truncated":true,"window_end_char":2}]}`:  ErrBadResponse,
		`{"token_info":[{"count":6,"window":5,"truncated":true,"window_end_char":2}]}`:  nil,
	} {
		s.set(func(s *server) { s.sabotage = answer(200, body) })
		counts, err := counter.CountTokens(context.Background(), []string{"長い記憶"})
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", body, err)
		}
		if want == nil && (counts[0] != TokenCount{Tokens: 6, Window: 5, WindowEnd: 2} || m.Window() != Window{Limit: 5, Unit: "token", Known: true}) {
			t.Errorf("%+v %+v", counts, m.Window())
		}
	}
	fixed := s.open("openai", func(c *Config) { c.WindowTokens = 512 })
	if fixed.Window() != (Window{Limit: 512, Unit: "token", Known: true}) {
		t.Errorf("%+v", fixed.Window())
	}
}

// Many callers share one first contact and get their own vectors.
func TestRemoteIsConcurrent(t *testing.T) {
	s := newServer(t)
	m := s.open("openai", func(c *Config) { c.BatchSize = 4 })
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() {
			texts := []string{fmt.Sprint("caller ", i), "same", fmt.Sprint(i * i)}
			vectors, err := m.Embed(context.Background(), Document, texts)
			if err != nil {
				t.Error(err)
				return
			}
			for j, v := range serve("", 0, texts) {
				unit(v)
				if cosine(v, vectors[j]) < 1-1e-6 {
					t.Errorf("caller %d got another's vector", i)
				}
			}
		})
	}
	callers.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := map[string]int{}
	for _, texts := range s.texts {
		if len(texts) == 1 {
			asked[texts[0]]++
		} else {
			asked["callers"]++
		}
	}
	// A new connection may ask its own probe again.
	delete(asked, probes()[reconnectProbe])
	if asked["callers"] != 16 || len(asked) != len(probes()) {
		t.Errorf("requests %v, want 16 callers", asked)
	}
	for text, n := range asked {
		if text != "callers" && n != 1 {
			t.Errorf("%q asked %d times at first contact", text, n)
		}
	}
}

// Settings are refused before anything is sent, by name and limit.
func TestOpenRefusesBadSettings(t *testing.T) {
	t.Setenv("EMBED_TEST_BAD_KEY", "line\nbreak")
	good := Config{Backend: "openai", URL: "http://127.0.0.1:1", Name: "m"}
	for field, change := range map[string]func(*Config){
		"backend":       func(c *Config) { c.Backend = "bert" },
		"name":          func(c *Config) { c.Name = " " },
		"batch_size":    func(c *Config) { c.BatchSize = -1 },
		"attempts":      func(c *Config) { c.Attempts = 11 },
		"dims":          func(c *Config) { c.Dims = MaxDims + 1 },
		"window_tokens": func(c *Config) { c.WindowTokens = -1 },
		"timeout_ms":    func(c *Config) { c.Timeout = time.Hour },
		"prompts.query": func(c *Config) { c.Prompts.Query = "\xff" },
		"key_env":       func(c *Config) { c.KeyEnv = "EMBED_TEST_NO_SUCH_KEY" },
		"input_types":   func(c *Config) { c.Backend = "embed"; c.InputTypes.Query = "query" },
	} {
		cfg := good
		change(&cfg)
		_, err := Open(cfg)
		wantError(t, err, memory.ErrInvalid, "embedding."+field+":", "limit:", ";")
	}
	for _, raw := range []string{"", "127.0.0.1:8000", "ftp://h/", "http://", "http://user:pw@h/", "http://h/#x", "http://h:port", "http://[::1", "%"} {
		cfg := good
		cfg.URL = raw
		_, err := Open(cfg)
		wantError(t, err, memory.ErrInvalid, "embedding.url:")
		if strings.Contains(err.Error(), "pw") {
			t.Errorf("%v repeats the password", err)
		}
	}
	cfg := good
	cfg.KeyEnv = "EMBED_TEST_BAD_KEY"
	_, err := Open(cfg)
	wantError(t, err, memory.ErrInvalid, "key_env")
	if m, err := Open(good); err != nil {
		t.Error(err)
	} else if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// TestMain is also the server process of TestRemoteServerIsKilled.
func TestMain(m *testing.M) {
	if os.Getenv("EMBED_TEST_SERVE") != "" {
		s := &server{addr: os.Getenv("EMBED_TEST_SERVE"), t: quiet{}}
		s.start()
		fmt.Println(s.addr)
		io.Copy(io.Discard, os.Stdin) // until the parent is gone
		return
	}
	os.Exit(m.Run())
}

// quiet is the testing.TB of a process that runs no test.
type quiet struct{ testing.TB }

func (quiet) Helper()           {}
func (quiet) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

func startProcess(t *testing.T, addr string) (started string, kill func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(self)
	command.Env = append(os.Environ(), "EMBED_TEST_SERVE="+addr)
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		command.Process.Kill()
		command.Wait()
		stdin.Close()
	})
	t.Cleanup(kill)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), kill
}

// RR-448: a server process killed with SIGKILL between two calls, on kept-alive
// connections, is an outage; the same one back on its port ends it, and the
// advisory follows.
func TestRemoteServerIsKilled(t *testing.T) {
	addr, kill := startProcess(t, "127.0.0.1:0")
	s := &server{t: t, addr: addr}
	m := s.open("openai")
	advisory := NewAdvisory("openai", true, time.Now)
	observe := func() error {
		err := embedError(m)
		if err != nil {
			advisory.Failure(err)
		} else {
			advisory.Success()
		}
		return err
	}
	if err := observe(); err != nil || advisory.State() != Healthy {
		t.Fatalf("%v %v", err, advisory.State())
	}
	kill()
	for range AdvisoryFailures {
		wantError(t, observe(), ErrUnavailable)
	}
	if n := advisory.Notice("a"); n == nil || !strings.Contains(n.Evidence, "connection refused") {
		t.Errorf("%+v", n)
	}
	startProcess(t, addr)
	if err := observe(); err != nil || advisory.State() != Healthy || advisory.Notice("a") != nil {
		t.Errorf("after the restart: %v %v", err, advisory.State())
	}
}
