package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"recalld/coordinator"
	"recalld/memory"
)

// Lines that came before an error arrive, however few they are.
func TestExportGivesWhatCameBeforeAnError(t *testing.T) {
	client := connected(t, &scripted{export: func(_ context.Context, _ coordinator.ExportRequest, each func(json.RawMessage) error) error {
		for i := range 3 {
			if err := each(json.RawMessage(fmt.Sprintf(`{"content":"会议 %d"}`, i))); err != nil {
				return err
			}
		}
		return fmt.Errorf("export: %w", memory.ErrCorrupt)
	}})
	n := 0
	err := client.Export(t.Context(), coordinator.ExportRequest{Agent: "ann"}, func(json.RawMessage) error {
		n++
		return nil
	})
	if n != 3 || !errors.Is(err, memory.ErrCorrupt) {
		t.Errorf("%d lines, %v", n, err)
	}
}
