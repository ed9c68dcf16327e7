package api

import (
	"errors"
	"fmt"
	"testing"

	"recalld/coordinator"
	"recalld/memory"
)

// Merging, pausing and looking deeper are the same in process and by socket, and
// so are their refusals.
func TestAgentsCallsTravel(t *testing.T) {
	direct, remote := filled(t)
	both(t, "merge, dry", direct, remote, func(s coordinator.Service) (*coordinator.MergeResponse, error) {
		return s.Merge(t.Context(), coordinator.MergeRequest{Source: "ann", Target: "new", DryRun: true})
	})
	for i, request := range []coordinator.MergeRequest{{}, {Source: "ann"}, {Source: "ann", Target: "ann"}, {Source: "ann", Target: "b", Mode: "x"}, {Source: "a\x00", Target: "b"}} {
		both(t, fmt.Sprintf("merge %d", i), direct, remote, func(s coordinator.Service) (*coordinator.MergeResponse, error) { return s.Merge(t.Context(), request) })
	}
	if answer, err := remote.Merge(t.Context(), coordinator.MergeRequest{Source: "ann", Target: "new", Mode: "move"}); err != nil || answer.Moved != 62 || answer.Merged.Profiles != 1 {
		t.Errorf("move: %+v %v", answer, err)
	}
	both(t, "merge again", direct, remote, func(s coordinator.Service) (*coordinator.MergeResponse, error) {
		return s.Merge(t.Context(), coordinator.MergeRequest{Source: "ann", Target: "new"})
	})
	for _, checks := range [][]string{nil, {"short_content"}, {"beauty"}} {
		both(t, "deep check", direct, remote, func(s coordinator.Service) (*coordinator.DeepCheckResponse, error) {
			return s.DeepCheck(t.Context(), coordinator.DeepCheckRequest{Agent: "new", Checks: checks})
		})
	}
	if _, err := remote.Calibrate(t.Context(), coordinator.CalibrateRequest{Agent: "new", Precision: "strict"}); err != nil {
		t.Fatal(err)
	}
	both(t, "calibrations", direct, remote, func(s coordinator.Service) ([]coordinator.Calibration, error) {
		return s.Calibrations(t.Context(), "new")
	})
	for _, section := range []string{"", "recall"} {
		both(t, "operating context", direct, remote, func(s coordinator.Service) (*coordinator.OperatingContext, error) {
			return s.OperatingContext(t.Context(), section)
		})
	}
	if _, err := remote.Pause(t.Context(), coordinator.PauseRequest{Agent: "new", Seconds: 60}); err != nil {
		t.Fatal(err)
	}
	both(t, "paused", direct, remote, func(s coordinator.Service) (*coordinator.PauseState, error) { return s.Paused(t.Context(), "new") })
	both(t, "store while paused", direct, remote, func(s coordinator.Service) (coordinator.StoreResponse, error) {
		answer, err := s.Store(t.Context(), coordinator.StoreRequest{Agent: "new", Items: []coordinator.StoreItem{{Content: "x"}}})
		if !errors.Is(err, memory.ErrPaused) {
			t.Errorf("a paused store: %v", err)
		}
		return answer, err
	})
	both(t, "resume", direct, remote, func(s coordinator.Service) (*coordinator.PauseState, error) {
		if _, err := s.Pause(t.Context(), coordinator.PauseRequest{Agent: "new", Seconds: 60}); err != nil {
			t.Fatal(err)
		}
		return s.Pause(t.Context(), coordinator.PauseRequest{Agent: "new"})
	})
}
