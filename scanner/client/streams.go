package client

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// mostIdle is how many streams of a kind wait for the next call.
const mostIdle = 16

// streams makes calls of one kind to one process, each on a stream of its own that
// stays open for a later one. Opening a stream is a message that wakes the process
// before the request does.
type streams[Q, A any] struct {
	open func(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[Q, A], error)

	mu   sync.Mutex
	idle []*stream[Q, A]
}

type stream[Q, A any] struct {
	grpc.BidiStreamingClient[Q, A]
	ctx    context.Context
	cancel context.CancelFunc // ends it, and what the process does for it
}

// call asks and waits for the answer. When the context ends first, so does the
// stream.
func (s *streams[Q, A]) call(ctx context.Context, q *Q) (*A, error) {
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	one := s.take()
	unwatch := context.AfterFunc(ctx, one.cancel)
	a, err := s.ask(one, q)
	if unwatch() && err == nil && s.put(one) {
		return a, nil
	}
	one.cancel()
	return a, err
}

func (s *streams[Q, A]) ask(one *stream[Q, A], q *Q) (*A, error) {
	if one.BidiStreamingClient == nil {
		var err error
		if one.BidiStreamingClient, err = s.open(one.ctx); err != nil {
			return nil, err
		}
	}
	if err := one.Send(q); err != nil && !errors.Is(err, io.EOF) { // then receiving says why
		return nil, err
	}
	a, err := one.Recv()
	if errors.Is(err, io.EOF) {
		err = status.Error(codes.Unavailable, "the process ended the stream")
	}
	return a, err
}

// take returns an idle stream, the last one used, or one to open.
func (s *streams[Q, A]) take() *stream[Q, A] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.idle) - 1; last >= 0 {
		one := s.idle[last]
		s.idle = s.idle[:last]
		return one
	}
	ctx, cancel := context.WithCancel(context.Background()) // it outlives the call
	return &stream[Q, A]{ctx: ctx, cancel: cancel}
}

// put reports whether there is room for one idle stream more.
func (s *streams[Q, A]) put(one *stream[Q, A]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) >= mostIdle {
		return false
	}
	s.idle = append(s.idle, one)
	return true
}
