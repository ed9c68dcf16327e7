package sqlite

import (
	"context"
)

// How bad a finding is.
const (
	SeverityWarning = "warning"
	SeverityError   = "error"
)

// maxEvidence is how many lines of evidence a finding shows.
const maxEvidence = 20

// Finding is what a check saw. Fix tells an operator what to do.
type Finding struct {
	OK       bool
	Severity string
	Evidence []string
	Fix      string
}

// Check is one named test of the whole file. Fix repairs what can be repaired
// from the file itself and returns how many rows it changed; it is nil when
// nothing can.
type Check struct {
	Name string
	Doc  string
	Run  func(ctx context.Context) (Finding, error)
	Fix  func(ctx context.Context) (int64, error)
}

// Checks returns every check in name order.
func (s *Store) Checks() []Check { return nil }
