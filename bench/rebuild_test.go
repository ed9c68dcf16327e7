package bench

import (
	"errors"
	"testing"
	"time"

	"recalld/memory"
)

// Recalls are asked in quiet and beside rebuilds, as many of each, and the report
// says what both took.
func TestRecallsBesideRebuildsThroughAScanner(t *testing.T) {
	o := RebuildOptions{For: 300 * time.Millisecond, Rounds: 2, Ladder: LadderOptions{Folder: t.TempDir(), Records: []int{60}, Shape: ShapeOne, Questions: 3, Clock: time.Now}}
	var refused *memory.FieldError
	if _, err := Rebuild(t.Context(), o); !errors.As(err, &refused) || refused.Field != "scanner" {
		t.Errorf("without a scanner: %v", err)
	}
	o.Ladder.Scanner = ownScanner(t)
	r, err := Rebuild(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Kind != KindRebuild || r.Records != 60 || r.Capacity <= 0 || r.Rate <= 0 || r.Recalls[0] < 2 || r.Recalls[0] != r.Recalls[1] {
		t.Errorf("%+v", r)
	}
	if r.Quiet.P50 <= 0 || r.Beside.P50 <= 0 || r.Beside.P50 > r.Beside.P99 || r.AloneS <= 0 || r.P95Ratio <= 0 {
		t.Errorf("%+v", r)
	}
	o.Ladder.Records = []int{60, 70}
	if _, err := Rebuild(t.Context(), o); !errors.As(err, &refused) || refused.Field != "--records" {
		t.Errorf("two rungs: %v", err)
	}
}
