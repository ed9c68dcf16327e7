package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
)

// Options of [New].
type Options struct {
	Command []string // the scanner's program and arguments, such as recalld scanner
	Folder  string   // of the derived files, absolute
	TruthID string   // of the store
	Runtime string   // an existing folder for sockets, with a path of at most 60 bytes

	Lock         bool          // whether codes are locked in memory: the program gets --mlock as well
	Stderr       io.Writer     // what the process writes there; nil: nowhere
	StartTimeout time.Duration // for a process to come up and take everything; 0: a minute
	Patience     time.Duration // how long a call waits for a process to come up, or half of its own time; 0: as long as its context
	SignAfter    time.Duration // of a call, until the process is asked for a sign of life; 0: a second
	HangTimeout  time.Duration // for that sign; 0: 3 s
	MinBackOff   time.Duration // before the third start in a row; 0: 50 ms; doubles
	MaxBackOff   time.Duration // 0: 5 s

	Clock func() time.Time // what deadlines are compared with; nil: the machine's
}

// Client asks the scanner. Its methods may be called concurrently.
type Client struct {
	options Options
	starts  atomic.Int64

	change sync.Mutex // held by Publish and Apply

	mu        sync.Mutex
	closed    bool
	attempt   *attempt // nil: none
	failures  int      // in a row
	published *scannerv1.PublishRequest
	applied   []*scannerv1.ApplyRequest // since

	ctx   context.Context // of the client's life
	stop  context.CancelFunc
	tasks sync.WaitGroup
}

// New returns a client, which starts no process yet. Options that cannot work
// are a *[memory.FieldError].
func New(o Options) (*Client, error) {
	refuse := func(field, problem, limit, next string) (*Client, error) {
		return nil, &memory.FieldError{Field: field, Problem: problem, Limit: limit, Next: next}
	}
	switch {
	case len(o.Command) == 0:
		return refuse("scanner command", "is empty", "a program", "name one, such as recalld scanner")
	case !filepath.IsAbs(o.Folder):
		return refuse("scanner folder", "is not an absolute path", "an absolute path", "make it one")
	case !filepath.IsAbs(o.Runtime) || len(o.Runtime) > socketRoom:
		return refuse("scanner runtime folder", fmt.Sprintf("has a path of %d bytes", len(o.Runtime)), fmt.Sprintf("an absolute path of at most %d, since a socket's is limited", socketRoom), "choose a shorter one, such as one in /run/user")
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = time.Minute
	}
	if o.HangTimeout == 0 {
		o.HangTimeout = 3 * time.Second
	}
	if o.SignAfter == 0 {
		o.SignAfter = time.Second
	}
	if o.MinBackOff == 0 {
		o.MinBackOff = 50 * time.Millisecond
	}
	if o.MaxBackOff == 0 {
		o.MaxBackOff = 5 * time.Second
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Client{options: o, ctx: ctx, stop: stop}, nil
}

// Close ends the process and waits for everything that the client began.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	a := c.attempt
	c.mu.Unlock()
	c.stop()
	if a != nil {
		<-a.done
		c.drop(a)
	}
	c.tasks.Wait()
	return nil
}

// Starts is how many processes came up so far; the first one counts.
func (c *Client) Starts() int64 { return c.starts.Load() }

// Publish replaces the generation; changes applied before it are forgotten, here
// and there. After ErrFile and ErrRefused the one before stands. After another
// error a process that starts later has the new one.
func (c *Client) Publish(ctx context.Context, g *scannerv1.PublishRequest) (*scannerv1.State, error) {
	c.change.Lock()
	defer c.change.Unlock()
	c.mu.Lock()
	published, applied := c.published, c.applied
	c.published, c.applied = g, nil
	c.mu.Unlock()
	var reply *scannerv1.StateReply
	err := c.do(ctx, func(p *process) (err error) {
		reply, err = p.calls.Publish(ctx, g)
		return err
	})
	if errors.Is(err, ErrFile) || errors.Is(err, ErrRefused) {
		c.mu.Lock()
		c.published, c.applied = published, applied
		c.mu.Unlock()
	}
	return reply.GetState(), err
}

