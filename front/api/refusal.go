package api

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"connectrpc.com/connect"

	"recalld/access"
	"recalld/front/guard"
	"recalld/memory"
	pb "recalld/proto/recalld/v1"
)

// ErrNoServer is what a call, or [Dial], wraps when nobody answers on the
// socket.
var ErrNoServer = errors.New("no server answers")

// kinds pairs what callers tell apart with the name on the wire and the code
// that Connect and gRPC clients see. The first that fits gives the code.
func kinds() []kind {
	return []kind{
		{"invalid", memory.ErrInvalid, connect.CodeInvalidArgument},
		{"not_found", memory.ErrNotFound, connect.CodeNotFound},
		{"locked", memory.ErrLocked, connect.CodeFailedPrecondition},
		{"read_only", memory.ErrReadOnly, connect.CodeFailedPrecondition},
		{"full", memory.ErrFull, connect.CodeResourceExhausted},
		{"corrupt", memory.ErrCorrupt, connect.CodeDataLoss},
		{"too_new", memory.ErrTooNew, connect.CodeFailedPrecondition},
		{"busy", memory.ErrBusy, connect.CodeUnavailable},
		{"denied", access.ErrDenied, connect.CodePermissionDenied},
		{"overloaded", guard.ErrOverloaded, connect.CodeResourceExhausted},
		{"paused", memory.ErrPaused, connect.CodeFailedPrecondition},
		{"deadline", context.DeadlineExceeded, connect.CodeDeadlineExceeded},
		{"canceled", context.Canceled, connect.CodeCanceled},
	}
}

type kind struct {
	name string
	err  error
	code connect.Code
}

// refuse turns a service's error into what travels.
func refuse(err error) error {
	detail := &pb.ErrorDetail{}
	code := connect.CodeInternal
	for _, k := range kinds() {
		if errors.Is(err, k.err) {
			if len(detail.Kinds) == 0 {
				code = k.code
			}
			detail.Kinds = append(detail.Kinds, k.name)
		}
	}
	var field *memory.FieldError
	if errors.As(err, &field) {
		detail.FieldError = &pb.FieldError{
			Field:   valid(field.Field),
			Problem: valid(field.Problem),
			Limit:   valid(field.Limit),
			Next:    valid(field.Next),
		}
	}
	refusal := connect.NewError(code, errors.New(valid(err.Error())))
	if d, err := connect.NewErrorDetail(detail); err == nil {
		refusal.AddDetail(d)
	}
	return refusal
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// remoteError is an error of the service as the client gives it back: the same
// text, the same kinds, the same field.
type remoteError struct {
	text   string
	causes []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.causes }

// restore turns what came over the wire into what the service returned. An
// error of the transport itself names nobody's field; it wraps [ErrNoServer]
// when nobody answered, and the context's error when that ended the call.
func restore(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var refusal *connect.Error
	if !errors.As(err, &refusal) {
		return err
	}
	restored := &remoteError{text: refusal.Message()}
	for _, d := range refusal.Details() {
		value, err := d.Value()
		if err != nil {
			continue
		}
		if detail, ok := value.(*pb.ErrorDetail); ok {
			restored.causes = causes(detail)
			return restored
		}
	}
	switch {
	case ctx.Err() != nil:
		restored.causes = []error{ctx.Err()}
	case refusal.Code() == connect.CodeDeadlineExceeded:
		restored.causes = []error{context.DeadlineExceeded}
	case !connect.IsWireError(err) && (refusal.Code() == connect.CodeUnavailable || broken(err)):
		restored.text = ErrNoServer.Error() + ": " + restored.text
		restored.causes = []error{ErrNoServer}
	}
	return restored
}

// broken reports whether a connection ended before its answer, as when a server
// is killed.
func broken(err error) bool {
	return errors.As(err, new(*net.OpError)) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func causes(detail *pb.ErrorDetail) []error {
	var all []error
	if f := detail.GetFieldError(); f != nil {
		all = append(all, &memory.FieldError{Field: f.GetField(), Problem: f.GetProblem(), Limit: f.GetLimit(), Next: f.GetNext()})
	}
	for _, name := range detail.GetKinds() {
		for _, k := range kinds() {
			if k.name == name {
				all = append(all, k.err)
			}
		}
	}
	return all
}
