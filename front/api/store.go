package api

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"recalld/coordinator"
	pb "recalld/proto/recalld/v1"
)

// itemOverhead covers an item's tag and length in its request's bytes.
const itemOverhead = 16

// Store implements [coordinator.Service]. An item that cannot travel is
// rejected here as the service would. Items that together pass [MaxMessage]
// travel in several messages, in order; when one of those fails, the items
// before it are stored and its error is returned. Repeating the request skips
// them.
func (c *Client) Store(ctx context.Context, r coordinator.StoreRequest) (coordinator.StoreResponse, error) {
	all := coordinator.StoreResponse{Results: make([]coordinator.StoreResult, len(r.Items))}
	whole := &pb.StoreRequest{}
	if err := toMessage(whole, coordinator.StoreRequest{Agent: r.Agent}); err != nil {
		return all, err
	}
	var places []int // in r.Items, of the items that travel
	for i, item := range r.Items {
		m := &pb.StoreItem{}
		if err := toMessage(m, item); err != nil {
			all.Results[i] = coordinator.StoreResult{Outcome: coordinator.OutcomeRejected, Error: err.Error()}
			continue
		}
		whole.Items = append(whole.Items, m)
		places = append(places, i)
	}
	if len(places) == 0 && len(r.Items) > 0 {
		return all, nil
	}
	for _, part := range split(whole, MaxMessage) {
		if err := checkSize(part); err != nil {
			return all, err
		}
		out, err := c.calls.Store(ctx, part)
		if err != nil {
			return all, restore(ctx, err)
		}
		var response coordinator.StoreResponse
		if err := fromMessage(&response, out); err != nil {
			return all, err
		}
		if len(response.Results) != len(part.Items) {
			return all, fmt.Errorf("store: %d results for %d items", len(response.Results), len(part.Items))
		}
		for i, result := range response.Results {
			all.Results[places[i]] = result
		}
		places = places[len(response.Results):]
		all.Advisory = response.Advisory
	}
	return all, nil
}

// split cuts a request between items so that each part is at most limit bytes
// where an item alone is. A request that the service would refuse as a whole is
// not cut.
func split(whole *pb.StoreRequest, limit int) []*pb.StoreRequest {
	if proto.Size(whole) <= limit || len(whole.Items) > coordinator.MaxStoreBatch {
		return []*pb.StoreRequest{whole}
	}
	header := proto.Size(&pb.StoreRequest{Agent: whole.Agent})
	var parts []*pb.StoreRequest
	part, size := &pb.StoreRequest{Agent: whole.Agent}, header
	for _, item := range whole.Items {
		needed := proto.Size(item) + itemOverhead
		if size+needed > limit && len(part.Items) > 0 {
			parts = append(parts, part)
			part, size = &pb.StoreRequest{Agent: whole.Agent}, header
		}
		part.Items = append(part.Items, item)
		size += needed
	}
	return append(parts, part)
}
