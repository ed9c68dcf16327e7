package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"recalld/access"
	"recalld/coordinator"
	"recalld/front/api"
	"recalld/front/guard"
	"recalld/memory"
)

// The operations of a load.
const (
	LoadRecall = "recall"
	LoadStore  = "store"
)

// LoadOptions of [Load].
type LoadOptions struct {
	Clients int           // at once, each with one call at a time, at most MaxLoadClients
	For     time.Duration // no call begins later
	Mix     LoadMix
	Records int // stored before, for recalls to find
	// Dial opens one more client of the server.
	Dial     func() (LoadClient, error)
	Progress coordinator.Progress
	Clock    func() time.Time
}

// LoadMix is how many of a hundred calls, or of the sum, are which operation.
type LoadMix struct {
	Recall int `json:"recall"`
	Store  int `json:"store"`
}

// ParseLoadMix reads recall=80,store=20. What it cannot read is a
// *[memory.FieldError].
func ParseLoadMix(text string) (m LoadMix, err error) {
	wrong := &memory.FieldError{Field: "--mix", Problem: memory.Shape(text) + " is no mix", Limit: "recall=N,store=N, whole numbers up to 1000, not both 0", Next: "write it as in recall=80,store=20"}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		n, err := strconv.ParseUint(value, 10, 16)
		if err != nil || n > 1000 {
			return LoadMix{}, wrong
		}
		switch name {
		case LoadRecall:
			m.Recall = int(n)
		case LoadStore:
			m.Store = int(n)
		default:
			return LoadMix{}, wrong
		}
	}
	if m.Recall+m.Store == 0 {
		return LoadMix{}, wrong
	}
	return m, nil
}

// KindLoad is the kind of a LoadReport.
const KindLoad = "load"

// LoadReport is one load: a client alone, all clients, a client alone again.
type LoadReport struct {
	Kind       string   `json:"kind"` // load
	Clients    int      `json:"clients"`
	Seconds    float64  `json:"seconds"` // until the last call ended
	Mix        LoadMix  `json:"mix"`
	Records    int      `json:"records"`
	PerSecond  float64  `json:"per_s"` // calls that were answered
	Shed       int      `json:"shed"`  // calls that a full queue turned away
	Operations []LoadOp `json:"operations"`
	// Before and After are the same calls by one client, before the load and after
	// it: a server that recovers has the same times and nothing shed.
	Before  []LoadOp   `json:"before"`
	After   []LoadOp   `json:"after"`
	Machine Machine    `json:"machine"`
	Load    [2]float64 `json:"load"` // of the machine, over a minute, before and after
}

// LoadOp is one operation. Latencies are those of answered calls, in milliseconds.
type LoadOp struct {
	Name      string         `json:"name"`
	Calls     int            `json:"calls"`
	Answered  int            `json:"answered"`
	PerSecond float64        `json:"per_s"`
	P50       float64        `json:"ms_p50"`
	P95       float64        `json:"ms_p95"`
	P99       float64        `json:"ms_p99"`
	Shed      int            `json:"shed"`
	ShedP50   float64        `json:"shed_ms_p50"` // until a client knew
	Errors    map[string]int `json:"errors,omitempty"`
	First     string         `json:"first_error,omitempty"`
}

const (
	// LoadAgent is whose records a load stores and asks for.
	LoadAgent  = "bench-load"
	loadSeed   = 1
	loadAlone  = 100 // calls of the client alone
	loadBatch  = 100 // records of a store before the load
	loadAnswer = 10
)

// Load fills the server, then drives it. A client that was turned away comes again
// after the time that the server names. Options outside their bounds are a
// *[memory.FieldError].
func Load(ctx context.Context, o LoadOptions) (*LoadReport, error) {
	if err := errors.Join(between("--clients", o.Clients, 1, MaxLoadClients), between("--records", o.Records, 1, MaxLadderRecords), checkSpan(o.For)); err != nil {
		return nil, err
	}
	c, err := newCorpus(loadSeed)
	if err != nil {
		return nil, err
	}
	l := &load{LoadOptions: o, corpus: c}
	clients := make([]LoadClient, o.Clients)
	for i := range clients {
		if clients[i], err = o.Dial(); err != nil {
			return nil, err
		}
	}
	if err := l.fill(ctx, clients[0]); err != nil {
		return nil, err
	}
	if err := l.settle(ctx, clients[0]); err != nil {
		return nil, err
	}
	report := &LoadReport{Kind: KindLoad, Clients: o.Clients, Mix: o.Mix, Records: o.Records, Load: [2]float64{loadAverage()}}
	if report.Before, err = l.alone(ctx, clients[0], 1); err != nil {
		return nil, err
	}
	start := o.Clock()
	all := make([]*loadTally, o.Clients)
	var wait sync.WaitGroup
	for i, client := range clients {
		all[i] = newLoadTally()
		wait.Go(func() {
			r := l.random(2 + i)
			for n := 0; ctx.Err() == nil && o.Clock().Sub(start) < o.For; n++ {
				if l.call(ctx, client, r, fmt.Sprintf("client-%d-%d", i, n), all[i]) {
					pause(ctx, guard.RetryAfter*time.Second)
				}
			}
		})
	}
	wait.Wait()
	took := o.Clock().Sub(start)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	report.Seconds = round(took.Seconds())
	report.Operations = merged(all, took)
	for _, op := range report.Operations {
		report.PerSecond += op.PerSecond
		report.Shed += op.Shed
	}
	report.PerSecond = round(report.PerSecond)
	if report.After, err = l.alone(ctx, clients[0], 2+o.Clients); err != nil {
		return nil, err
	}
	report.Load[1] = loadAverage()
	return report, nil
}

