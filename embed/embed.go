package embed

import (
	"context"
	"errors"
	"fmt"
)

// Purpose says on which side of a search a text stands. Models that were
// trained with prompts treat the sides differently (RT-113).
type Purpose uint8

// The two sides of a search.
const (
	Document Purpose = iota // a stored text
	Query                   // a text that searches
)

// String returns the purpose's name in settings and errors.
func (p Purpose) String() string {
	if p == Query {
		return "query"
	}
	return "document"
}

// Window is how much of one text a model reads. An unknown window means that
// texts are not divided into nodes, and that this is said.
type Window struct {
	Limit int    // tokens of one text, the model's own markers included; 0 when unknown
	Unit  string // "piece" counted in process, "token" counted by a server, "" when unknown
	Known bool
}

// Model is one embedding model. Its methods may be called concurrently.
type Model interface {
	// Embed returns one unit vector of the model's dimension per text, in the
	// order of texts, and nil for a text that the model cannot embed: a terminal
	// state, never worth another try. Any number of texts may be given.
	// Errors: [ErrUnavailable] and its kinds, [ErrBadResponse], [ErrNoModel], or
	// the context's.
	Embed(ctx context.Context, p Purpose, texts []string) ([][]float32, error)

	// Identity returns what the model is known by. The first success is kept
	// until [Recheck] or an outage gives a reason to ask again.
	Identity(ctx context.Context) (Identity, error)

	// Local reports that vectors are made in process within microseconds, so
	// that they can be made where a record is stored.
	Local() bool

	// Window returns how much of a text the model reads.
	Window() Window

	// Close releases connections. The model is unusable afterwards.
	Close() error
}

// Kinds of error that callers tell apart with [errors.Is]. In every
// [ErrUnavailable] the texts are fine and can be embedded later.
var (
	// ErrNoModel is the answer of the backend none.
	ErrNoModel = errors.New("no embedding model is configured")
	// ErrUnavailable: nobody listens, no answer in time, a server error, or one
	// of the two kinds below.
	ErrUnavailable = errors.New("embedding server is unavailable")
	// ErrRejected: the server answers and refuses every request of ours, as with
	// a wrong key, path or model name. It is an ErrUnavailable.
	ErrRejected = fmt.Errorf("request was rejected: %w", ErrUnavailable)
	// ErrChanged: the server answers with another model than before. It is an
	// ErrUnavailable; the error itself is a [*ChangedError].
	ErrChanged = fmt.Errorf("another model answers: %w", ErrUnavailable)
	// ErrBadResponse: the answer is not what the contract says (wrong count,
	// wrong dimension, not numbers, too large).
	ErrBadResponse = errors.New("embedding server sent a bad response")
	// ErrNotOffered: the server does not count tokens.
	ErrNotOffered = errors.New("the embedding server does not offer this")
)

// DimensionError refuses vectors of a dimension other than the expected one. It
// is an [ErrBadResponse].
type DimensionError struct {
	Want, Got int
}

// Error implements error.
func (e *DimensionError) Error() string {
	return fmt.Sprintf("the model returned vectors of %d dimensions where %d were expected; check the model name, or rebuild the index for the new model", e.Got, e.Want)
}

// Is makes every DimensionError an [ErrBadResponse].
func (e *DimensionError) Is(target error) bool { return target == ErrBadResponse }

// Rechecker is a model that can be asked again who it is.
type Rechecker interface {
	Recheck(ctx context.Context) (Verdict, error)
}

// Recheck embeds the probe sentences anew and compares them with the identity
// the model had. Callers use it on the interval they choose; after an outage
// the model does it by itself before the next vector. A local model cannot
// change and is always [Same].
func Recheck(ctx context.Context, m Model) (Verdict, error) {
	if r, ok := m.(Rechecker); ok {
		return r.Recheck(ctx)
	}
	return Same, nil
}

// TokenCounter is a model that can say where its window closes on a text.
type TokenCounter interface {
	// CountTokens returns one measurement per text, in order. It fails with
	// [ErrNotOffered] when the server has no such call.
	CountTokens(ctx context.Context, texts []string) ([]TokenCount, error)
}

// TokenCount measures one text against a model's window.
type TokenCount struct {
	Tokens    int // tokens of the whole text
	Window    int // tokens that the model reads
	WindowEnd int // code points of the text that the window holds; all of them when it fits
}
