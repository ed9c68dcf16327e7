package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"connectrpc.com/connect"

	"recalld/coordinator"
	"recalld/front/guard"
	pb "recalld/proto/recalld/v1"
	"recalld/proto/recalld/v1/recalldv1connect"
)

// LoadClient asks a server, as one client with one call at a time. An error of a
// full queue wraps [guard.ErrOverloaded].
type LoadClient interface {
	Recall(ctx context.Context, query string) error
	Store(ctx context.Context, session string, texts []string) error
	// Waiting is how many records wait for their vector or their blocks.
	Waiting(ctx context.Context) (int64, error)
}

// errNotStored is a store that was answered and kept nothing.
var errNotStored = errors.New("not stored")

// NewServiceLoadClient returns a client that asks a service, as over a socket.
func NewServiceLoadClient(s coordinator.Service) LoadClient { return serviceLoadClient{s} }

type serviceLoadClient struct{ service coordinator.Service }

func (c serviceLoadClient) Recall(ctx context.Context, query string) error {
	_, err := c.service.Recall(ctx, coordinator.RecallRequest{Agent: LoadAgent, Query: query, Count: loadAnswer})
	return err
}

func (c serviceLoadClient) Store(ctx context.Context, session string, texts []string) error {
	var items []coordinator.StoreItem
	for _, text := range texts {
		item := coordinator.StoreItem{Content: text}
		item.Source.ID = session
		items = append(items, item)
	}
	answer, err := c.service.Store(ctx, coordinator.StoreRequest{Agent: LoadAgent, Items: items})
	if err != nil {
		return err
	}
	for _, r := range answer.Results {
		if r.Error != "" {
			return fmt.Errorf("%w: %s", errNotStored, r.Error)
		}
	}
	return nil
}

func (c serviceLoadClient) Waiting(ctx context.Context) (int64, error) {
	status, err := c.service.Status(ctx)
	if err != nil {
		return 0, err
	}
	return status.Queue.Pending + status.Blocks.Waiting, nil
}

// NewHTTPLoadClient returns a client of a server's URL over TCP, with a connection
// of its own. An empty token is not sent.
func NewHTTPLoadClient(url, token string) LoadClient {
	client := &http.Client{Transport: bearer{token: token, next: &http.Transport{}}}
	return httpLoadClient{recalldv1connect.NewMemoryServiceClient(client, url)}
}

// bearer sends a token with every request.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.next.RoundTrip(r)
}

type httpLoadClient struct {
	calls recalldv1connect.MemoryServiceClient
}

func (c httpLoadClient) Recall(ctx context.Context, query string) error {
	_, err := c.calls.Recall(ctx, &pb.RecallRequest{Agent: LoadAgent, Query: query, Count: loadAnswer})
	return overloaded(err)
}

func (c httpLoadClient) Store(ctx context.Context, session string, texts []string) error {
	request := &pb.StoreRequest{Agent: LoadAgent}
	for _, text := range texts {
		request.Items = append(request.Items, &pb.StoreItem{Content: text, Source: &pb.Source{Id: session}})
	}
	answer, err := c.calls.Store(ctx, request)
	if err != nil {
		return overloaded(err)
	}
	for _, r := range answer.GetResults() {
		if r.GetError() != "" {
			return fmt.Errorf("%w: %s", errNotStored, r.GetError())
		}
	}
	return nil
}

func (c httpLoadClient) Waiting(ctx context.Context) (int64, error) {
	status, err := c.calls.Status(ctx, &pb.StatusRequest{})
	if err != nil {
		return 0, overloaded(err)
	}
	return status.GetQueue().GetPending() + status.GetBlocks().GetWaiting(), nil
}

// overloaded marks what a full queue of a server says: resource_exhausted without
// the details that other refusals of that code have.
func overloaded(err error) error {
	var refusal *connect.Error
	if !errors.As(err, &refusal) || refusal.Code() != connect.CodeResourceExhausted {
		return err
	}
	for _, d := range refusal.Details() {
		value, err := d.Value()
		if detail, ok := value.(*pb.ErrorDetail); err == nil && ok && len(detail.GetKinds()) > 0 && detail.GetKinds()[0] != "overloaded" {
			return refusal
		}
	}
	return fmt.Errorf("%w: %w", guard.ErrOverloaded, refusal)
}
