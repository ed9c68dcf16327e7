package coordinator

import (
	"context"

	"recalld/memory"
)

// Calibrate measures.
func (c *Coordinator) Calibrate(ctx context.Context, r CalibrateRequest) (*CalibrateResponse, error) {
	return nil, memory.ErrNotFound
}
