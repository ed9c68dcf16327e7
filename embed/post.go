package embed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// errUnacceptable: the server refuses this request for what it holds, as with a
// text beyond its window. Never leaves the package as anything but [ErrRejected].
var errUnacceptable = fmt.Errorf("%w for its content", ErrRejected)

// post sends one request, trying again while the server is unavailable, and
// returns the answer's body, at most limit bytes long.
func (r *remote) post(ctx context.Context, path string, request []byte, limit int64) ([]byte, error) {
	var last error
	for attempt := range r.cfg.Attempts {
		if attempt > 0 {
			if err := r.cfg.Sleep(ctx, r.backoff(attempt, last)); err != nil {
				return nil, ended(ctx)
			}
		}
		body, err := r.try(ctx, path, request, limit)
		if err == nil {
			return body, nil
		}
		if ctx.Err() != nil {
			return nil, ended(ctx)
		}
		if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrRejected) || errors.Is(err, ErrNotOffered) {
			return nil, err
		}
		last = err
	}
	return nil, last
}

// backoff doubles from firstBackoff to maxBackoff; the upper half of each wait is
// spread by the jitter. A server that names a longer wait is believed, up to
// maxBackoff.
func (r *remote) backoff(attempt int, last error) time.Duration {
	wait := min(firstBackoff<<(attempt-1), maxBackoff)
	wait = wait/2 + time.Duration(r.cfg.Jitter()*float64(wait/2))
	var busy *busyError
	if errors.As(last, &busy) {
		wait = max(wait, min(busy.after, maxBackoff))
	}
	return wait
}

// ended reports a context's end. A deadline that passed while waiting for the
// server is the server's unavailability; a cancellation is nobody's fault.
func ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	return fmt.Errorf("embed: %w", ctx.Err())
}

// try makes one attempt, bounded by the timeout from dialling to the last byte.
func (r *remote) try(ctx context.Context, path string, request []byte, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.endpoint(path), bytes.NewReader(request))
	if err != nil {
		return nil, fmt.Errorf("embed: make request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if r.key != "" {
		req.Header.Set("Authorization", "Bearer "+r.key)
	}
	answer, err := r.client.Do(req)
	if err != nil {
		return nil, r.unavailable(path, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, r.refusal(path, answer)
	}
	if answer.ContentLength > limit {
		return nil, fmt.Errorf("%w: %d bytes announced (limit: %d)", ErrBadResponse, answer.ContentLength, limit)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, limit+1))
	if err != nil {
		return nil, r.unavailable(path, err)
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrBadResponse, limit)
	}
	return body, nil
}

// endpoint joins the base URL and a contract's path; a base that already ends in
// /v1 or in the whole path is taken as it is meant.
func (r *remote) endpoint(path string) string {
	u := *r.base
	have := strings.TrimRight(u.Path, "/")
	have = strings.TrimSuffix(have, r.contract.path())
	if strings.HasPrefix(path, "/v1/") {
		have = strings.TrimSuffix(have, "/v1")
	}
	u.Path, u.RawPath = have+path, ""
	return u.String()
}

// where names the endpoint in errors, without its query, which may hold a key.
func (r *remote) where(path string) string {
	u, err := url.Parse(r.endpoint(path))
	if err != nil {
		return path
	}
	u.RawQuery = ""
	return u.String()
}

// unavailable words a transport error by its kind, since the error's own text may
// repeat what the server sent.
func (r *remote) unavailable(path string, err error) error {
	reason := "connection failed"
	var dns *net.DNSError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		reason = "no answer within " + r.cfg.Timeout.String()
	case errors.Is(err, context.Canceled):
		reason = "cancelled"
	case errors.Is(err, syscall.ECONNREFUSED):
		reason = "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE):
		reason = "connection closed in the middle"
	case errors.As(err, &dns):
		reason = "host not found"
	}
	return fmt.Errorf("%w: POST %s: %s", ErrUnavailable, r.where(path), reason)
}

// busyError is an answer that asks for another try.
type busyError struct {
	what  string
	after time.Duration
}

func (e *busyError) Error() string { return e.what }
func (e *busyError) Unwrap() error { return ErrUnavailable }

// refusal words an answer other than 200.
func (r *remote) refusal(path string, answer *http.Response) error {
	what := fmt.Sprintf("POST %s: HTTP %d%s", r.where(path), answer.StatusCode, errorCode(answer.Body))
	switch code := answer.StatusCode; {
	case path == "/count_tokens" && (code == http.StatusNotFound || code == http.StatusMethodNotAllowed || code == http.StatusNotImplemented):
		return ErrNotOffered
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
		if err != nil || seconds < 0 || seconds > int(maxBackoff/time.Second) {
			seconds = 0
		}
		return &busyError{what: ErrUnavailable.Error() + ": " + what, after: time.Duration(seconds) * time.Second}
	case code == http.StatusBadRequest, code == http.StatusRequestEntityTooLarge, code == http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: %s", errUnacceptable, what)
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return fmt.Errorf("%w: %s; check the key in the variable that key_env names", ErrRejected, what)
	case code >= 300 && code < 400:
		return fmt.Errorf("%w: %s; redirects are not followed, give the final URL", ErrRejected, what)
	default:
		return fmt.Errorf("%w: %s; check the URL and the model's name", ErrRejected, what)
	}
}

// errorCode returns the machine-readable part of an error answer in the form
// " (code)", and nothing that could hold a user's text or a key.
func errorCode(body io.Reader) string {
	raw, err := io.ReadAll(io.LimitReader(body, 16<<10))
	if err != nil {
		return ""
	}
	var answer struct {
		Error struct {
			Code any    `json:"code"`
			Type string `json:"type"`
		} `json:"error"`
	}
	if json.Unmarshal(raw, &answer) != nil {
		return ""
	}
	code, ok := answer.Error.Code.(string)
	if !ok || code == "" {
		code = answer.Error.Type
	}
	if code == "" || len(code) > 64 || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz0123456789_-.") != "" {
		return ""
	}
	return " (" + code + ")"
}
