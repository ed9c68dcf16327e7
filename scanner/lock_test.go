package scanner

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// Codes are locked, and values are not. Where the system refuses, the numbers and
// the log say so, once, and answers are as before.
func TestLockedCodes(t *testing.T) {
	for _, refused := range []error{nil, errors.New("no")} {
		w, r := small(t)
		var log bytes.Buffer
		w.server.Close()
		w.server = NewServer(Options{Threads: 1, Lock: true, Log: &log})
		t.Cleanup(w.server.Close)
		var locked uint64
		w.server.locking.pages = func(b []byte) error {
			locked += uint64(len(b))
			return refused
		}
		w.open()
		for range 2 {
			w.doPublish()
			w.server.tasks.Wait()
		}
		stats, err := w.server.Stats(t.Context(), nil)
		w.must(err)
		if refused == nil && (stats.GetLockedBytes() != locked || locked == 0 || locked >= stats.GetMappedBytes() || stats.GetLockProblem() != "" || log.Len() != 0) {
			t.Errorf("locked %d bytes, %v, %q", locked, stats, log.String())
		}
		if refused != nil && (stats.GetLockedBytes() != 0 || stats.GetLockProblem() == "" || strings.Count(log.String(), stats.GetLockProblem()) != 1) {
			t.Errorf("refused: %v, %q", stats, log.String())
		}
		if reply, err := w.server.Scan(t.Context(), r); err != nil || len(reply.GetAnswers()[0].GetRows().GetIds()) != 1 {
			t.Error(reply, err)
		}
	}
}
