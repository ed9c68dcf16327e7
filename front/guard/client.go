package guard

import (
	"context"

	"recalld/access"
)

type clientKey struct{}

// WithClient returns a context in which calls are the client's.
func WithClient(ctx context.Context, c *access.Client) context.Context {
	return context.WithValue(ctx, clientKey{}, c)
}

// ClientOf returns whose call this is, nil when nobody's.
func ClientOf(ctx context.Context) *access.Client {
	c, _ := ctx.Value(clientKey{}).(*access.Client)
	return c
}
