package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"recalld/access"
)

// MaxBody is the largest body of a request, in bytes, where [Options] says nothing
// else: the largest message of the API and what goes around it.
const MaxBody = 16<<20 + 64<<10

// Options are what a guarded server is told.
type Options struct {
	// Grants says which grants are in force; nil only where Anyone is set.
	Grants func() *access.Grants
	// Anyone is whom a request is taken for that needs no token; nil: every
	// request needs one.
	Anyone *access.Client
	// Hosts are names, beside localhost and the address of the connection, that
	// clients may reach the server by; without a port.
	Hosts []string
	// Origins are the pages, beside the server's own, that may call it, such as
	// https://console.example.
	Origins []string
	MaxBody int64 // 0 for the package's
	// Queue is where requests wait for their turn; nil: one of the package's
	// bounds. Health, figures and presence do not wait.
	Queue *Queue
	// Refused is told the reason of every refusal, for a counter; nil: nobody.
	// Reasons are host, origin, token, grant, body, overloaded.
	Refused func(reason string)
	Log     *slog.Logger // refusals, from info on; nil: nowhere
}

// New returns a handler that lets a request through to next when it is from
// nobody's foreign page and carries a client's token; next finds the client with
// [ClientOf]. /healthz needs no token, /metrics needs a client that may read the
// server. The options are checked: a Host or an Origin that no client can send
// is an error.
func New(next http.Handler, o Options) (http.Handler, error) {
	if o.Grants == nil && o.Anyone == nil {
		return nil, fmt.Errorf("guard: neither grants nor a client without a token")
	}
	if o.MaxBody == 0 {
		o.MaxBody = MaxBody
	}
	if o.Queue == nil {
		o.Queue = NewQueue(0, 0)
	}
	if o.Refused == nil {
		o.Refused = func(string) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	places, err := newPlaces(o.Hosts, o.Origins)
	if err != nil {
		return nil, err
	}
	return &gate{next: next, o: o, places: places}, nil
}

type gate struct {
	next   http.Handler
	o      Options
	places places
}

// A refusal is an answer that keeps a request out.
type refusal struct {
	status int
	reason string // for the counter
	code   string // of Connect
	text   string
}

// ServeHTTP looks at the head of a request alone, in this order: where it was
// sent, which page sent it, who sent it, how large it is, whether there is room.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if !g.places.host(r) {
		g.refuse(w, r, refusal{http.StatusForbidden, "host", "permission_denied", "this Host is not the server's; reach it by its address, or start it with --allow-host"})
		return
	}
	origin, ok := g.places.origin(r)
	if !ok {
		g.refuse(w, r, refusal{http.StatusForbidden, "origin", "permission_denied", "this Origin may not call the server; start it with --allow-origin"})
		return
	}
	if origin != "" {
		allowPage(w.Header(), origin)
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	if r.URL.Path == "/healthz" {
		g.next.ServeHTTP(w, r)
		return
	}
	client, refused := g.client(r)
	if client == nil {
		g.refuse(w, r, refused)
		return
	}
	if r.ContentLength > g.o.MaxBody {
		w.Header().Set("Connection", "close")
		g.refuse(w, r, refusal{http.StatusRequestEntityTooLarge, "body", "resource_exhausted", fmt.Sprintf("the body has %d bytes (limit: %d); send less at once", r.ContentLength, g.o.MaxBody)})
		return
	}
	if !Exempt(r.URL.Path) {
		leave, err := g.o.Queue.Enter(r.Context())
		switch {
		case errors.Is(err, ErrOverloaded):
			w.Header().Set("Retry-After", strconv.Itoa(RetryAfter))
			g.refuse(w, r, refusal{http.StatusTooManyRequests, "overloaded", "resource_exhausted", err.Error()})
			return
		case err != nil: // it is gone, or the server ends
			g.refuse(w, r, refusal{http.StatusServiceUnavailable, "overloaded", "unavailable", "the request ended before its turn came; try again"})
			return
		}
		defer leave()
	}
	// The service below sees who calls, and no token.
	r = r.WithContext(WithClient(r.Context(), client))
	r.Header.Del("Authorization")
	r.Body = http.MaxBytesReader(w, r.Body, g.o.MaxBody)
	g.next.ServeHTTP(w, r)
}

// Exempt reports whether a path is answered whatever waits: what asks after the
// server, and what a front holds open for as long as it lives.
func Exempt(path string) bool {
	return slices.Contains([]string{"/healthz", "/readyz", "/metrics", "/present"}, path)
}

// client returns whose request it is, or the refusal.
func (g *gate) client(r *http.Request) (*access.Client, refusal) {
	client := g.o.Anyone
	if client == nil {
		token, problem := bearer(r.Header)
		if problem == "" {
			if client = g.o.Grants().Identify(token); client == nil {
				problem = "this token is nobody's; check it against the file of grants"
			}
		}
		if client == nil {
			return nil, refusal{http.StatusUnauthorized, "token", "unauthenticated", problem}
		}
	}
	if r.URL.Path == "/metrics" && client.Server() < access.Read {
		return nil, refusal{http.StatusForbidden, "grant", "permission_denied", `metrics need read on the server (agent "*"); ask whoever keeps the file of grants`}
	}
	return client, refusal{}
}

// bearer reads the one place where a token may be.
func bearer(h http.Header) (token, problem string) {
	values := h.Values("Authorization")
	if len(values) == 0 {
		return "", "a token is needed; send the header Authorization: Bearer TOKEN"
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > access.MaxToken {
		return "", "the header Authorization is not one Bearer TOKEN; send it once, in that form"
	}
	return token, ""
}

func (g *gate) refuse(w http.ResponseWriter, r *http.Request, f refusal) {
	g.o.Refused(f.reason)
	// A query may hold a token that was put in the wrong place.
	g.o.Log.Info("request refused", "reason", f.reason, "status", f.status, "from", r.RemoteAddr)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	switch {
	case f.status == http.StatusUnauthorized && r.Header.Get("Authorization") != "":
		h.Set("WWW-Authenticate", `Bearer realm="recalld", error="invalid_token"`)
	case f.status == http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="recalld"`)
	}
	w.WriteHeader(f.status)
	// Nobody is left to tell when the connection is gone.
	_ = json.NewEncoder(w).Encode(map[string]string{"code": f.code, "message": f.text})
}

// preflightAge is how long a browser may remember what a page may send.
const preflightAge = 10 * time.Minute

// allowPage tells a browser that a page of the origin may read the answer.
func allowPage(h http.Header, origin string) {
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Connect-Protocol-Version, Connect-Timeout-Ms, Grpc-Timeout, X-Grpc-Web, X-User-Agent, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name, Last-Event-Id")
	h.Set("Access-Control-Expose-Headers", "Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin, Mcp-Session-Id, WWW-Authenticate, Retry-After")
	h.Set("Access-Control-Max-Age", fmt.Sprint(int(preflightAge.Seconds())))
}
