package api

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"recalld/coordinator"
	"recalld/front/guard"
)

// A server whose queue is full says so, in words and as a kind that its client
// gives back, answers those that wait, and has room again.
func TestOverloadReachesTheClientAndEnds(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	service := &scripted{
		recall: func(context.Context, coordinator.RecallRequest) (*coordinator.RecallResponse, error) {
			entered <- struct{}{}
			<-leave
			return &coordinator.RecallResponse{}, nil
		},
		status: func(context.Context) (*coordinator.Status, error) { return &coordinator.Status{Ready: true}, nil },
	}
	metrics, q := NewMetrics(service, time.Now), guard.NewQueue(1, 1)
	server := httptest.NewServer(NewServer(service, Options{Queue: q, Metrics: metrics}))
	defer server.Close()
	client := newClient(transportOver(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}))
	defer client.Close()
	ended := make(chan error, 2)
	ask := func() {
		_, err := client.Recall(t.Context(), coordinator.RecallRequest{Agent: "ann", Query: "x"})
		ended <- err
	}
	go ask()
	<-entered
	go ask()
	for q.Waiting() != 1 {
		runtime.Gosched()
	}
	_, err := client.Recall(t.Context(), coordinator.RecallRequest{Agent: "ann", Query: "x"})
	if !errors.Is(err, guard.ErrOverloaded) || err.Error() != "overloaded: 1 requests wait, at most 1; retry after 1 second" {
		t.Errorf("the client got %v", err)
	}
	response, err := http.Post(server.URL+"/recalld.v1.MemoryService/Recall", "application/json", strings.NewReader(`{"agent":"ann","query":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if closed := response.Body.Close(); err != nil || closed != nil {
		t.Fatal(err, closed)
	}
	if response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") != "1" || !strings.Contains(string(body), `"resource_exhausted"`) {
		t.Errorf("%d %v %s", response.StatusCode, response.Header, body)
	}
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ready", "/metrics": `recalld_http_refused_total{reason="overloaded"} 2`} {
		response, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if closed := response.Body.Close(); err != nil || closed != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d, %v", path, response.StatusCode, err)
		}
	}
	ctx, done := context.WithTimeout(t.Context(), time.Nanosecond)
	defer done()
	if _, err := client.Recall(ctx, coordinator.RecallRequest{Agent: "ann", Query: "x"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller with a deadline got %v", err)
	}
	close(leave)
	<-entered
	for range 2 {
		if err := <-ended; err != nil {
			t.Errorf("a call in the queue got %v", err)
		}
	}
	go ask()
	<-entered
	if err := <-ended; err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A caller waits no longer than the deadline that it sent.
func TestPatienceEndsWithTheDeadline(t *testing.T) {
	for header, limited := range map[string]bool{"": false, "250": true, "soon": false, "-1": false} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Connect-Timeout-Ms", header)
		ctx, done := patience(r)
		if _, has := ctx.Deadline(); has != limited {
			t.Errorf("%q: a deadline is %v", header, has)
		}
		done()
	}
}
