package guard

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// listening serves a handler over TCP until the test ends.
func listening(t *testing.T, h http.Handler, b bounds) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l, h, slog.New(slog.DiscardHandler), b) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String()
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func reader() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, "slow", http.StatusRequestTimeout)
			return
		}
		_, _ = io.WriteString(w, "ok")
	})
}

// A client that never ends its headers, or its body, is cut off; one that is
// slow to take its answer is not.
func TestSlowClientsAreCutOff(t *testing.T) {
	b := usual()
	b.header, b.body = 50*time.Millisecond, 100*time.Millisecond
	address := listening(t, reader(), b)
	for name, head := range map[string]string{
		"nothing":       "",
		"half a header": "POST / HTTP/1.1\r\nHost: x\r\nX-Slow: ",
		"half a body":   "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf",
		"half a chunk":  "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhalf",
	} {
		c := dial(t, address)
		fmt.Fprint(c, head)
		// It ends when the server closes.
		answer, _ := io.ReadAll(c)
		if strings.Contains(string(answer), " 200 ") {
			t.Errorf("%s: %s", name, answer)
		}
	}
	// Long enough for the request to arrive on a busy machine.
	b.header, b.body = 2*time.Second, 2*time.Second
	long := make(chan struct{})
	patient := listening(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
		case <-long:
		}
		fmt.Fprint(w, r.Context().Err())
	}), b)
	c := dial(t, patient)
	fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok")
	time.AfterFunc(b.body+b.body/4, func() { close(long) })
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "<nil>" {
		t.Errorf("a long answer to a whole request: %s, %v", text, err)
	}
}

func TestLargeHeadersAreRefused(t *testing.T) {
	c := dial(t, listening(t, reader(), usual()))
	go func() {
		_, _ = fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nX-Large: %s\r\n\r\n", strings.Repeat("x", 4*maxHeader))
	}()
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%v, %v", answer, err)
	}
}

// Connections over the limit wait until one has ended, and an end of the server
// does not wait for them.
func TestConnectionsAreBounded(t *testing.T) {
	b := usual()
	b.connections = 2
	address := listening(t, reader(), b)
	first := dial(t, address)
	second := dial(t, address)
	for _, c := range []net.Conn{first, second} {
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if answer, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || answer.StatusCode != 200 {
			t.Fatal(answer, err)
		}
	}
	third := dial(t, address)
	fmt.Fprint(third, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	answered := make(chan error, 1)
	go func() {
		_, err := http.ReadResponse(bufio.NewReader(third), nil)
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("the third connection was answered beside two: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	first.Close()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// A listener that fails is an error that names the address.
func TestServeNamesTheAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := Serve(t.Context(), l, reader(), slog.New(slog.DiscardHandler)); !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("got %v", err)
	}
}
