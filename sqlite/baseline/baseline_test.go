package baseline

import (
	"context"
	"path/filepath"
	"testing"
	"time"
)

func BenchmarkInserts(b *testing.B) {
	took, err := Inserts(context.Background(), time.Now, filepath.Join(b.TempDir(), "bare.db"), "a text of about thirty bytes ok", b.N)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/took.Seconds(), "inserts/s")
}
