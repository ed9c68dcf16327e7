package coordinator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"recalld/memory"
)

// writes are all calls that change an agent's memory.
func writes(agent string) map[string]func(context.Context, Service) error {
	text := "changed 変更 更改"
	return map[string]func(context.Context, Service) error{
		"store": func(ctx context.Context, s Service) error {
			_, err := s.Store(ctx, StoreRequest{Agent: agent, Items: []StoreItem{{Content: text}}})
			return err
		},
		"update": func(ctx context.Context, s Service) error {
			_, err := s.Update(ctx, UpdateRequest{Agent: agent, Ref: "mem:1", Content: &text})
			return err
		},
		"delete": func(ctx context.Context, s Service) error {
			_, err := s.Delete(ctx, DeleteRequest{Agent: agent, Refs: []string{"mem:1"}})
			return err
		},
		"delete all": func(ctx context.Context, s Service) error {
			_, err := s.Delete(ctx, DeleteRequest{Agent: agent, All: true})
			return err
		},
		"lock": func(ctx context.Context, s Service) error {
			_, err := s.Lock(ctx, LockRequest{Agent: agent, Refs: []string{"mem:1"}, Locked: true})
			return err
		},
		"profile": func(ctx context.Context, s Service) error {
			_, err := s.PutProfile(ctx, ProfileRequest{Agent: agent, Content: text})
			return err
		},
		"calibrate": func(ctx context.Context, s Service) error {
			_, err := s.Calibrate(ctx, CalibrateRequest{Agent: agent})
			return err
		},
		"merge into": func(ctx context.Context, s Service) error {
			_, err := s.Merge(ctx, MergeRequest{Source: "other", Target: agent})
			return err
		},
		"move away": func(ctx context.Context, s Service) error {
			_, err := s.Merge(ctx, MergeRequest{Source: agent, Target: "other", Mode: "move"})
			return err
		},
	}
}

// A paused agent's memory does not change, and every write says so; another
// agent's memory is untouched by that. The pause outlives the server and ends by
// itself.
func TestPausedWritesAreRefused(t *testing.T) {
	b := open(t, nil)
	b.keep("mia", "会議は木曜の三時から。")
	if _, err := b.Pause(t.Context(), PauseRequest{Agent: "mia", Seconds: 60}); err != nil {
		t.Fatal(err)
	}
	before := exported(t, b, "mia")
	b.restart()
	for name, write := range writes("mia") {
		if err := write(t.Context(), b); !errors.Is(err, memory.ErrPaused) || !strings.Contains(err.Error(), "2026-11-30T09:01:00Z") {
			t.Errorf("%s: %v, want a refusal that names the end", name, err)
		}
	}
	if after := exported(t, b, "mia"); after != before {
		t.Errorf("a paused memory became\n%s", after)
	}
	b.keep("ken", "合同定在周五签。")
	if answer, err := b.Recall(t.Context(), RecallRequest{Agent: "mia", Query: "会議"}); err != nil || len(answer.Rows) != 1 {
		t.Errorf("a paused memory is not read: %v %v", answer, err)
	}
	if state, err := b.Paused(t.Context(), "mia"); err != nil || !state.Paused || state.Seconds != 60 {
		t.Errorf("paused: %+v %v", state, err)
	}
	b.pass(time.Minute)
	if state, err := b.Paused(t.Context(), "mia"); err != nil || state.Paused {
		t.Errorf("after its end: %+v %v", state, err)
	}
	b.keep("mia", "kept again")
}

func TestPauseEnds(t *testing.T) {
	b := open(t, nil)
	for _, seconds := range []int{-1, MaxPause + 1} {
		if _, err := b.Pause(t.Context(), PauseRequest{Agent: "mia", Seconds: seconds}); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("%d seconds: %v", seconds, err)
		}
	}
	if _, err := b.Pause(t.Context(), PauseRequest{Seconds: 5}); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("no agent: %v", err)
	}
	if _, err := b.Pause(t.Context(), PauseRequest{Agent: "mia", Seconds: MaxPause}); err != nil {
		t.Fatal(err)
	}
	state, err := b.Pause(t.Context(), PauseRequest{Agent: "mia"})
	if err != nil || state.Paused || !state.WasPaused {
		t.Errorf("resumed: %+v %v", state, err)
	}
	b.keep("mia", "kept")
	if state, err := b.Pause(t.Context(), PauseRequest{Agent: "mia"}); err != nil || state.WasPaused {
		t.Errorf("resumed twice: %+v %v", state, err)
	}
}

// DECISIONS 14: nothing names an agent whose data is deleted, a former pause
// neither.
func TestDeletedAgentLeavesNoPause(t *testing.T) {
	b := open(t, nil)
	b.keep("mia", "a note")
	if _, err := b.Pause(t.Context(), PauseRequest{Agent: "mia", Seconds: 1}); err != nil {
		t.Fatal(err)
	}
	b.pass(time.Minute)
	if _, err := b.Delete(t.Context(), DeleteRequest{Agent: "mia", All: true}); err != nil {
		t.Fatal(err)
	}
	stored, err := b.store.Settings(t.Context())
	if err != nil || stored[pausesKey] != "" {
		t.Errorf("left is %q, %v", stored[pausesKey], err)
	}
}
