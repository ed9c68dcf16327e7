package coordinator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// patience is a context that is cancelled when it is looked at for the last
// time that it grants. It remembers who looked.
type patience struct {
	context.Context
	mu    sync.Mutex
	left  int // looks before the cancellation; negative: without end
	looks int
	from  map[string]bool // files whose code looked
	done  chan struct{}
}

func patient(left int) *patience {
	return &patience{Context: context.Background(), left: left, from: map[string]bool{}, done: make(chan struct{})}
}

func (p *patience) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looks++
	for skip := 2; skip < 12; skip++ {
		if _, file, _, ok := runtime.Caller(skip); ok {
			p.from[file[strings.LastIndexByte(file, '/')+1:]] = true
		}
	}
	if p.looks == p.left+1 {
		close(p.done)
	}
}

// seen is how often it was looked at so far, and by whom. The database's driver
// looks from a goroutine of its own, which may outlive the call.
func (p *patience) seen() (looks int, from map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.looks, maps.Clone(p.from)
}

func (p *patience) Err() error {
	p.look()
	select {
	case <-p.done:
		return context.Canceled
	default:
		return nil
	}
}

func (p *patience) Done() <-chan struct{} {
	p.look()
	return p.done
}

// Whenever a recall is cancelled, it ends with the cancellation or with the
// whole answer, never with a part of it; and both the vector arm and the lexical
// arm look whether it was.
func TestCancellationReachesTheArms(t *testing.T) {
	b := open(t, nil)
	for _, channel := range []string{"", "a", "b", "c"} {
		var items []StoreItem
		for i := range 40 {
			items = append(items, StoreItem{Channel: channel, Content: fmt.Sprintf("会議 %d の場所 meeting room 会议室 in %q", i, channel)})
		}
		b.put("mia", items...)
	}
	request := RecallRequest{Agent: "mia", Query: "meeting 会議 会议室", Gate: "off"}
	if _, err := b.Recall(t.Context(), request); err != nil {
		t.Fatal(err) // from here on the index is built and nothing is read for the first time
	}
	whole := patient(-1)
	answer, err := b.Recall(whole, request)
	if err != nil {
		t.Fatal(err)
	}
	looks, from := whole.seen()
	for _, file := range []string{"vector.go", "lexical.go"} {
		if !from[file] {
			t.Errorf("%s never asks whether the recall was cancelled", file)
		}
	}
	stopped := 0
	for n := range looks {
		got, err := b.Recall(patient(n), request)
		switch {
		case errors.Is(err, context.Canceled):
			stopped++
		case err != nil:
			t.Errorf("cancelled at look %d of %d: %v", n, looks, err)
		case len(got.Rows) != len(answer.Rows) || len(got.Degraded) != len(answer.Degraded):
			t.Errorf("cancelled at look %d of %d: %d rows of %d, degraded %v", n, looks, len(got.Rows), len(answer.Rows), got.Degraded)
		}
	}
	if stopped == 0 {
		t.Error("no cancellation stopped the recall")
	}
	t.Logf("%d looks, %d of them stopped the recall", looks, stopped)
}
