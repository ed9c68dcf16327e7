package bench

import (
	"errors"
	"os"
	"testing"
	"time"

	"recalld/memory"
	"recalld/scanner"
	"recalld/scanner/kernel"
)

// TestMain lets the test's own program be the scanner.
func TestMain(m *testing.M) {
	if os.Getenv(scanner.Handshake().MagicCookieKey) != "" {
		scanner.Serve(scanner.Options{Threads: 1})
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A scanner process sees the small scope's rows and no other; nothing is left in
// the temporary folder.
func TestScanThroughAProcess(t *testing.T) {
	temp, err := os.MkdirTemp("", "b") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(temp)
	t.Setenv("TMPDIR", temp)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Scan(t.Context(), ScanOptions{Rows: 5_010, Dims: 128, K: 10, Queries: kernel.MaxQueries + 1, Threads: 1, Path: kernel.Best(), Repeat: 2, Clock: time.Now, Command: []string{program}, Together: 3})
	if err != nil {
		t.Fatal(err)
	}
	if r.Plugin == nil || r.Plugin.SmallScanned != smallRows || r.Plugin.Scan <= 0 || r.Plugin.TogetherMS <= 0 || r.Plugin.Mapped <= 0 {
		t.Errorf("%+v", r.Plugin)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Each shape is scanned through a process: one cell's rows and no others, projects
// like one cell, codes that stay in memory.
func TestScanShapes(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := ScanShapeOptions{Rows: 6_000, Dims: 64, K: 10, Repeat: 2, Clock: time.Now, Command: []string{program}, Folder: t.TempDir()}
	cells := o
	cells.Cells = 100
	if r, err := ScanShape(t.Context(), cells); err != nil || r.Cells.Scanned != 60 || r.Cells.ScopeRows != 60 || r.Cells.Directory != 32*100 || r.Cells.Start <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
	projects := o
	projects.Projects = 600
	if r, err := ScanShape(t.Context(), projects); err != nil || r.Projects.Scanned != 6_000 || r.Projects.Ratio <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if left, err := os.ReadDir(o.Folder); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	o.Cells = 7_000
	var refused *memory.FieldError
	if _, err := ScanShape(t.Context(), o); !errors.As(err, &refused) || refused.Field != "rows" {
		t.Errorf("more cells than rows: %v", err)
	}
}
