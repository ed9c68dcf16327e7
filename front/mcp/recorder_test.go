package mcp

import (
	"context"
	"sync"

	"recalld/coordinator"
)

// recorder is a service that keeps what it was asked and gives what it was told
// to. Calls that no tool makes are not there.
type recorder struct {
	coordinator.Service
	mu       sync.Mutex
	store    coordinator.StoreRequest
	recall   coordinator.RecallRequest
	contents coordinator.ContentsRequest
	calls    int

	storeAnswer    coordinator.StoreResponse
	recallAnswer   coordinator.RecallResponse
	contentsAnswer coordinator.ContentsResponse
	context        coordinator.OperatingContext
	err            error
	panics         bool
}

func (r *recorder) record(keep func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	keep()
	if r.panics {
		panic("told to")
	}
}

func (r *recorder) Store(_ context.Context, q coordinator.StoreRequest) (coordinator.StoreResponse, error) {
	r.record(func() { r.store = q })
	return r.storeAnswer, r.err
}

func (r *recorder) Recall(_ context.Context, q coordinator.RecallRequest) (*coordinator.RecallResponse, error) {
	r.record(func() { r.recall = q })
	return &r.recallAnswer, r.err
}

func (r *recorder) GetContents(_ context.Context, q coordinator.ContentsRequest) (*coordinator.ContentsResponse, error) {
	r.record(func() { r.contents = q })
	return &r.contentsAnswer, r.err
}

func (r *recorder) OperatingContext(context.Context, string) (*coordinator.OperatingContext, error) {
	return &r.context, nil
}
