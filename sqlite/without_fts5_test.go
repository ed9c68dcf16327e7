//go:build !sqlite_fts5

package sqlite_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"recalld/sqlite"
)

// TestWithoutFTS5: a binary without full-text search says how to build one with
// it, and leaves no file. TestBuiltWithoutFTS5 runs it.
func TestWithoutFTS5(t *testing.T) {
	folder := t.TempDir()
	_, err := sqlite.Open(context.Background(), filepath.Join(folder, "recall.db"), sqlite.Options{})
	if !errors.Is(err, sqlite.ErrNoFTS5) || !strings.Contains(err.Error(), "make build") || !strings.Contains(err.Error(), "sqlite_fts5") {
		t.Error(err)
	}
	if names, _ := filepath.Glob(filepath.Join(folder, "*")); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}
