package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner"
)

// socketRoom is how many bytes of a runtime folder's path leave room for what
// go-plugin appends: sockets end at 104 bytes on some systems, 108 on others
// (DECISIONS 32).
const socketRoom = 60

// process is one running scanner.
type process struct {
	plugin   *plugin.Client
	command  *exec.Cmd
	sockets  string   // its folder; removed with the process
	lifeline *os.File // the writing end; closed with the process
	calls    scannerv1.ScannerClient
	words    scannerv1.WordsClient
	scans    streams[scannerv1.ScanRequest, scannerv1.ScanReply]
	ranks    streams[scannerv1.RankRequest, scannerv1.RankReply]
}

// launch starts a process and shakes hands with it. The process is killed when the
// context ends: what says nothing for StartTimeout must not keep Close waiting.
func (o *Options) launch(ctx context.Context) (*process, error) {
	reading, writing, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the scanner's lifeline: %w", err)
	}
	defer reading.Close()
	sockets, err := os.MkdirTemp(o.Runtime, "s")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a folder for the scanner's socket: %w", err), writing.Close())
	}
	command := exec.CommandContext(ctx, o.Command[0], o.Command[1:]...)
	if o.Lock {
		command.Args = append(command.Args, "--mlock")
	}
	command.Env = append(os.Environ(), scanner.Lifeline+"="+scanner.LifelineFD, plugin.EnvUnixSocketDir+"="+sockets)
	command.ExtraFiles = []*os.File{reading}
	p := &process{command: command, lifeline: writing, sockets: sockets, plugin: plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  scanner.Handshake(),
		Plugins:          plugin.PluginSet{scanner.PluginName: &scanner.Plugin{}},
		Cmd:              command,
		SkipHostEnv:      true,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		StartTimeout:     o.StartTimeout,
		Logger:           hclog.NewNullLogger(),
		Stderr:           o.Stderr,
		GRPCDialOptions:  scanner.DialOptions(),
	})}
	connection, err := p.plugin.Client()
	if err != nil {
		return nil, errors.Join(o.notStarted(err), p.end())
	}
	service, err := connection.Dispense(scanner.PluginName)
	if err != nil {
		return nil, errors.Join(o.notStarted(err), p.end())
	}
	calls := service.(scanner.Calls)
	p.calls, p.words = calls, calls
	p.scans.open, p.ranks.open = calls.Scans, calls.Ranks
	return p, nil
}

// notStarted says in one line which command is wrong; what go-plugin says has many.
func (o *Options) notStarted(err error) error {
	why, _, _ := strings.Cut(err.Error(), "\n")
	return fmt.Errorf("start the scanner with %q: %s; its command must be recalld scanner, of this version", strings.Join(o.Command, " "), strings.TrimRight(why, ": "))
}

// end kills the process, which has nothing to lose and may hang, and waits for
// it.
func (p *process) end() error {
	if p.command.Process != nil {
		_ = p.command.Process.Kill() // it may be gone already
	}
	p.plugin.Kill()
	return errors.Join(p.lifeline.Close(), os.RemoveAll(p.sockets))
}

// attempt is one start of a process, which any number of calls wait for.
type attempt struct {
	done    chan struct{} // closed when process or err is set
	process *process
	err     error
	probed  atomic.Bool // whether somebody is asking if it hangs
}

// wait returns when the process is up or did not come up. It waits no longer than
// patience, 0 for any time, and leaves the caller half of its own.
func (a *attempt) wait(ctx context.Context, patience time.Duration, clock func() time.Time) error {
	var enough <-chan time.Time
	if patience > 0 {
		if deadline, ok := ctx.Deadline(); ok {
			patience = min(patience, deadline.Sub(clock())/2)
		}
		timer := time.NewTimer(patience)
		defer timer.Stop()
		enough = timer.C
	}
	select {
	case <-a.done:
		return nil
	default:
	}
	select {
	case <-a.done:
		return nil
	case <-enough:
		return fmt.Errorf("%w: it is starting", ErrUnavailable)
	case <-ctx.Done():
		return typed(ctx, ctx.Err())
	}
}

// running returns the attempt that calls use, and begins one when there is none.
func (c *Client) running() (*attempt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if c.attempt == nil {
		a := &attempt{done: make(chan struct{})}
		c.attempt = a
		failures := c.failures
		c.tasks.Go(func() { c.start(a, failures) })
	}
	return c.attempt, nil
}

// drop gives an attempt up, once, and ends its process.
func (c *Client) drop(a *attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attempt != a {
		return
	}
	c.attempt = nil
	c.failures++
	if a.process != nil {
		c.tasks.Go(func() { _ = a.process.end() }) // it was of no use any more
	}
}

// probe asks a process that let a call's deadline pass for a sign of life, and
// gives it up when none comes.
func (c *Client) probe(a *attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || a.probed.Swap(true) {
		return
	}
	c.tasks.Go(func() {
		defer a.probed.Store(false)
		ctx, cancel := context.WithTimeout(c.ctx, c.options.HangTimeout)
		defer cancel()
		_, err := a.process.calls.Stats(ctx, &scannerv1.StatsRequest{})
		if code := status.Code(err); code == codes.DeadlineExceeded || code == codes.Unavailable {
			c.drop(a)
		}
	})
}

// start waits as long as the failures before it demand, starts a process and
// gives it everything. It has its own deadline: a hurried caller must not keep
// the next one from finding a process.
func (c *Client) start(a *attempt, failures int) {
	defer close(a.done)
	select {
	case <-time.After(c.options.backOff(failures)):
	case <-c.ctx.Done():
		a.err = ErrClosed
		return
	}
	p, err := c.options.launch(c.ctx)
	if err != nil {
		a.err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.options.StartTimeout)
	defer cancel()
	if err := c.teach(ctx, p.calls); err != nil {
		a.err = errors.Join(typed(ctx, err), p.end())
		return
	}
	a.process = p
	c.starts.Add(1)
}

// teach gives a new process the folder, the generation and the changes since.
func (c *Client) teach(ctx context.Context, calls scannerv1.ScannerClient) error {
	c.mu.Lock()
	published, applied := c.published, slices.Clone(c.applied)
	c.mu.Unlock()
	if _, err := calls.Open(ctx, &scannerv1.OpenRequest{Folder: c.options.Folder, TruthId: c.options.TruthID}); err != nil {
		return err
	}
	if published == nil {
		return nil
	}
	if _, err := calls.Publish(ctx, published); err != nil {
		return err
	}
	for _, a := range applied {
		if _, err := calls.Apply(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// backOff is how long a start waits after so many failures in a row: the first
// repetition not at all, so that it fits into a call's deadline.
func (o *Options) backOff(failures int) time.Duration {
	if failures < 2 {
		return 0
	}
	return min(o.MaxBackOff, o.MinBackOff<<min(failures-2, 20))
}
