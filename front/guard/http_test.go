package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"recalld/access"
)

// knock sends a request as it came in on 127.0.0.1:7300 and returns the answer.
func knock(h http.Handler, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/recalld.v1.MemoryService/Recall", strings.NewReader(`{}`))
	r.Host = "127.0.0.1:7300"
	r.Header.Set("Authorization", "Bearer "+token)
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7300}
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(local)))
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// insideHandler answers every request that came through, with the client's name.
func insideHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := "nobody"
		if c := ClientOf(r.Context()); c != nil {
			name = c.Name()
		}
		_, _ = io.WriteString(w, "inside as "+name+r.Header.Get("Authorization"))
	})
}

// Each row is one attempt to get in; only the first ones are let through.
func TestWhoGetsIn(t *testing.T) {
	g := grantsOf(t, `{"mia": "read"}`)
	h := mustNew(t, insideHandler(), Options{
		Grants: func() *access.Grants { return g }, Hosts: []string{"Memory.example"}, Origins: []string{"https://console.example", "http://localhost:3000/"},
	})
	header := func(name string, values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header[name] = values }
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	noToken := func(r *http.Request) { r.Header.Del("Authorization") }
	for _, test := range []struct {
		name   string
		change func(*http.Request)
		status int
	}{
		{"token", nil, 200},
		{"scheme in lower case", header("Authorization", "bearer "+token), 200},
		{"localhost", host("localhost:7300"), 200},
		{"another loopback name", host("[::1]:7300"), 200},
		{"allowed host", host("memory.EXAMPLE"), 200},
		{"allowed host with a port", host("memory.example:443"), 200},
		{"own page", header("Origin", "http://127.0.0.1:7300"), 200},
		{"allowed page", header("Origin", "https://console.example"), 200},
		{"allowed page with a port", header("Origin", "http://localhost:3000"), 200},

		{"no token", noToken, 401},
		{"empty token", header("Authorization", "Bearer "), 401},
		{"wrong token", header("Authorization", "Bearer "+token+"x"), 401},
		{"prefix of the token", header("Authorization", "Bearer "+token[:len(token)-1]), 401},
		{"token in upper case", header("Authorization", "Bearer "+strings.ToUpper(token)), 401},
		{"token without a scheme", header("Authorization", token), 401},
		{"two spaces", header("Authorization", "Bearer  "+token), 401},
		{"basic", header("Authorization", "Basic "+token), 401},
		{"two tokens", header("Authorization", "Bearer "+token, "Bearer "+token), 401},
		{"a huge token", header("Authorization", "Bearer "+strings.Repeat("a", 60_000)), 401},
		{"token in the query", func(r *http.Request) { noToken(r); r.URL.RawQuery = "access_token=" + token + "&token=" + token }, 401},
		{"token in a cookie", func(r *http.Request) { noToken(r); r.Header.Set("Cookie", "token="+token) }, 401},
		{"token in another header", func(r *http.Request) { noToken(r); r.Header.Set("X-Api-Key", token) }, 401},
		{"readiness without a token", func(r *http.Request) { noToken(r); r.URL.Path = "/readyz" }, 401},
		{"metrics without a token", func(r *http.Request) { noToken(r); r.URL.Path = "/metrics" }, 401},
		{"metrics without the server's grant", func(r *http.Request) { r.URL.Path = "/metrics" }, 403},
		{"a path that looks like health", func(r *http.Request) { noToken(r); r.URL.Path = "/healthz/../recalld.v1.MemoryService/Recall" }, 401},

		{"rebound name", host("evil.example:7300"), 403},
		{"rebound name that ends well", host("evil-localhost:7300"), 403},
		{"name below localhost", host("localhost.evil.example"), 403},
		{"no name", host(""), 403},
		{"another address", host("192.0.2.7:7300"), 403},
		{"the address of every interface", host("0.0.0.0:7300"), 403},
		{"two names", host("localhost, evil.example"), 403},
		{"foreign page", header("Origin", "https://evil.example"), 403},
		{"null page", header("Origin", "null"), 403},
		{"empty page", header("Origin", ""), 403},
		{"two pages", header("Origin", "https://console.example", "https://evil.example"), 403},
		{"allowed page of another scheme", header("Origin", "http://console.example"), 403},
		{"allowed page on another port", header("Origin", "https://console.example:8443"), 403},
		{"page below an allowed one", header("Origin", "https://console.example.evil.example"), 403},
		{"local page on another port", header("Origin", "http://localhost:5000"), 403},
		{"foreign page asks first", func(r *http.Request) {
			noToken(r)
			r.Method = http.MethodOptions
			r.Header.Set("Origin", "https://evil.example")
			r.Header.Set("Access-Control-Request-Method", "POST")
		}, 403},
		{"foreign page and health", func(r *http.Request) { r.URL.Path = "/healthz"; r.Header.Set("Origin", "https://evil.example") }, 403},
		{"rebound name and health", func(r *http.Request) { r.URL.Path = "/healthz"; r.Host = "evil.example" }, 403},

		{"oversized body", func(r *http.Request) { r.ContentLength = MaxBody + 1 }, 413},
	} {
		w := knock(h, test.change)
		if w.Code != test.status {
			t.Errorf("%s: %d %s, want %d", test.name, w.Code, w.Body, test.status)
			continue
		}
		if test.status == 200 {
			if w.Body.String() != "inside as tester" {
				t.Errorf("%s: %s", test.name, w.Body)
			}
			continue
		}
		var body struct{ Code, Message string }
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Code == "" || !strings.Contains(body.Message, ";") {
			t.Errorf("%s: the body %q says no code and no next step: %v", test.name, w.Body, err)
		}
		if got := strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Bearer"); got != (w.Code == 401) {
			t.Errorf("%s: WWW-Authenticate is there: %v", test.name, got)
		}
		if strings.Contains(w.Body.String(), "inside") || w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v %s", test.name, w.Header(), w.Body)
		}
	}
	if w := knock(h, func(r *http.Request) { noToken(r); r.URL.Path = "/healthz" }); w.Code != 200 || w.Body.String() != "inside as nobody" {
		t.Errorf("/healthz: %d %s", w.Code, w.Body)
	}
}

