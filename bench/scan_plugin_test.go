package bench

import (
	"os"
	"testing"
	"time"

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
	r, err := Scan(t.Context(), ScanOptions{Rows: 5_010, Dims: 128, K: 10, Queries: kernel.MaxQueries + 1, Threads: 1, Path: kernel.Best(), Repeat: 2, Clock: time.Now, Command: []string{program}})
	if err != nil {
		t.Fatal(err)
	}
	if r.Plugin == nil || r.Plugin.SmallScanned != smallRows || r.Plugin.Scan <= 0 {
		t.Errorf("%+v", r.Plugin)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
