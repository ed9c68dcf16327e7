package guard

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"recalld/access"
)

// waitFor returns once so many requests wait.
func waitFor(t *testing.T, q *Queue, n int) {
	t.Helper()
	for q.Waiting() != n {
		runtime.Gosched()
		if err := t.Context().Err(); err != nil {
			t.Fatalf("%d requests wait, not %d: %v", q.Waiting(), n, err)
		}
	}
}

// Who comes to a full queue is told how full it is, those in it are served in the
// order in which they came, and one that gives up makes room.
func TestQueueServesInOrderAndSheds(t *testing.T) {
	q := NewQueue(1, 2)
	leave, err := q.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan string, 3)
	wait := func(ctx context.Context, name string, n int) {
		go func() {
			leave, err := q.Enter(ctx)
			if err != nil {
				served <- name + ": " + err.Error()
				return
			}
			served <- name
			leave()
		}()
		waitFor(t, q, n)
	}
	ctx, giveUp := context.WithCancel(t.Context())
	wait(ctx, "first", 1)
	wait(t.Context(), "second", 2)
	over, no := context.WithCancel(t.Context())
	no() // it does not wait
	_, err = q.Enter(over)
	if !errors.Is(err, ErrOverloaded) || err.Error() != "overloaded: 2 requests wait, at most 2; retry after 1 second" {
		t.Errorf("a full queue says %v", err)
	}
	giveUp()
	if got := <-served; got != "first: context canceled" {
		t.Errorf("who gave up got %q", got)
	}
	wait(t.Context(), "third", 2)
	leave()
	if a, b := <-served, <-served; a != "second" || b != "third" {
		t.Errorf("served %q, then %q", a, b)
	}
	waitFor(t, q, 0)
	if leave, err = q.Enter(t.Context()); err != nil {
		t.Fatalf("an empty queue: %v", err)
	}
	leave()
}

// A place that falls to a request in the moment in which it gives up goes to the
// next one.
func TestQueueLosesNoPlace(t *testing.T) {
	q := NewQueue(1, 2)
	leave, err := q.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gaveUp, err := q.join()
	if err != nil {
		t.Fatal(err)
	}
	next, err := q.join()
	if err != nil {
		t.Fatal(err)
	}
	leave()
	q.withdraw(gaveUp)
	select {
	case <-next:
	default:
		t.Fatal("the next one has no place")
	}
	q.leave()
	if q.running != 0 || q.Waiting() != 0 {
		t.Errorf("%d places are taken and %d requests wait", q.running, q.Waiting())
	}
}

// A server whose queue is full sheds with a status, a code and a time; health and
// figures are answered all the same; everybody in the queue is answered in the end,
// and there is room again.
func TestOverloadShedsAndRecovers(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	var reasons []string
	q := NewQueue(2, 1)
	h := mustNew(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			entered <- struct{}{}
			<-leave
		}
	}), Options{Anyone: access.NewClient("a", access.Read), Queue: q, Refused: func(reason string) { reasons = append(reasons, reason) }})
	ended := make(chan int, 3)
	ask := func() { ended <- knock(h, func(r *http.Request) { r.URL.Path = "/wait" }).Code }
	for range 2 {
		go ask()
		<-entered
	}
	go ask()
	waitFor(t, q, 1)
	w := knock(h, nil)
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), `"resource_exhausted"`) ||
		!strings.Contains(w.Body.String(), "overloaded: 1 requests wait, at most 1; retry after 1 second") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if w := knock(h, func(r *http.Request) { r.URL.Path = path }); w.Code == http.StatusTooManyRequests {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if len(reasons) == 0 || reasons[0] != "overloaded" {
		t.Errorf("reasons %v", reasons)
	}
	close(leave)
	<-entered
	for range 3 {
		if code := <-ended; code != 200 {
			t.Errorf("a request in the queue got %d", code)
		}
	}
	if w := knock(h, nil); w.Code != 200 {
		t.Errorf("afterwards: %d", w.Code)
	}
}
