package api

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"connectrpc.com/connect"

	"recalld/coordinator"
	"recalld/front/guard"
	"recalld/proto/recalld/v1/recalldv1connect"
)

// MaxMessage is the largest request that a server takes, in bytes.
const MaxMessage = 16 << 20

const (
	compressFrom = 64 << 10 // bytes of an answer from which a client that accepts gzip gets it

	readyTimeout = 2 * time.Second // for the service to answer /readyz
)

// Options are what a [Server] may be told; the zero value is whole.
type Options struct {
	Log *slog.Logger // panics and ended connections; nil: nowhere
	// Health is asked for /readyz, without anybody's grant; nil: the service.
	Health coordinator.Service
	// Metrics count the calls and answer /metrics; nil: there is no such page.
	Metrics *Metrics
	// Presence counts who uses the server; nil: one that misses nobody.
	Presence *Presence
	// Queue is where calls wait for their turn; nil: nobody waits here, because a
	// [guard.New] in front has one.
	Queue *guard.Queue
}

// Server is an [http.Handler] that answers for a service: the calls of
// MemoryService in Connect, gRPC, gRPC-Web and JSON, /healthz (the process
// lives), /readyz (the service answers and is ready) and /metrics.
type Server struct {
	mux      *http.ServeMux
	counted  http.Handler // mux, with everybody counted
	presence *Presence
	health   coordinator.Service
	log      *slog.Logger
}

// NewServer returns a server over the service.
func NewServer(service coordinator.Service, o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Health == nil {
		o.Health = service
	}
	if o.Presence == nil {
		o.Presence = NewPresence(0)
	}
	s := &Server{mux: http.NewServeMux(), presence: o.Presence, health: o.Health, log: o.Log}
	s.counted = o.Presence.counted(s.mux)
	options := []connect.HandlerOption{
		connect.WithReadMaxBytes(MaxMessage),
		connect.WithSendMaxBytes(maxAnswer),
		connect.WithCompressMinBytes(compressFrom),
		connect.WithCodec(jsonCodec{}),
		connect.WithCodec(protoCodec{}),
		connect.WithRecover(s.recovered),
	}
	if o.Metrics != nil {
		options = append(options, connect.WithInterceptors(o.Metrics))
		s.mux.Handle("GET /metrics", o.Metrics)
	}
	path, calls := recalldv1connect.NewMemoryServiceHandler(handler{service}, options...)
	if o.Queue != nil {
		calls = queued(calls, o.Queue, o.Metrics, options...)
	}
	s.mux.Handle(path, calls)
	s.mux.HandleFunc("GET /healthz", s.healthz)
	s.mux.HandleFunc("GET /readyz", s.readyz)
	s.mux.Handle("GET "+presencePath, o.Presence)
	return s
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.counted.ServeHTTP(w, r) }

// Serve answers on the listener as [guard.Serve] does, until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, s.presence.end)()
	return guard.Serve(ctx, l, s, s.log)
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
	status, err := s.health.Status(ctx)
	switch {
	case err != nil:
		http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
	case !status.Ready:
		http.Error(w, "not ready", http.StatusServiceUnavailable)
	default:
		_, _ = io.WriteString(w, "ready\n")
	}
}
