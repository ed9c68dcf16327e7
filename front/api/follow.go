package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Follow returns a client of whichever server runs on a data folder, now and
// later: a connection that is lost is made anew to the server that is announced
// then. Where none answers, revive is called, by one of the calls that wait, and
// then the folder is looked at again; nothing has been sent by that time. revive
// may be nil.
//
// Until the client is closed its process counts as present at the server
// ([Presence]), from the return of Follow on where a server runs that answers
// within a few seconds.
func Follow(dataDir string, revive func(context.Context) error) *Client {
	found := make(chan struct{}, 1)
	c := newClient(folderTransport(dataDir, &reviver{revive: revive, found: found}))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	c.found = found
	c.leave = func() {
		stop()
		<-ended
	}
	tried := make(chan struct{})
	go func() {
		defer close(ended)
		c.stay(ctx, dataDir, sync.OnceFunc(func() { close(tried) }))
	}()
	select {
	case <-tried:
	case <-time.After(presenceWait):
	}
	return c
}

// presenceWait bounds how long [Follow] waits for a server that does not answer.
const presenceWait = 5 * time.Second

// reviver starts a server where none answers.
type reviver struct {
	mu     sync.Mutex // held by the call that revives
	revive func(context.Context) error
	found  chan<- struct{}
}

// folderTransport connects to the server of a folder; a nil reviver looks once.
func folderTransport(dataDir string, r *reviver) *http.Transport {
	return transportOver(func(ctx context.Context) (net.Conn, error) {
		connection, err := dialFolder(ctx, dataDir)
		if r == nil {
			return connection, err
		}
		if errors.Is(err, ErrNoServer) && r.revive != nil {
			connection, err = r.dial(ctx, dataDir)
		}
		if err == nil {
			select {
			case r.found <- struct{}{}:
			default:
			}
		}
		return connection, err
	})
}

// dial looks again, revives, and looks once more.
func (r *reviver) dial(ctx context.Context, dataDir string) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	connection, err := dialFolder(ctx, dataDir)
	if !errors.Is(err, ErrNoServer) {
		return connection, err
	}
	if err := r.revive(ctx); err != nil {
		return nil, fmt.Errorf("%w, and none could be started: %w", ErrNoServer, err)
	}
	return dialFolder(ctx, dataDir)
}

// dialFolder connects to the server that a folder announces.
func dialFolder(ctx context.Context, dataDir string) (net.Conn, error) {
	a, err := Announced(dataDir)
	if err != nil {
		return nil, err
	}
	if err := trusted(dataDir, a.Socket); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoServer, err)
	}
	connection, err := new(net.Dialer).DialContext(ctx, "unix", a.Socket)
	if err != nil {
		return nil, fmt.Errorf("%w: process %d was announced: %w", ErrNoServer, a.PID, err)
	}
	return connection, nil
}
