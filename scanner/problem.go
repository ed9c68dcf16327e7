package scanner

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
)

// fileError says which file could not be used.
type fileError struct {
	file string
	err  error
}

func (e *fileError) Error() string { return e.file + ": " + e.err.Error() }
func (e *fileError) Unwrap() error { return e.err }

// inFile names the file of an error, and leaves nil alone.
func inFile(file string, err error) error {
	if err == nil {
		return nil
	}
	return &fileError{file, err}
}

var errBehind = errors.New("the scanner's state does not reach that far")

func invalid(field, format string, a ...any) error {
	return &memory.FieldError{Field: field, Problem: fmt.Sprintf(format, a...), Limit: "the contract of scanner.proto", Next: "correct the caller"}
}

// wire turns an error into one that tells the client which kind it is.
func wire(err error) error {
	var file *fileError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	case errors.As(err, &file):
		return detailed(codes.DataLoss, &scannerv1.Problem{Reason: scannerv1.Reason_REASON_FILE, File: file.file}, err)
	case errors.Is(err, errBehind):
		return detailed(codes.FailedPrecondition, &scannerv1.Problem{Reason: scannerv1.Reason_REASON_BEHIND}, err)
	case errors.Is(err, memory.ErrInvalid):
		return detailed(codes.InvalidArgument, &scannerv1.Problem{Reason: scannerv1.Reason_REASON_INVALID}, err)
	}
	return status.Error(codes.Unknown, err.Error())
}

func detailed(code codes.Code, p *scannerv1.Problem, err error) error {
	s, attached := status.New(code, err.Error()).WithDetails(p)
	if attached != nil {
		return status.Error(code, err.Error())
	}
	return s.Err()
}
