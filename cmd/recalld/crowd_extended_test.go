//go:build extended

package main

import (
	"testing"
	"time"
)

// The same for a minute.
func TestCrowdLong(t *testing.T) {
	over := time.Now().Add(time.Minute)
	crowd(t, func(int) bool { return time.Now().After(over) })
}
