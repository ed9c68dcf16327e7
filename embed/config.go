package embed

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"recalld/memory"
)

// Bounds of settings.
const (
	MaxDims           = 16_384 // dimension of any model
	EmbedBatchLimit   = 32     // texts per request that the embed contract allows
	OpenAIBatchLimit  = 2_048  // texts per request of the openai backend
	DefaultBatchSize  = 32
	DefaultTimeout    = 30 * time.Second
	DefaultAttempts   = 3
	maxAttempts       = 10
	maxWindowTokens   = 1 << 20
	maxRequestBytes   = 1 << 20 // of text per request, unless one text alone is larger
	firstBackoff      = 200 * time.Millisecond
	maxBackoff        = 10 * time.Second
	responseSlack     = 64 << 10
	responsePerVector = 512 // bytes beside the numbers
	responsePerNumber = 32  // bytes of one JSON number and its comma
)

// Backends that [Open] knows, in the order that help shows them.
func Backends() []string { return []string{"static", "hash", "openai", "embed", "none"} }

// Pair holds one string per side of a search.
type Pair struct {
	Query, Document string
}

func (p Pair) of(purpose Purpose) string {
	if purpose == Query {
		return p.Query
	}
	return p.Document
}

// Config says which model to open. The zero value is the backend static.
type Config struct {
	Backend string // one of [Backends]; "" is static
	URL     string // http or https; for openai with or without /v1
	Name    string // the model's name as the server knows it; needed by openai
	KeyEnv  string // name of the environment variable that holds the key; "" sends none
	Dims    int    // demanded dimension; 0 takes the server's

	Prompts    Pair // written before each text, as "query: " and "passage: " for the e5 family
	InputTypes Pair // sent as input_type where a server wants the side named; openai only

	WindowTokens int           // what the model reads of one text; 0 is unknown
	BatchSize    int           // texts per request; 0 is [DefaultBatchSize]
	Timeout      time.Duration // of one attempt, answer included; 0 is [DefaultTimeout]
	Attempts     int           // tries per request while the server is unavailable; 0 is [DefaultAttempts]

	// Expect is the identity that stored vectors were made with. When it is set,
	// the first contact is compared with it, and another model is refused with
	// [ErrChanged]. When nil, the first contact sets it.
	Expect *Identity

	// Sleep waits between attempts; nil is a timer that the context ends.
	Sleep func(ctx context.Context, d time.Duration) error
	// Jitter returns a number in [0, 1) that spreads the waiting time; nil is
	// random.
	Jitter func() float64
}

// Open makes the model that cfg describes. It contacts nobody: the first use
// does. An error is a [*memory.FieldError] that names the setting, or says that the
// binary is broken.
func Open(cfg Config) (Model, error) {
	switch cfg.Backend {
	case "", "static":
		return newStatic()
	case "hash":
		return newHashing(), nil
	case "none":
		return none{}, nil
	case "openai", "embed":
		return openRemote(cfg)
	}
	return nil, refuse("backend", "is unknown: "+memory.Shape(cfg.Backend), strings.Join(Backends(), ", "), "choose one of them")
}

func refuse(field, problem, limit, next string) error {
	return &memory.FieldError{Field: "embedding." + field, Problem: problem, Limit: limit, Next: next}
}

func openRemote(cfg Config) (Model, error) {
	base, err := parseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	batchLimit := EmbedBatchLimit
	if cfg.Backend == "openai" {
		batchLimit = OpenAIBatchLimit
		if strings.TrimSpace(cfg.Name) == "" {
			return nil, refuse("name", "is empty", "the model's name", "give the name that the server lists under /v1/models")
		}
	} else if cfg.InputTypes != (Pair{}) {
		return nil, refuse("input_types", "is set for the embed contract, which has no such field", "openai only", "use prompts")
	}
	cfg.BatchSize = orDefault(cfg.BatchSize, DefaultBatchSize)
	cfg.Attempts = orDefault(cfg.Attempts, DefaultAttempts)
	cfg.Timeout = orDefault(cfg.Timeout, DefaultTimeout)
	for _, s := range []struct {
		field           string
		value, min, max int
	}{
		{"batch_size", cfg.BatchSize, 1, batchLimit},
		{"attempts", cfg.Attempts, 1, maxAttempts},
		{"dims", cfg.Dims, 0, MaxDims},
		{"window_tokens", cfg.WindowTokens, 0, maxWindowTokens},
		{"timeout_ms", int(cfg.Timeout.Milliseconds()), 1, int((10 * time.Minute).Milliseconds())},
	} {
		if s.value < s.min || s.value > s.max {
			return nil, refuse(s.field, "is "+strconv.Itoa(s.value), fmt.Sprintf("%d to %d", s.min, s.max), "set it inside the limit")
		}
	}
	for _, s := range []struct{ field, value string }{
		{"name", cfg.Name}, {"prompts.query", cfg.Prompts.Query}, {"prompts.document", cfg.Prompts.Document},
		{"input_types.query", cfg.InputTypes.Query}, {"input_types.document", cfg.InputTypes.Document},
	} {
		if err := memory.CheckText("embedding."+s.field, s.value, memory.MaxProfile); err != nil {
			return nil, err
		}
	}
	key, err := readKey(cfg.KeyEnv)
	if err != nil {
		return nil, err
	}
	if cfg.Sleep == nil {
		cfg.Sleep = sleep
	}
	if cfg.Jitter == nil {
		cfg.Jitter = rand.Float64
	}
	return newRemote(cfg, base, key), nil
}

// parseURL refuses whatever would make a request go elsewhere than it reads.
func parseURL(raw string) (*url.URL, error) {
	const limit, next = "http://host[:port][/path] or https://", "give the base URL of the embedding server, such as http://127.0.0.1:8000"
	if raw == "" {
		return nil, refuse("url", "is empty", limit, next)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, refuse("url", "cannot be read", limit, next)
	}
	switch {
	case !slices.Contains([]string{"http", "https"}, u.Scheme):
		return nil, refuse("url", "has the scheme "+memory.Shape(u.Scheme), limit, next)
	case u.Hostname() == "":
		return nil, refuse("url", "names no host", limit, next)
	case u.User != nil:
		return nil, refuse("url", "holds a user or a password", limit, "put the key into an environment variable and name it in key_env")
	case u.Fragment != "":
		return nil, refuse("url", "has a fragment", limit, next)
	}
	return u, nil
}

func readKey(env string) (string, error) {
	if env == "" {
		return "", nil
	}
	key := os.Getenv(env)
	if key == "" {
		return "", refuse("key_env", "names "+memory.Shape(env)+", which is not set", "the name of a set environment variable", "export it, or clear key_env")
	}
	for _, r := range key {
		if r < 0x21 || r > 0x7e {
			return "", refuse("key_env", "names a variable whose value cannot stand in an HTTP header", "visible ASCII", "check for a line break at its end")
		}
	}
	return key, nil
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
