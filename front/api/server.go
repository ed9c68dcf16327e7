package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"connectrpc.com/connect"

	"recalld/coordinator"
	"recalld/proto/recalld/v1/recalldv1connect"
)

// MaxMessage is the largest request that a server takes, in bytes.
const MaxMessage = 16 << 20

const (
	compressFrom = 64 << 10 // bytes of an answer from which a client that accepts gzip gets it

	headerTimeout = 10 * time.Second // for a request's headers to arrive
	idleTimeout   = 5 * time.Minute  // for an unused connection
	readyTimeout  = 2 * time.Second  // for the service to answer /readyz
	grace         = 5 * time.Second  // for calls in flight when a server ends
)

// Options are what a [Server] may be told; the zero value is whole.
type Options struct {
	Log *slog.Logger // panics and ended connections; nil: nowhere
}

// Server is an [http.Handler] that answers for a service: the calls of
// MemoryService in Connect, gRPC, gRPC-Web and JSON, /healthz (the process
// lives) and /readyz (the service answers and is ready).
type Server struct {
	mux     *http.ServeMux
	service coordinator.Service
	log     *slog.Logger
}

// NewServer returns a server over the service.
func NewServer(service coordinator.Service, o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{mux: http.NewServeMux(), service: service, log: o.Log}
	s.mux.Handle(recalldv1connect.NewMemoryServiceHandler(
		handler{service},
		connect.WithReadMaxBytes(MaxMessage),
		connect.WithCompressMinBytes(compressFrom),
		connect.WithCodec(jsonCodec{}),
		connect.WithRecover(s.recovered),
	))
	s.mux.HandleFunc("GET /healthz", s.healthz)
	s.mux.HandleFunc("GET /readyz", s.readyz)
	return s
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Serve answers on the listener, over HTTP/1.1 and HTTP/2 without TLS, until
// ctx ends; then calls in flight have five seconds to finish before theirs are
// cancelled. It returns nil after such an end, and when all its connections are
// closed.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	calls, cancelCalls := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelCalls()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler:           s,
		Protocols:         protocols,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		BaseContext:       func(net.Listener) context.Context { return calls },
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	waiting, done := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer done()
	err := server.Shutdown(waiting)
	cancelCalls()
	if err != nil {
		err = server.Close()
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// recovered turns a panic into one failed call.
func (s *Server) recovered(_ context.Context, spec connect.Spec, _ http.Header, value any) error {
	s.log.Error("panic in a call", "call", spec.Procedure, "panic", value, "stack", string(debug.Stack()))
	return connect.NewError(connect.CodeInternal, errors.New("internal error; the server's log has it"))
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") }

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, done := context.WithTimeout(r.Context(), readyTimeout)
	defer done()
	status, err := s.service.Status(ctx)
	switch {
	case err != nil:
		http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
	case !status.Ready:
		http.Error(w, "not ready", http.StatusServiceUnavailable)
	default:
		_, _ = io.WriteString(w, "ready\n")
	}
}
