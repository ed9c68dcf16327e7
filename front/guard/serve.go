package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// IdleTimeout is how long an unused connection stays open.
const IdleTimeout = 5 * time.Minute

const (
	grace     = 5 * time.Second // for calls in flight when a server ends
	maxHeader = 64 << 10        // bytes of a request's headers, about
)

// bounds are how long a server waits for a client and how many it takes.
type bounds struct {
	header      time.Duration // for a request's headers to arrive
	body        time.Duration // for headers and body together
	connections int           // further ones wait to be accepted
}

func usual() bounds { return bounds{10 * time.Second, time.Minute, 1_024} }

// Serve answers on the listener, over HTTP/1.1 and HTTP/2 without TLS, until ctx
// ends; then calls in flight have five seconds to finish before theirs are
// cancelled. It returns nil after such an end, and when all its connections are
// closed. A client that is slow with its headers, or with its body, is cut off;
// how long an answer takes is not bounded here.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	return serve(ctx, l, h, log, usual())
}

func serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger, b bounds) error {
	calls, cancelCalls := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelCalls()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler:           h,
		Protocols:         protocols,
		ReadHeaderTimeout: b.header,
		ReadTimeout:       b.body,
		IdleTimeout:       IdleTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return calls },
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(limit(l, b.connections)) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	waiting, done := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer done()
	err := server.Shutdown(waiting)
	cancelCalls()
	if err != nil {
		err = server.Close()
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// limit bounds how many connections of a listener are open at once.
func limit(l net.Listener, most int) net.Listener {
	return &limited{Listener: l, slots: make(chan struct{}, most), closed: make(chan struct{})}
}

type limited struct {
	net.Listener
	slots  chan struct{} // one for each open connection
	closed chan struct{}
	once   sync.Once
}

// Accept waits for a connection to end while too many are open.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &connection{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

// Close also ends an Accept that waits.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type connection struct {
	net.Conn
	release func()
}

// Close makes room for the next connection.
func (c *connection) Close() error {
	err := c.Conn.Close()
	c.release()
	return err
}
