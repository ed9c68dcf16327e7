package embed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
)

// remote is a model behind an HTTP server.
type remote struct {
	cfg      Config
	contract contract
	base     *url.URL
	key      string
	client   *http.Client

	gate  chan struct{} // held by the one goroutine that asks the server who it is
	dials atomic.Int64  // connections opened

	mu      sync.Mutex
	known   *Identity // what the server is compared with; nil before the first contact
	trusted bool      // the server has answered as known since the last outage
	checked int64     // dials up to which it has
	window  Window
}

func newRemote(cfg Config, base *url.URL, key string) *remote {
	r := &remote{cfg: cfg, base: base, key: key, gate: make(chan struct{}, 1), contract: plain{}}
	dialer := &net.Dialer{}
	r.client = &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				r.dials.Add(1)
				return dialer.DialContext(ctx, network, addr)
			},
			MaxIdleConnsPerHost: 4,
			// Vectors are numbers in text: a compressed answer would let a
			// small body grow past the bound that was checked.
			DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if cfg.Backend == "openai" {
		r.contract = openAI{model: cfg.Name, inputTypes: cfg.InputTypes}
	}
	if cfg.Expect != nil {
		known := *cfg.Expect
		r.known = &known
	}
	if cfg.WindowTokens > 0 {
		r.window = Window{Limit: cfg.WindowTokens, Unit: "token", Known: true}
	}
	return r
}

func (r *remote) Local() bool { return false }

func (r *remote) Close() error {
	r.client.CloseIdleConnections()
	return nil
}

// Window is the setting's, or what the server's last token count said.
func (r *remote) Window() Window {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.window
}

// Embed implements [Model].
func (r *remote) Embed(ctx context.Context, p Purpose, texts []string) ([][]float32, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	dims, err := r.verify(ctx)
	if err != nil {
		return nil, err
	}
	vectors := make([][]float32, len(texts))
	for _, batch := range r.batches(texts) {
		made, err := r.embedBatch(ctx, p, pick(texts, batch), dims)
		if err == nil {
			err = r.sameServer(ctx)
		}
		if err != nil {
			r.doubt(err)
			return nil, err
		}
		for i, at := range batch {
			vectors[at] = made[i]
		}
	}
	return vectors, nil
}

// reconnectProbe is the sentence that is asked over a new connection. It is
// Japanese, since models that were derived from one another tend to agree on
// English.
const reconnectProbe = 4

// sameServer asks one probe sentence when a connection was opened since the
// server was last known: a server that was swapped between two calls shows as
// nothing else. What it answered meanwhile is dropped when it is another model.
func (r *remote) sameServer(ctx context.Context) error {
	dials := r.dials.Load()
	r.mu.Lock()
	known, checked := *r.known, r.checked >= dials
	r.mu.Unlock()
	if checked {
		return nil
	}
	vectors, err := r.ask(ctx, Document, probes()[reconnectProbe:reconnectProbe+1], known.Dims)
	if err != nil {
		return err
	}
	if !(cosine(vectors[0], known.Probes[reconnectProbe]) >= DifferentCosine) {
		r.mu.Lock()
		r.trusted = false
		r.mu.Unlock()
		_, err := r.verify(ctx)
		return err
	}
	r.mu.Lock()
	r.checked = r.dials.Load()
	r.mu.Unlock()
	return nil
}

// batches divides the texts that have something to embed, in their order, into
// requests. The division depends on the texts and the settings alone (BR-178).
func (r *remote) batches(texts []string) [][]int {
	var all [][]int
	var batch []int
	size := 0
	for i, text := range texts {
		if strings.TrimSpace(text) == "" {
			continue
		}
		if len(batch) == r.cfg.BatchSize || (len(batch) > 0 && size+len(text) > maxRequestBytes) {
			all, batch, size = append(all, batch), nil, 0
		}
		batch = append(batch, i)
		size += len(text)
	}
	if len(batch) > 0 {
		all = append(all, batch)
	}
	return all
}

func pick(texts []string, at []int) []string {
	out := make([]string, len(at))
	for i, j := range at {
		out[i] = texts[j]
	}
	return out
}

// embedBatch embeds one request's texts. When the server refuses the request for
// what it holds, each text is tried alone, so that one text cannot keep its
// neighbours from being embedded.
func (r *remote) embedBatch(ctx context.Context, p Purpose, texts []string, dims int) ([][]float32, error) {
	vectors, err := r.ask(ctx, p, texts, dims)
	if !errors.Is(err, errUnacceptable) {
		return vectors, err
	}
	// A server that refuses a probe sentence as well refuses everything: the fault
	// is in the settings, and no text may be written off for it.
	if _, probeErr := r.ask(ctx, p, probes()[:1], dims); probeErr != nil {
		return nil, probeErr
	}
	vectors = make([][]float32, len(texts))
	for i, text := range texts {
		one, err := r.ask(ctx, p, []string{text}, dims)
		switch {
		case errors.Is(err, errUnacceptable):
			continue
		case err != nil:
			return nil, err
		}
		vectors[i] = one[0]
	}
	return vectors, nil
}

