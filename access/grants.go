package access

import (
	"crypto/subtle"
	"fmt"
	"log/slog"
)

// Grants are the clients that may enter. They do not change and are safe for
// concurrent use.
type Grants struct {
	clients []*Client
	digests []digest // of the clients' tokens
}

// Single returns grants of one client, which may do everything with the token.
func Single(name string, token Secret) *Grants {
	return &Grants{[]*Client{NewClient(name, ReadWrite)}, []digest{digestOf(token.text)}}
}

// Identify returns the client whose token was presented, nil when it is
// nobody's. The time taken depends on the token's length and on the number of
// clients alone: the token is hashed once and compared with every client's
// digest, also after a match.
func (g *Grants) Identify(token string) *Client {
	presented := digestOf(token)
	found := len(g.clients)
	for i := range g.digests {
		found = subtle.ConstantTimeSelect(presented.same(g.digests[i]), i, found)
	}
	if found == len(g.clients) {
		return nil
	}
	return g.clients[found]
}

// Len is how many clients there are.
func (g *Grants) Len() int { return len(g.clients) }

// String names no client and no token.
func (g *Grants) String() string { return fmt.Sprintf("grants of %d clients", len(g.clients)) }

// GoString implements [fmt.GoStringer].
func (g *Grants) GoString() string { return g.String() }

// LogValue implements [slog.LogValuer].
func (g *Grants) LogValue() slog.Value { return slog.StringValue(g.String()) }