// Apply changes records, all or none. After ErrFile and ErrRefused nothing was
// changed. After another error a process that starts later has the changes.
func (c *Client) Apply(ctx context.Context, r *scannerv1.ApplyRequest) (*scannerv1.State, error) {
	c.change.Lock()
	defer c.change.Unlock()
	c.mu.Lock()
	n := len(c.applied)
	c.applied = append(c.applied, r)
	c.mu.Unlock()
	var reply *scannerv1.StateReply
	err := c.do(ctx, func(p *process) (err error) {
		reply, err = p.calls.Apply(ctx, r)
		return err
	})
	if errors.Is(err, ErrFile) || errors.Is(err, ErrRefused) {
		c.mu.Lock()
		c.applied = c.applied[:n]
		c.mu.Unlock()
	}
	return reply.GetState(), err
}

// Scan asks for the nearest blocks and records of a scope.
func (c *Client) Scan(ctx context.Context, r *scannerv1.ScanRequest) (reply *scannerv1.ScanReply, err error) {
	err = c.do(ctx, func(p *process) (err error) {
		reply, err = p.scans.call(ctx, r)
		return err
	})
	if err == nil && !whole(reply) {
		return nil, fmt.Errorf("%w: the columns of its answer are not of one length", ErrRefused)
	}
	return reply, err
}

// whole reports whether the columns of all hits are of one length; those of cosines
// may be missing.
func whole(reply *scannerv1.ScanReply) bool {
	for _, a := range reply.GetAnswers() {
		for _, h := range []*scannerv1.Hits{a.GetRows(), a.GetParents()} {
			if !columnsAgree(h) {
				return false
			}
		}
	}
	return true
}

func columnsAgree(h *scannerv1.Hits) bool {
	n := len(h.GetIds())
	if len(h.GetKinds()) != n || len(h.GetBlocks()) != n || len(h.GetDistances()) != n {
		return false
	}
	return len(h.GetDots()) == len(h.GetNorms()) && (len(h.GetDots()) == 0 || len(h.GetDots()) == n)
}

// Rank asks for every record vector of a scope that could be among the nearest.
func (c *Client) Rank(ctx context.Context, r *scannerv1.RankRequest) (reply *scannerv1.RankReply, err error) {
	err = c.do(ctx, func(p *process) (err error) {
		reply, err = p.ranks.call(ctx, r)
		return err
	})
	return reply, err
}

// Await waits for a process, [Options.Patience] or not, and has the errors of Stats.
func (c *Client) Await(ctx context.Context) error {
	return c.doWithin(ctx, 0, func(p *process) error {
		_, err := p.calls.Stats(ctx, &scannerv1.StatsRequest{})
		return err
	})
}

// Stats asks for the scanner's numbers.
func (c *Client) Stats(ctx context.Context) (reply *scannerv1.StatsReply, err error) {
	err = c.do(ctx, func(p *process) (err error) {
		reply, err = p.calls.Stats(ctx, &scannerv1.StatsRequest{})
		return err
	})
	return reply, err
}

// do makes a call, and once more when the process was gone or did not come up.
func (c *Client) do(ctx context.Context, call func(*process) error) error {
	return c.doWithin(ctx, c.options.Patience, call)
}

func (c *Client) doWithin(ctx context.Context, patience time.Duration, call func(*process) error) error {
	for again := true; ; again = false {
		a, err := c.running()
		if err != nil {
			return err
		}
		if err := a.wait(ctx, patience, c.options.Clock); err != nil {
			return err
		}
		if err = a.err; err == nil {
			// A process that hangs is replaced before the call's time is over.
			asks := time.AfterFunc(c.options.SignAfter, func() { c.probe(a) })
			err = call(a.process)
			asks.Stop()
			if err == nil {
				c.worked()
				return nil
			}
			if ctx.Err() != nil {
				c.probe(a)
			}
			if !lost(ctx, err) {
				return typed(ctx, err)
			}
		}
		c.drop(a)
		if !again {
			return typed(ctx, err)
		}
	}
}

// worked ends a row of failures.
func (c *Client) worked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = 0
}
