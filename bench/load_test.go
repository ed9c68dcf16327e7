package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"recalld/coordinator"
	"recalld/front/api"
	"recalld/front/guard"
	"recalld/memory"
	"recalld/sqlite"
)

// heldService lets no recall of many clients end before somebody was turned away.
type heldService struct {
	coordinator.Service
	recalls atomic.Int64
	shed    chan struct{}
	full    atomic.Bool // the disk
}

func (s *heldService) Recall(ctx context.Context, r coordinator.RecallRequest) (*coordinator.RecallResponse, error) {
	if s.full.Load() {
		return nil, fmt.Errorf("recall: %w", memory.ErrFull)
	}
	if s.recalls.Add(1) > loadAlone {
		<-s.shed
	}
	return s.Service.Recall(ctx, r)
}

// seenStatus notes the first answer of a full queue.
type seenStatus struct {
	http.ResponseWriter
	seen func()
}

func (w seenStatus) WriteHeader(code int) {
	if code == http.StatusTooManyRequests {
		w.seen()
	}
	w.ResponseWriter.WriteHeader(code)
}

// heldServer serves a real store with room for one call, none waiting.
func heldServer(t *testing.T) (*heldService, string) {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "recall.db"), sqlite.Options{Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	c, err := coordinator.New(t.Context(), coordinator.Config{Store: store, Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s := &heldService{Service: c, shed: make(chan struct{})}
	once := sync.OnceFunc(func() { close(s.shed) })
	handler := api.NewServer(s, api.Options{Queue: guard.NewQueue(1, -1)})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(seenStatus{w, once}, r) }))
	t.Cleanup(server.Close)
	return s, server.URL
}

// A load against a small limit counts what is shed apart from what is answered and
// from errors, and the server answers one client afterwards as before.
func TestLoadSeesShedsAndRecovery(t *testing.T) {
	s, url := heldServer(t)
	begun := time.Now()
	// Time stands still until somebody was turned away, then the load is over.
	clock := func() time.Time {
		select {
		case <-s.shed:
			return begun.Add(time.Hour)
		default:
			return begun
		}
	}
	o := LoadOptions{Clients: 3, For: time.Minute, Mix: LoadMix{Recall: 1}, Records: 20, Clock: clock,
		Dial: func() (LoadClient, error) { return NewHTTPLoadClient(url, ""), nil }}
	r, err := Load(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Operations) != 1 || r.Shed < 1 || r.Operations[0].Shed != r.Shed || r.Operations[0].Answered < 1 || r.Operations[0].Errors != nil {
		t.Errorf("the load: %+v", r.Operations)
	}
	for name, ops := range map[string][]LoadOp{"before": r.Before, "after": r.After} {
		if len(ops) != 1 || ops[0].Answered != loadAlone || ops[0].Shed != 0 || ops[0].Errors != nil {
			t.Errorf("%s: %+v", name, ops)
		}
	}
}

// Another refusal of the same code is an error, not a shed.
func TestFullDiskIsNoShed(t *testing.T) {
	s, url := heldServer(t)
	s.full.Store(true)
	err := NewHTTPLoadClient(url, "").Recall(t.Context(), "where?")
	if err == nil || errors.Is(err, guard.ErrOverloaded) {
		t.Errorf("a full disk is %v", err)
	}
	tally := newLoadTally()
	if tally.note(LoadRecall, time.Second, err) || tally.ops[LoadRecall].errors["other"] != 1 {
		t.Errorf("%+v", tally.ops[LoadRecall])
	}
}

func TestLoadMixIsRead(t *testing.T) {
	for text, want := range map[string]LoadMix{"recall=80,store=20": {80, 20}, "store=1": {0, 1}, "recall=0,store=5": {0, 5}} {
		if got, err := ParseLoadMix(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "recall", "recall=-1", "recall=0", "recall=1001", "recall=1,list=2", "recall=1,"} {
		var field *memory.FieldError
		if _, err := ParseLoadMix(text); !errors.As(err, &field) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
