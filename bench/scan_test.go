package bench

import (
	"errors"
	"testing"
	"time"

	"recalld/memory"
	"recalld/scanner/kernel"
)

// A pass of more queries than the kernel takes at once, on every path.
func TestScanReports(t *testing.T) {
	for _, path := range kernel.Paths() {
		o := ScanOptions{Rows: 700, Dims: 384, K: 10, Queries: kernel.MaxQueries + 1, Threads: 2, Path: path, Repeat: 2, Clock: time.Now}
		r, err := Scan(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Path != path.String() || r.Rows != 700 || r.Dims != 384 || r.Queries != o.Queries || r.Scan <= 0 {
			t.Errorf("%s: %+v", path, r)
		}
	}
}

func TestImpossibleScansAreRefused(t *testing.T) {
	good := ScanOptions{Rows: 1, Dims: 64, K: 1, Queries: 1, Threads: 1, Repeat: 1, Clock: time.Now}
	for field, spoil := range map[string]func(*ScanOptions){
		"rows": func(o *ScanOptions) { o.Rows = 0 }, "dims": func(o *ScanOptions) { o.Dims = 100 }, "k": func(o *ScanOptions) { o.K = 0 },
		"queries": func(o *ScanOptions) { o.Queries = -1 }, "threads": func(o *ScanOptions) { o.Threads = 0 }, "repeat": func(o *ScanOptions) { o.Repeat = 0 },
	} {
		o := good
		spoil(&o)
		var refused *memory.FieldError
		if _, err := Scan(t.Context(), o); !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := Scan(t.Context(), good); err != nil {
		t.Error(err)
	}
}
