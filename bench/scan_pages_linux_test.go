package bench

import (
	"os"
	"testing"
	"time"
)

// A re-rank from a file that was dropped from memory leaves the codes there.
func TestColdRerank(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := ScanShapeOptions{Rows: 2_000, Dims: 64, K: 10, Repeat: 2, Rerank: true, Clock: time.Now, Command: []string{program}, Folder: t.TempDir()}
	if r, err := ScanShape(t.Context(), o); err != nil || r.Rerank.Cold <= 0 || r.Rerank.BitsAfter != 1 && r.Rerank.BitsAfter != -1 || r.Rerank.ValuesMB == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