// load is one run.
type load struct {
	LoadOptions
	corpus *corpus
}

func (l *load) random(stream int) *rand.Rand { return rand.New(rand.NewPCG(loadSeed, uint64(stream))) }

// fill stores the records that recalls find.
func (l *load) fill(ctx context.Context, c LoadClient) error {
	for from := 0; from < l.Records; from += loadBatch {
		var texts []string
		for n := from; n < min(from+loadBatch, l.Records); n++ {
			texts = append(texts, l.corpus.plain(n))
		}
		if err := c.Store(ctx, "fill", texts); err != nil {
			return fmt.Errorf("store records before the load: %w", err)
		}
		if l.Progress != nil {
			l.Progress(int64(from+len(texts)), int64(l.Records))
		}
	}
	return nil
}

// settlePatience is how often a server is looked at while as many records wait as
// before: one without a model never has their vectors.
const settlePatience = 6_000

// settle waits until the server has worked up what was stored, so that a load is
// not measured beside that.
func (l *load) settle(ctx context.Context, c LoadClient) error {
	for last, still := int64(-1), 0; still < settlePatience; still++ {
		waiting, err := c.Waiting(ctx)
		if err != nil {
			return fmt.Errorf("look at what the server has to do before the load: %w", err)
		}
		switch {
		case waiting == 0:
			return nil
		case waiting != last:
			last, still = waiting, 0
		}
		if err := wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// alone makes a few calls of the mix by one client.
func (l *load) alone(ctx context.Context, c LoadClient, stream int) ([]LoadOp, error) {
	t, r := newLoadTally(), l.random(stream)
	start := l.Clock()
	for n := range loadAlone {
		l.call(ctx, c, r, fmt.Sprintf("alone-%d-%d", stream, n), t)
	}
	return merged([]*loadTally{t}, l.Clock().Sub(start)), ctx.Err()
}

// call makes one call of the mix and notes how it ended; shed reports whether the
// server turned it away.
func (l *load) call(ctx context.Context, c LoadClient, r *rand.Rand, session string, t *loadTally) (shed bool) {
	name := LoadStore
	if r.IntN(l.Mix.Recall+l.Mix.Store) < l.Mix.Recall {
		name = LoadRecall
	}
	needle := l.corpus.needles[r.IntN(len(l.corpus.needles))]
	var err error
	start := l.Clock()
	if name == LoadRecall {
		err = c.Recall(ctx, needle.question(needle.kinds()[r.IntN(2)]))
	} else {
		err = c.Store(ctx, session, []string{session + " " + l.corpus.plain(r.IntN(l.Records))})
	}
	took := l.Clock().Sub(start)
	if ctx.Err() != nil {
		return false
	}
	return t.note(name, took, err)
}

// loadTally is what one client saw.
type loadTally struct{ ops map[string]*loadCount }

type loadCount struct {
	answered, shed []time.Duration
	errors         map[string]int
	first          string
}

func newLoadTally() *loadTally {
	t := &loadTally{ops: map[string]*loadCount{}}
	for _, name := range []string{LoadRecall, LoadStore} {
		t.ops[name] = &loadCount{errors: map[string]int{}}
	}
	return t
}

func (t *loadTally) note(name string, took time.Duration, err error) (shed bool) {
	c := t.ops[name]
	switch {
	case err == nil:
		c.answered = append(c.answered, took)
	case errors.Is(err, guard.ErrOverloaded):
		c.shed = append(c.shed, took)
		return true
	default:
		c.errors[loadError(err)]++
		if c.first == "" {
			c.first = err.Error()
		}
	}
	return false
}

// loadError is the kind of an error that is no shed.
func loadError(err error) string {
	for _, k := range []struct {
		name string
		err  error
	}{
		{"invalid", memory.ErrInvalid}, {"full", memory.ErrFull}, {"busy", memory.ErrBusy}, {"read_only", memory.ErrReadOnly}, {"paused", memory.ErrPaused},
		{"denied", access.ErrDenied}, {"not_stored", errNotStored}, {"deadline", context.DeadlineExceeded}, {"no_server", api.ErrNoServer},
	} {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return "other"
}

// merged are the operations that were called, over all clients.
func merged(all []*loadTally, took time.Duration) (ops []LoadOp) {
	for _, name := range []string{LoadRecall, LoadStore} {
		op := LoadOp{Name: name}
		var answered, shed []time.Duration
		for _, t := range all {
			c := t.ops[name]
			answered, shed = append(answered, c.answered...), append(shed, c.shed...)
			for kind, n := range c.errors {
				if op.Errors == nil {
					op.Errors = map[string]int{}
				}
				op.Errors[kind] += n
				op.Calls += n
			}
			if op.First == "" {
				op.First = c.first
			}
		}
		op.Answered, op.Shed = len(answered), len(shed)
		if op.Calls += op.Answered + op.Shed; op.Calls == 0 {
			continue
		}
		op.PerSecond = round(float64(op.Answered) / took.Seconds())
		op.P50, op.P95, op.P99, op.ShedP50 = Quantile(answered, .5), Quantile(answered, .95), Quantile(answered, .99), Quantile(shed, .5)
		ops = append(ops, op)
	}
	return slices.Clip(ops)
}

// pause lets a client wait, unless the run ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
