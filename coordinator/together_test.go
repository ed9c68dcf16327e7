package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"recalld/coordinator/arm"
	"recalld/sqlite"
)

// meeting lets everybody go on once so many have come, or says that they did not.
type meeting struct {
	expected, come int
	mu             sync.Mutex
	complete       chan struct{}
}

func newMeeting(expected int) *meeting {
	return &meeting{expected: expected, complete: make(chan struct{})}
}

func (m *meeting) wait() error {
	m.mu.Lock()
	if m.come++; m.come == m.expected {
		close(m.complete)
	}
	m.mu.Unlock()
	select {
	case <-m.complete:
		return nil
	case <-time.After(5 * time.Second):
		return errors.New("the others were not asked meanwhile")
	}
}

type meetingArm struct {
	arm.Arm
	m *meeting
}

func (a meetingArm) Search(ctx context.Context, view *sqlite.View, q arm.Query) (arm.Result, error) {
	if err := a.m.wait(); err != nil {
		return arm.Result{}, err
	}
	return a.Arm.Search(ctx, view, q)
}

type meetingBlocks struct {
	arm.BlockIndex
	m *meeting
}

func (b meetingBlocks) Nearest(ctx context.Context, view *sqlite.View, q arm.BlockQuery) (arm.BlockAnswer, error) {
	if err := b.m.wait(); err != nil {
		return arm.BlockAnswer{}, err
	}
	return b.BlockIndex.Nearest(ctx, view, q)
}

// No arm waits until another one has answered.
func TestArmsAreAskedTogether(t *testing.T) {
	b := open(t, map[string]string{"blocks.retrieve": "true"})
	b.put("mia", StoreItem{Content: "the kettle whistles at dawn"}, StoreItem{Content: "やかんが鳴る"}, StoreItem{Content: "水壶响了"})
	b.build("mia")
	m := newMeeting(4) // words of memories and of episodes, vectors, blocks
	for name, a := range b.arms {
		b.arms[name] = meetingArm{a, m}
	}
	b.blocks = arm.NewBlocks(meetingBlocks{arm.NewCodes(b.matrices), m})
	answer, err := b.Recall(t.Context(), RecallRequest{Agent: "mia", Query: "kettle"})
	if err != nil || len(answer.Rows) == 0 {
		t.Fatalf("%+v, %v", answer, err)
	}
}

func TestTogether(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	failed := make(chan struct{})
	err := together(
		func() error { return nil },
		func() error { <-failed; return first },
		func() error { close(failed); return second },
	)
	if err != first {
		t.Errorf("got %v, not the error of the first call that has one", err)
	}
	defer func() {
		if value := fmt.Sprint(recover()); !strings.HasPrefix(value, "a panic of a call\n") || !strings.Contains(value, "TestTogether.func") {
			t.Errorf("recovered %v", value)
		}
	}()
	_ = together(func() error { panic("a panic of a call") }, func() error { return first })
	t.Error("a panic did not reach the caller")
}
