//go:build !linux

package scanner

import (
	"context"
	"errors"
)

// Advice about pages is given on Linux alone; elsewhere the first scan reads
// them.
func populate(context.Context, []byte)    {}
func adviseRandom([]byte)                 {}
func prefetch(_ []byte, _ int64, _ int64) {}
func majorFaults() int64                  { return 0 }
func anonymous() uint64                   { return 0 }
func lockPages([]byte) error              { return errors.New("it is not done on this system") }
func lockLimit() string                   { return "" }
