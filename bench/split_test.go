package bench

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"recalld/ingest"
)

// The lengths add up to the code points of every record, in both divisions.
// BR-023, BR-157, BR-158, BR-159, BR-160
func TestSplit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "turns.jsonl")
	lines := []string{
		`{"conversation":"c","session":1,"dia_id":"D1:1","speaker":"A","time":"2026-01-01T00:00:00Z","text":"It rained. We left."}`,
		`{"conversation":"c","session":1,"dia_id":"D1:2","speaker":"B","time":"2026-01-01T00:00:00Z","text":"雨だった。"}`,
		`{"conversation":"c","session":2,"dia_id":"D2:1","speaker":"A","time":"2026-01-02T00:00:00Z","text":"` + strings.Repeat("x", 800) + `"}`,
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := Split(context.Background(), SplitOptions{Format: ingest.FormatLocomo, Path: filepath.Dir(path), Clock: tick()})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Families) != 2 {
		t.Fatalf("%d families", len(report.Families))
	}
	turns, joined := report.Families[0], report.Families[1]
	if turns.Records != 3 || turns.Blocks != 5 || turns.Forced != 1 || turns.Share != .2 || turns.Points != 22+8+803 {
		t.Errorf("turns: %+v", turns)
	}
	if turns.PerRecord != (SplitSpread{Mean: 1.6667, Median: 2, P90: 2, P99: 2, Max: 2}) {
		t.Errorf("blocks a record: %+v", turns.PerRecord)
	}
	if turns.Length != (SplitSpread{Mean: 166.6, Median: 14, P90: 64, P99: 64, Max: 739}) {
		t.Errorf("lengths: %+v", turns.Length)
	}
	if joined.Records != 2 || joined.Blocks != 5 || joined.Points != 22+1+8+803 {
		t.Errorf("joined: %+v", joined)
	}
	for _, f := range report.Families {
		if covered := int64(math.Round(f.Length.Mean * float64(f.Blocks))); covered != f.Points {
			t.Errorf("%s: the blocks cover %d of %d code points", f.Name, covered, f.Points)
		}
	}
	if report.Ledger.Blocks != 107_428 || report.Ledger.Length.Median != 45 || report.Ledger.Forced != 42 {
		t.Errorf("the reference's figures: %+v", report.Ledger)
	}

	empty := filepath.Join(t.TempDir(), "turns.jsonl")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Split(context.Background(), SplitOptions{Format: ingest.FormatLocomo, Path: empty, Clock: tick()}); err == nil {
		t.Error("an empty input passes")
	}
}

// tick is a clock that goes on by a second each time it is read.
func tick() func() time.Time {
	now := time.Unix(0, 0)
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
}