// An address is the server's only when the connection came in on it.
func TestAddressOfTheConnection(t *testing.T) {
	h := mustNew(t, insideHandler(), Options{Anyone: access.NewClient("anyone", access.Read)})
	for host, want := range map[string]int{"192.0.2.7": 200, "192.0.2.7:7300": 200, "[::ffff:192.0.2.7]:7300": 200, "192.0.2.8": 403, "192.0.2.7.evil.example": 403, "[2001:db8::1]": 403} {
		w := knock(h, func(r *http.Request) {
			local := &net.TCPAddr{IP: net.ParseIP("192.0.2.7"), Port: 7300}
			*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(local)))
			r.Host = host
		})
		if w.Code != want {
			t.Errorf("%s: %d, want %d", host, w.Code, want)
		}
	}
}

// A page that may call is told so; the question before the call needs no token
// and reaches nothing.
func TestAllowedPageAsksFirst(t *testing.T) {
	g := grantsOf(t, `{}`)
	h := mustNew(t, insideHandler(), Options{Grants: func() *access.Grants { return g }, Origins: []string{"https://console.example"}})
	w := knock(h, func(r *http.Request) {
		r.Method = http.MethodOptions
		r.Header = http.Header{"Origin": {"https://console.example"}, "Access-Control-Request-Method": {"POST"}}
	})
	if w.Code != http.StatusNoContent || w.Body.Len() > 0 || w.Header().Get("Access-Control-Allow-Origin") != "https://console.example" || !strings.Contains(w.Header().Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if w.Header().Get("Access-Control-Allow-Credentials") != "" {
		t.Error("a page may send cookies")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{
		{},
		{Anyone: access.NewClient("a", access.Read), Hosts: []string{"*"}},
		{Anyone: access.NewClient("a", access.Read), Hosts: []string{"*.example"}},
		{Anyone: access.NewClient("a", access.Read), Hosts: []string{"memory.example:7300"}},
		{Anyone: access.NewClient("a", access.Read), Hosts: []string{"http://memory.example"}},
		{Anyone: access.NewClient("a", access.Read), Hosts: []string{""}},
		{Anyone: access.NewClient("a", access.Read), Origins: []string{"*"}},
		{Anyone: access.NewClient("a", access.Read), Origins: []string{"null"}},
		{Anyone: access.NewClient("a", access.Read), Origins: []string{"console.example"}},
		{Anyone: access.NewClient("a", access.Read), Origins: []string{"https://*.example"}},
		{Anyone: access.NewClient("a", access.Read), Origins: []string{"https://console.example/path"}},
		{Anyone: access.NewClient("a", access.Read), Origins: []string{"https://user@console.example"}},
		{Anyone: access.NewClient("a", access.Read), Origins: []string{"file:///etc"}},
		{Anyone: access.NewClient("a", access.Read), Origins: []string{"https://console.example:443"}},
		{Anyone: access.NewClient("a", access.Read), Origins: []string{"http://console.example:80"}},
	} {
		if _, err := New(insideHandler(), o); err == nil {
			t.Errorf("%v %v was taken", o.Hosts, o.Origins)
		}
	}
}

// A body whose length is not told ends at the limit.
func TestBodyWithoutALengthIsBounded(t *testing.T) {
	read := make(chan int64, 1)
	h := mustNew(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err == nil {
			n = -1
		}
		read <- n
	}), Options{Anyone: access.NewClient("a", access.Read), MaxBody: 1_000})
	knock(h, func(r *http.Request) {
		r.ContentLength = -1
		r.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", 100_000)))
	})
	if n := <-read; n != 1_000 {
		t.Errorf("%d bytes were read of 1,000", n)
	}
}

// What a refused request brought, in any place, is not in the log, and a request
// that gets in leaves its token at the door.
func TestLogHasNoSecrets(t *testing.T) {
	var log bytes.Buffer
	g := grantsOf(t, `{"mia": "read"}`)
	h := mustNew(t, insideHandler(), Options{Grants: func() *access.Grants { return g }, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	const secret = "SECRET0123456789SECRET"
	for _, change := range []func(*http.Request){
		func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secret) },
		func(r *http.Request) { r.Header.Set("Authorization", secret) },
		func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token+" "+secret) },
		func(r *http.Request) { r.Header.Del("Authorization"); r.URL.RawQuery = "token=" + secret },
		func(r *http.Request) { r.Header.Del("Authorization"); r.URL.Path = "/" + secret },
		func(r *http.Request) { r.Host = secret + ".example" },
		func(r *http.Request) { r.Header.Set("Origin", "https://"+secret+".example") },
		func(r *http.Request) { r.URL.Path = "/metrics" },
	} {
		if w := knock(h, change); w.Code < 400 || strings.Contains(w.Body.String(), secret) || strings.Contains(w.Body.String(), token) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	if strings.Count(log.String(), "request refused") != 8 || strings.Contains(log.String(), secret) || strings.Contains(log.String(), token) {
		t.Errorf("the log is\n%s", log.String())
	}
}
