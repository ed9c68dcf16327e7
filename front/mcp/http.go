package mcp

import (
	"context"
	"fmt"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recalld/coordinator"
)

// Handler speaks MCP over streamable HTTP. It keeps no sessions: every request
// stands alone, so that any number of such fronts may answer for one another.
// Who may ask what is decided around it: by the handler before it, which puts
// the client into the request's context, and by the service behind it.
func Handler(service coordinator.Service, o Options) (http.Handler, error) {
	s, err := newServer(service, o)
	if err != nil {
		return nil, fmt.Errorf("mcp: %w", err)
	}
	protocol := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{
		Stateless:                    true,
		JSONResponse:                 true,
		Logger:                       o.Log,
		MaxRequestBodyBytes:          MaxFrame,
		PropagateRequestCancellation: true,
		DisableLocalhostProtection:   true, // the guard in front knows which hosts are its own
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocol.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), connectedKey{}, r.Context())))
	}), nil
}

type connectedKey struct{}

// whileConnected ends with the HTTP request that a call came in, which the
// protocol's own context does not for clients of older versions.
func whileConnected(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	request, ok := ctx.Value(connectedKey{}).(context.Context)
	if !ok {
		return ctx, cancel
	}
	stop := context.AfterFunc(request, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
