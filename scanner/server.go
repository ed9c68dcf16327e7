package scanner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"recalld/layout"
	scannerv1 "recalld/proto/recalld/scanner/v1"
)

// Server answers the service of scanner.proto. Its methods may be called
// concurrently.
type Server struct {
	scannerv1.UnimplementedScannerServer

	passes  passes
	turns   *turns
	clock   func() time.Time
	locking locking

	change sync.Mutex // held by Open, Publish and Apply

	mu      sync.Mutex // what follows, and the fields of leases
	folder  string
	truthID string
	state   *state // nil before the first Publish
	files   map[fileKey]*file

	scans, scanned, ranks, ranked atomic.Uint64

	ctx   context.Context // of populating
	stop  context.CancelFunc
	tasks sync.WaitGroup
}

// Options of [NewServer] and [Serve].
type Options struct {
	Threads int              // goroutines that compare rows at a time, 0 for as many as there are processors
	Clock   func() time.Time // of what [Server.Stats] reports; nil: the machine's
	Lock    bool             // whether codes are locked in memory, as far as the system lets it
	Log     io.Writer        // for what it does not; nil: only [Server.Stats] says so
}

// NewServer returns a server that waits for Open.
func NewServer(o Options) *Server {
	if o.Threads < 1 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{clock: o.Clock, turns: newTurns(o.Threads, o.Clock), files: make(map[fileKey]*file), ctx: ctx, stop: stop}
	s.passes.serve(s, o.Threads)
	if o.Lock {
		s.locking.pages = lockPages
	}
	s.locking.say = func(problem string) {
		if o.Log != nil {
			fmt.Fprintln(o.Log, "scanner:", problem)
		}
	}
	return s
}

// Close waits for what runs in the background. Requests must have ended.
func (s *Server) Close() {
	s.stop()
	s.tasks.Wait()
	s.passes.tasks.Wait()
	s.change.Lock()
	defer s.change.Unlock()
	s.install(nil)
}

// Open implements the service.
func (s *Server) Open(_ context.Context, r *scannerv1.OpenRequest) (*scannerv1.OpenReply, error) {
	s.change.Lock()
	defer s.change.Unlock()
	switch {
	case s.folder != "":
		return nil, wire(invalid("folder", "was given before"))
	case !filepath.IsAbs(r.GetFolder()):
		return nil, wire(invalid("folder", "is not an absolute path"))
	case r.GetTruthId() == "" || len(r.GetTruthId()) > 63:
		return nil, wire(invalid("truth_id", "has %d bytes, not 1 to 63", len(r.GetTruthId())))
	}
	s.folder, s.truthID = r.GetFolder(), r.GetTruthId()
	return &scannerv1.OpenReply{}, nil
}

// Publish implements the service. Files that the generation before had stay
// open and verified.
func (s *Server) Publish(_ context.Context, r *scannerv1.PublishRequest) (*scannerv1.StateReply, error) {
	s.change.Lock()
	defer s.change.Unlock()
	if s.folder == "" {
		return nil, wire(invalid("folder", "was not opened"))
	}
	l := &lease{readers: 1}
	var next *state
	err := layout.Guard(func() (err error) {
		next, err = s.newState(r, l)
		return err
	})
	if err != nil {
		s.release(l)
		return nil, wire(err)
	}
	s.install(next)
	s.tasks.Go(func() { s.populate() })
	return &scannerv1.StateReply{State: next.wire()}, nil
}

// install makes a state the one that new scans see.
func (s *Server) install(next *state) {
	s.mu.Lock()
	last := s.state
	s.state = next
	s.mu.Unlock()
	if last != nil && (next == nil || last.lease != next.lease) {
		s.release(last.lease)
	}
}

// populate reads the codes of the newest generation into memory, and locks them
// there when that is wanted.
func (s *Server) populate() {
	st, err := s.enter()
	if err != nil {
		return
	}
	defer s.release(st.lease)
	for _, f := range st.lease.files {
		if f.segment != nil {
			populate(s.ctx, f.mapped())
		}
	}
	s.locking.lock(st.lease.files)
}

// Apply implements the service.
func (s *Server) Apply(_ context.Context, r *scannerv1.ApplyRequest) (*scannerv1.StateReply, error) {
	s.change.Lock()
	defer s.change.Unlock()
	last, err := s.enter()
	if err != nil {
		return nil, wire(err)
	}
	defer s.release(last.lease)
	if r.GetGeneration() != last.generation {
		return nil, wire(invalid("generation", "is %d, the scanner has %d", r.GetGeneration(), last.generation))
	}
	if r.GetSequence() < last.sequence {
		return nil, wire(invalid("sequence", "is %d, the scanner has %d", r.GetSequence(), last.sequence))
	}
	next, err := last.with(r)
	if err != nil {
		return nil, wire(err)
	}
	s.install(next)
	return &scannerv1.StateReply{State: next.wire()}, nil
}

// Scan answers one request of Scans.
func (s *Server) Scan(ctx context.Context, r *scannerv1.ScanRequest) (*scannerv1.ScanReply, error) {
	st, err := s.enter()
	if err != nil {
		return nil, wire(err)
	}
	defer s.release(st.lease)
	var reply *scannerv1.ScanReply
	err = layout.Guard(func() (err error) {
		reply, err = s.scan(ctx, st, r)
		return err
	})
	if err != nil {
		return nil, wire(err)
	}
	s.scans.Add(1)
	s.scanned.Add(reply.GetRowsScanned())
	return reply, nil
}

// Rank answers one request of Ranks.
func (s *Server) Rank(ctx context.Context, r *scannerv1.RankRequest) (*scannerv1.RankReply, error) {
	st, err := s.enter()
	if err != nil {
		return nil, wire(err)
	}
	defer s.release(st.lease)
	var reply *scannerv1.RankReply
	err = layout.Guard(func() (err error) {
		reply, err = s.rank(ctx, st, r)
		return err
	})
	if err != nil {
		return nil, wire(err)
	}
	s.ranks.Add(1)
	s.ranked.Add(reply.GetRowsScanned())
	return reply, nil
}

// Scans implements the service.
func (s *Server) Scans(stream grpc.BidiStreamingServer[scannerv1.ScanRequest, scannerv1.ScanReply]) error {
	return answerAll(stream, s.Scan)
}

// Ranks implements the service.
func (s *Server) Ranks(stream grpc.BidiStreamingServer[scannerv1.RankRequest, scannerv1.RankReply]) error {
	return answerAll(stream, s.Rank)
}

// answerAll answers requests one after the other, until there are no more or one
// ends with an error.
func answerAll[Q, A any](stream grpc.BidiStreamingServer[Q, A], answer func(context.Context, *Q) (*A, error)) error {
	for {
		q, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		a, err := answer(stream.Context(), q)
		if err != nil {
			return err
		}
		if err := stream.Send(a); err != nil {
			return err
		}
	}
}
