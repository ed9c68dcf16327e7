package api

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"connectrpc.com/connect"
	"pgregory.net/rapid"

	"recalld/memory"
)

// An error keeps its text, and errors.Is and errors.As answer at the client as
// they do at the service.
func TestErrorsKeepTheirKind(t *testing.T) {
	field := &memory.FieldError{Field: "content", Problem: "is empty", Limit: "1 to 16000 code points", Next: "give the text to remember"}
	tests := []struct {
		err  error
		code connect.Code
	}{
		{field, connect.CodeInvalidArgument},
		{fmt.Errorf("store memory: %w", field), connect.CodeInvalidArgument},
		{fmt.Errorf("update mem:7: %w", memory.ErrNotFound), connect.CodeNotFound},
		{fmt.Errorf("update mem:7: %w", memory.ErrLocked), connect.CodeFailedPrecondition},
		{fmt.Errorf("store: %w", memory.ErrReadOnly), connect.CodeFailedPrecondition},
		{fmt.Errorf("store: %w: %w", memory.ErrFull, errors.New("write wal")), connect.CodeResourceExhausted},
		{memory.ErrCorrupt, connect.CodeDataLoss},
		{memory.ErrTooNew, connect.CodeFailedPrecondition},
		{memory.ErrBusy, connect.CodeUnavailable},
		{fmt.Errorf("recall: %w", context.DeadlineExceeded), connect.CodeDeadlineExceeded},
		{context.Canceled, connect.CodeCanceled},
		{errors.New("something else: 失敗"), connect.CodeInternal},
	}
	for _, test := range tests {
		sent := refuse(test.err)
		if connect.CodeOf(sent) != test.code {
			t.Errorf("%v: code %v, want %v", test.err, connect.CodeOf(sent), test.code)
		}
		got := restore(t.Context(), sent)
		if got.Error() != test.err.Error() {
			t.Errorf("text %q, want %q", got, test.err)
		}
		for _, k := range kinds() {
			if errors.Is(got, k.err) != errors.Is(test.err, k.err) {
				t.Errorf("%v: is %q: %v at the client", test.err, k.name, errors.Is(got, k.err))
			}
		}
		var want, have *memory.FieldError
		if errors.As(test.err, &want) != errors.As(got, &have) || want != nil && *want != *have {
			t.Errorf("field %+v, want %+v", have, want)
		}
	}
}

func TestFieldErrorsTravelWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := &memory.FieldError{
			Field:   rapid.String().Draw(t, "field"),
			Problem: rapid.String().Draw(t, "problem"),
			Limit:   rapid.String().Draw(t, "limit"),
			Next:    rapid.String().Draw(t, "next"),
		}
		var got *memory.FieldError
		if err := restore(context.Background(), refuse(sent)); !errors.As(err, &got) || *got != *sent || err.Error() != sent.Error() {
			t.Fatalf("sent %+v, got %+v", sent, got)
		}
	})
}
