package embed

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// RR-448 as a table: each step is an event, then what one reader is told.
func TestAdvisoryStates(t *testing.T) {
	const (
		silence = ""
		full    = "Tell the user"
		short   = "Reminder"
	)
	clock := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	a := NewAdvisory("openai", true, func() time.Time { return clock })
	for i, step := range []struct {
		event string
		state State
		told  string
	}{
		{"", Unknown, silence},
		{"failure", Unknown, silence},
		{"failure", Fault, full},
		{"", Fault, short},
		{"failure", Fault, short},
		{"success", Healthy, silence},
		{"failure", Healthy, silence},
		{"success", Healthy, silence},
		{"failure", Healthy, silence},
		{"failure", Fault, full},
		{"", Fault, short},
	} {
		clock = clock.Add(time.Minute)
		switch step.event {
		case "failure":
			a.Failure(errors.New("connection refused"))
		case "success":
			a.Success()
		}
		notice := a.Notice("agent")
		if a.State() != step.state {
			t.Errorf("step %d: state %v, want %v", i, a.State(), step.state)
		}
		if step.told == silence {
			if notice != nil {
				t.Errorf("step %d: %+v, want silence", i, notice)
			}
			continue
		}
		if notice == nil || !strings.HasPrefix(notice.Runbook, step.told) {
			t.Fatalf("step %d: %+v, want %q", i, notice, step.told)
		}
		if !notice.Degraded || notice.Severity != "fault" || notice.Reason == "" || !strings.Contains(notice.Evidence, "connection refused") {
			t.Errorf("step %d: %+v", i, notice)
		}
	}
}

// RR-448: the outage's evidence counts from its first failure.
func TestAdvisoryEvidence(t *testing.T) {
	clock := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	a := NewAdvisory("embed", true, func() time.Time { return clock })
	a.Failure(errors.New("first"))
	clock = clock.Add(time.Hour)
	a.Failure(errors.New("second"))
	if got, want := a.Notice("x").Evidence, "2 failures in a row since 2026-03-01T09:00:00Z: second"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// RR-448: mode none is a hint at once and for ever.
func TestAdvisoryHint(t *testing.T) {
	a := NewAdvisory("none", true, time.Now)
	if n := a.Notice("x"); n == nil || n.Severity != "hint" || !strings.HasPrefix(n.Runbook, "Tell the user") {
		t.Fatalf("%+v", n)
	}
	a.Success()
	a.Failure(ErrNoModel)
	a.Failure(ErrNoModel)
	if n := a.Notice("x"); a.State() != Hint || !strings.HasPrefix(n.Runbook, "Reminder") {
		t.Errorf("%v %+v", a.State(), n)
	}
}

// DECISIONS 1: what one agent was told does not shorten what another one hears.
func TestAdvisoryIsPerReader(t *testing.T) {
	a := NewAdvisory("openai", true, time.Now)
	a.Failure(ErrUnavailable)
	a.Failure(ErrUnavailable)
	first, second := a.Notice("a"), a.Notice("b")
	if first.Runbook != second.Runbook {
		t.Error("the second reader was told in short")
	}
}

// RR-448: switched off it observes and is silent.
func TestAdvisorySwitchedOff(t *testing.T) {
	a := NewAdvisory("openai", false, time.Now)
	a.Failure(ErrUnavailable)
	a.Failure(ErrUnavailable)
	if a.State() != Fault || a.Notice("x") != nil {
		t.Error("switched off, and not silent")
	}
}
