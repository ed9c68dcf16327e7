package scanner

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"recalld/layout"
	scannerv1 "recalld/proto/recalld/scanner/v1"
)

// Server answers the service of scanner.proto. Its methods may be called
// concurrently.
type Server struct {
	scannerv1.UnimplementedScannerServer

	threads int

	change sync.Mutex // held by Open, Publish and Apply

	mu      sync.Mutex // what follows, and the fields of leases
	folder  string
	truthID string
	state   *state // nil before the first Publish
	files   map[fileKey]*file

	scans, scanned atomic.Uint64

	ctx   context.Context // of populating
	stop  context.CancelFunc
	tasks sync.WaitGroup
}

// Options of [NewServer] and [Serve].
type Options struct {
	Threads int // goroutines that compare rows at a time, 0 for as many as there are processors
}

// NewServer returns a server that waits for Open.
func NewServer(o Options) *Server {
	if o.Threads < 1 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Server{threads: o.Threads, files: make(map[fileKey]*file), ctx: ctx, stop: stop}
}

// Close waits for what runs in the background. Requests must have ended.
func (s *Server) Close() {
	s.stop()
	s.tasks.Wait()
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

// populate reads the codes of the newest generation into memory.
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

// Scan implements the service.
func (s *Server) Scan(ctx context.Context, r *scannerv1.ScanRequest) (*scannerv1.ScanReply, error) {
	st, err := s.enter()
	if err != nil {
		return nil, wire(err)
	}
	defer s.release(st.lease)
	var reply *scannerv1.ScanReply
	err = layout.Guard(func() (err error) {
		reply, err = st.scan(ctx, r, s.threads)
		return err
	})
	if err != nil {
		return nil, wire(err)
	}
	s.scans.Add(1)
	s.scanned.Add(reply.GetRowsScanned())
	return reply, nil
}

// Stats implements the service.
func (s *Server) Stats(context.Context, *scannerv1.StatsRequest) (*scannerv1.StatsReply, error) {
	st, err := s.enter()
	if err != nil {
		return nil, wire(err)
	}
	defer s.release(st.lease)
	reply := &scannerv1.StatsReply{State: st.wire(), Process: int64(os.Getpid()), Scans: s.scans.Load(), RowsScanned: s.scanned.Load()}
	for _, f := range st.lease.files {
		reply.MappedBytes += uint64(len(f.mapped()))
	}
	for _, m := range st.models {
		reply.Segments += uint64(len(m.segments))
		for _, segment := range m.segments {
			reply.SegmentRows += uint64(segment.Header().Rows)
			reply.DeadRows += segment.dead.GetCardinality()
		}
		for _, p := range m.delta {
			reply.DeltaRows += uint64(p.rows())
			reply.DeltaBytes += uint64(p.bytes())
		}
	}
	return reply, nil
}