// ask makes one request and returns unit vectors of dims dimensions, or of any
// one dimension when dims is 0.
func (r *remote) ask(ctx context.Context, p Purpose, texts []string, dims int) ([][]float32, error) {
	dressed := texts
	if prompt := r.cfg.Prompts.of(p); prompt != "" {
		dressed = make([]string, len(texts))
		for i, text := range texts {
			dressed[i] = prompt + text
		}
	}
	request, err := r.contract.request(p, dressed)
	if err != nil {
		return nil, fmt.Errorf("embed: write request: %w", err)
	}
	body, err := r.post(ctx, r.contract.path(), request, responseLimit(len(texts), dims))
	if err != nil {
		return nil, err
	}
	vectors, err := r.contract.vectors(body, len(texts))
	if err != nil {
		return nil, err
	}
	for i, v := range vectors {
		if dims != 0 && len(v) != dims {
			return nil, &DimensionError{Want: dims, Got: len(v)}
		}
		if !unit(v) {
			vectors[i] = nil
		}
	}
	return vectors, nil
}

// responseLimit bounds an answer to n texts before anything is read of it.
func responseLimit(n, dims int) int64 {
	if dims == 0 {
		dims = MaxDims
	}
	return responseSlack + int64(n)*(responsePerVector+int64(dims)*responsePerNumber)
}

// verify makes sure that the server is the one that is known, and returns its
// dimension. It asks only at first contact and after an outage or a change.
func (r *remote) verify(ctx context.Context) (dims int, err error) {
	if id, ok := r.trustedIdentity(); ok {
		return id.Dims, nil
	}
	if err := r.enter(ctx); err != nil {
		return 0, err
	}
	defer r.leave()
	if id, ok := r.trustedIdentity(); ok {
		return id.Dims, nil
	}
	_, now, err := r.recheck(ctx)
	if err != nil {
		return 0, err
	}
	if id, ok := r.trustedIdentity(); ok {
		return id.Dims, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return 0, &ChangedError{Was: *r.known, Now: now}
}

// Identity implements [Model]. While the server is away it is the last known one,
// if there is any.
func (r *remote) Identity(ctx context.Context) (Identity, error) {
	r.mu.Lock()
	known := r.known
	r.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	if _, err := r.verify(ctx); err != nil {
		return Identity{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return *r.known, nil
}

// Recheck implements [Rechecker]. After [Different] every Embed asks again and
// fails with [ErrChanged] until the known model is back.
func (r *remote) Recheck(ctx context.Context) (Verdict, error) {
	if err := r.enter(ctx); err != nil {
		return Different, err
	}
	defer r.leave()
	verdict, _, err := r.recheck(ctx)
	return verdict, err
}

// recheck embeds the probe sentences. The caller is inside the gate.
func (r *remote) recheck(ctx context.Context) (Verdict, Identity, error) {
	now, err := r.probe(ctx)
	if err != nil {
		r.doubt(err)
		return Different, Identity{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = &now
	}
	verdict := Compare(*r.known, now)
	r.trusted = verdict != Different
	r.checked = r.dials.Load()
	return verdict, now, nil
}

// probe asks the server who it is. Each sentence travels alone, as queries do:
// batch mates would make the answer depend on the batch size.
func (r *remote) probe(ctx context.Context) (Identity, error) {
	id := Identity{
		Backend:      r.cfg.Backend,
		Name:         r.cfg.Name,
		PromptPolicy: r.promptPolicy(),
		ProbeVersion: ProbeVersion,
	}
	for _, sentence := range probes() {
		vectors, err := r.ask(ctx, Document, []string{sentence}, id.Dims)
		if err != nil {
			return Identity{}, err
		}
		if vectors[0] == nil {
			return Identity{}, fmt.Errorf("%w: a probe sentence has a zero vector", ErrBadResponse)
		}
		id.Dims = len(vectors[0])
		id.Probes = append(id.Probes, vectors[0])
	}
	if r.cfg.Dims != 0 && id.Dims != r.cfg.Dims {
		return Identity{}, &DimensionError{Want: r.cfg.Dims, Got: id.Dims}
	}
	return id, nil
}

func (r *remote) promptPolicy() string {
	return fmt.Sprintf("prompt %q %q input_type %q %q",
		r.cfg.Prompts.Query, r.cfg.Prompts.Document, r.cfg.InputTypes.Query, r.cfg.InputTypes.Document)
}

// doubt makes the next call ask who answers, after any error that another server
// could stand behind.
func (r *remote) doubt(err error) {
	if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrBadResponse) {
		r.mu.Lock()
		r.trusted = false
		r.mu.Unlock()
	}
}

func (r *remote) trustedIdentity() (Identity, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.trusted {
		return Identity{}, false
	}
	return *r.known, true
}

func (r *remote) enter(ctx context.Context) error {
	select {
	case r.gate <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

func (r *remote) leave() { <-r.gate }

// CountTokens implements [TokenCounter] for the embed contract.
func (r *remote) CountTokens(ctx context.Context, texts []string) ([]TokenCount, error) {
	if r.cfg.Backend != "embed" {
		return nil, ErrNotOffered
	}
	counts := make([]TokenCount, len(texts))
	for _, batch := range r.batches(texts) {
		part := pick(texts, batch)
		request, err := plain{}.request(Document, part)
		if err != nil {
			return nil, fmt.Errorf("count tokens: %w", err)
		}
		body, err := r.post(ctx, "/count_tokens", request, responseLimit(len(part), 0))
		if err != nil {
			return nil, err
		}
		made, err := tokenReport(body, part)
		if err != nil {
			return nil, err
		}
		for i, at := range batch {
			counts[at] = made[i]
		}
		r.mu.Lock()
		r.window = Window{Limit: made[0].Window, Unit: "token", Known: true}
		r.mu.Unlock()
	}
	return counts, nil
}
