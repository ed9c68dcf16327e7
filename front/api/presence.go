package api

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// presencePath is where a front says that it is there, for as long as it holds
// the answer open. The kernel closes that when the front ends, however it ends.
const presencePath = "/present"

// Presence knows whether anybody uses a server: a front that holds its
// connection, or a request that is being answered.
type Presence struct {
	idle time.Duration

	mu    sync.Mutex
	here  int
	timer *time.Timer // runs while nobody is here; nil: nobody's absence counts

	alone   chan struct{} // closed when nobody was here for idle
	closing chan struct{}
	close   sync.Once
}

// firstWait is how long a server waits at least for the front that started it.
const firstWait = time.Minute

// NewPresence returns a presence that misses everybody after the idle time, and
// the first one after a minute at least; after an idle of 0 or less nobody is
// ever missed.
func NewPresence(idle time.Duration) *Presence {
	p := &Presence{idle: idle, alone: make(chan struct{}), closing: make(chan struct{})}
	if idle > 0 {
		p.timer = time.AfterFunc(max(idle, firstWait), p.missed)
	}
	return p
}

// Alone is closed once nobody has been here for the whole idle time.
func (p *Presence) Alone() <-chan struct{} { return p.alone }

func (p *Presence) missed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.here > 0 {
		return // somebody came when the time was just over
	}
	select {
	case <-p.alone:
	default:
		close(p.alone)
	}
}

func (p *Presence) enter() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.here++
	if p.timer != nil {
		p.timer.Stop()
	}
}

func (p *Presence) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.here--; p.here == 0 && p.timer != nil {
		p.timer.Reset(p.idle)
	}
}

// end lets go of the fronts, so that a server that stops does not wait for them.
func (p *Presence) end() { p.close.Do(func() { close(p.closing) }) }

// ServeHTTP answers a front and holds the answer until either side ends.
func (p *Presence) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusOK)
	if err := http.NewResponseController(w).Flush(); err != nil {
		return
	}
	select {
	case <-r.Context().Done():
	case <-p.closing:
	}
}

// counted is the handler with everybody who asks it counted.
func (p *Presence) counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.enter()
		defer p.leave()
		h.ServeHTTP(w, r)
	})
}

// stay holds a presence at the server of the folder until it or ctx ends, and
// then again each time that a call has found one. It calls tried once the first
// presence holds, or cannot be had.
func (c *Client) stay(ctx context.Context, dataDir string, tried func()) {
	transport := folderTransport(dataDir, nil)
	defer transport.CloseIdleConnections()
	for ctx.Err() == nil {
		c.hold(ctx, transport, tried)
		select {
		case <-ctx.Done():
		case <-c.found:
		}
	}
}

func (c *Client) hold(ctx context.Context, transport *http.Transport, tried func()) {
	defer tried()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://recalld"+presencePath, nil)
	if err != nil {
		return
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	tried()
	// It ends with the server.
	_, _ = io.Copy(io.Discard, answer.Body)
}
