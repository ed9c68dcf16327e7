package client

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	scannerv1 "recalld/proto/recalld/scanner/v1"
)

// Kinds of error that callers tell apart with errors.Is. Each is a reason to
// answer without the scanner and to say so.
var (
	// ErrUnavailable says that no process could be started or kept alive, or that it
	// did not answer in time.
	ErrUnavailable = errors.New("the scanner is unavailable")
	// ErrBehind says that the scanner's state does not reach the wanted change.
	ErrBehind = errors.New("the scanner is behind")
	// ErrFile is a *[FileError].
	ErrFile = errors.New("a derived file cannot be used")
	// ErrRefused says that the scanner refused a request, or cannot answer it: a
	// defect of the caller.
	ErrRefused = errors.New("the scanner refused the request")
	// ErrClosed says that the client was closed.
	ErrClosed = errors.New("the scanner's client is closed")
)

// FileError names a file to set aside, to build anew, and to publish without.
type FileError struct {
	File    string // without its folder
	Problem string
}

// Error implements error.
func (e *FileError) Error() string { return fmt.Sprintf("derived file %s: %s", e.File, e.Problem) }

// Is makes every FileError an ErrFile.
func (e *FileError) Is(target error) bool { return target == ErrFile }

// typed turns what a call ended with into an error of the kinds above. A caller's
// own end stays what it is as well.
func typed(ctx context.Context, err error) error {
	for _, kind := range []error{ErrUnavailable, ErrBehind, ErrFile, ErrRefused, ErrClosed} {
		if errors.Is(err, kind) {
			return err
		}
	}
	if cause := ctx.Err(); cause != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, cause)
	}
	s, ok := status.FromError(err)
	if !ok {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	for _, detail := range s.Details() {
		p, ok := detail.(*scannerv1.Problem)
		if !ok {
			continue
		}
		switch p.GetReason() {
		case scannerv1.Reason_REASON_FILE:
			return &FileError{File: p.GetFile(), Problem: s.Message()}
		case scannerv1.Reason_REASON_BEHIND:
			return fmt.Errorf("%w: %s", ErrBehind, s.Message())
		case scannerv1.Reason_REASON_INVALID:
			return fmt.Errorf("%w: %s", ErrRefused, s.Message())
		}
	}
	if s.Code() == codes.Unavailable || s.Code() == codes.Canceled {
		return fmt.Errorf("%w: %s", ErrUnavailable, s.Message())
	}
	return fmt.Errorf("%w: %s", ErrRefused, s.Message())
}

// lost reports whether an error of a call says that the process is gone, while
// the caller still waits.
func lost(ctx context.Context, err error) bool {
	code := status.Code(err)
	return ctx.Err() == nil && (code == codes.Unavailable || code == codes.Canceled)
}
