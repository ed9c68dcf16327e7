package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"connectrpc.com/connect"

	"recalld/front/guard"
)

// queued lets a call wait for its turn before its body is read. A call that finds
// the queue full is refused in its own protocol: resource_exhausted, 429 in Connect.
func queued(calls http.Handler, q *guard.Queue, m *Metrics, options ...connect.HandlerOption) http.Handler {
	refusal := connect.NewErrorWriter(options...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, done := patience(r)
		leave, err := q.Enter(ctx)
		done()
		if err == nil {
			defer leave()
			calls.ServeHTTP(w, r)
			return
		}
		if errors.Is(err, guard.ErrOverloaded) {
			w.Header().Set("Retry-After", strconv.Itoa(guard.RetryAfter))
			if m != nil {
				m.Refused("overloaded")
			}
		}
		_ = refusal.Write(w, r, refuse(err)) // the client may be gone
	})
}

// patience is how long a caller waits: while it is connected, and no longer than
// the deadline that it sends in Connect.
func patience(r *http.Request) (context.Context, context.CancelFunc) {
	ms, err := strconv.ParseUint(r.Header.Get("Connect-Timeout-Ms"), 10, 40)
	if err != nil {
		return context.WithCancel(r.Context())
	}
	return context.WithTimeout(r.Context(), time.Duration(ms)*time.Millisecond)
}
