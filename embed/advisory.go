package embed

import (
	"fmt"
	"sync"
	"time"
)

// AdvisoryFailures is how many failures in a row make an outage (RR-448).
const AdvisoryFailures = 2

// State is what is known of the embedding backend (RR-448).
type State uint8

// States.
const (
	Unknown State = iota // nothing was asked yet, or one failure so far
	Healthy              // the last call succeeded
	Hint                 // there is no backend, by the operator's choice
	Fault                // the backend has failed AdvisoryFailures times in a row
)

// String returns the state's name.
func (s State) String() string {
	return [...]string{"unknown", "healthy", "hint", "fault"}[s]
}

// Notice is the advisory that travels in an answer while recall works on words
// alone.
type Notice struct {
	Degraded bool   `json:"degraded"`
	Severity string `json:"severity"` // hint or fault
	Reason   string `json:"reason"`
	Evidence string `json:"evidence"`
	Runbook  string `json:"runbook"`
}

// Advisory is the state machine of RR-448. Each reader is told in full once per
// outage and in short afterwards; silence means healthy or not yet known. Its
// methods may be called concurrently.
type Advisory struct {
	enabled bool
	now     func() time.Time

	mu       sync.Mutex
	state    State
	failures int
	since    time.Time // of the first failure of the present row of failures
	evidence string
	told     map[string]struct{} // readers told in full about the present outage
}

// maxTold bounds the memory of one outage. Readers beyond it are told in full
// every time: too much is better than silence.
const maxTold = 100_000

// NewAdvisory starts the machine for a backend: in [Hint] for none, at once, else
// in [Unknown]. When enabled is false it observes and stays silent.
func NewAdvisory(backend string, enabled bool, now func() time.Time) *Advisory {
	a := &Advisory{enabled: enabled, now: now, told: make(map[string]struct{})}
	if backend == "none" {
		a.state = Hint
		a.evidence = "backend=none"
	}
	return a
}

// Success records that the backend answered. It ends an outage, so that the next
// one is told in full again.
func (a *Advisory) Success() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == Hint {
		return
	}
	a.state, a.failures, a.evidence = Healthy, 0, ""
	clear(a.told)
}

// Failure records that the backend did not answer, with the error of the call.
func (a *Advisory) Failure(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == Hint {
		return
	}
	if a.failures == 0 {
		a.since = a.now()
	}
	a.failures++
	a.evidence = err.Error()
	if a.failures >= AdvisoryFailures {
		a.state = Fault
	}
}

// State returns the present state.
func (a *Advisory) State() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// Notice returns what to tell the reader now, or nil. The reader is the agent: what
// one agent was told says nothing of what another one was.
func (a *Advisory) Notice(reader string) *Notice {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.enabled || (a.state != Hint && a.state != Fault) {
		return nil
	}
	_, again := a.told[reader]
	if !again && len(a.told) < maxTold {
		a.told[reader] = struct{}{}
	}
	if a.state == Hint {
		return &Notice{Degraded: true, Severity: "hint", Reason: "no_embedding_backend", Evidence: a.evidence, Runbook: hintRunbook(again)}
	}
	evidence := fmt.Sprintf("%d failures in a row since %s: %s", a.failures, a.since.UTC().Format(time.RFC3339), a.evidence)
	return &Notice{Degraded: true, Severity: "fault", Reason: "embedding_backend_unavailable", Evidence: evidence, Runbook: faultRunbook(again)}
}

func hintRunbook(again bool) string {
	if again {
		return "Reminder: recall still searches words alone; no embedding backend is configured."
	}
	return "Tell the user: memory search works on words alone, because the embedding backend is set to none. " +
		"Memories worded differently from the question are missed. " +
		"To search by meaning as well, set the embedding backend to static, which needs no download and no server, " +
		"or to openai or embed with the URL of a server, and restart. " +
		"If words alone are wanted, switch this notice off with the setting degraded_advisory."
}

func faultRunbook(again bool) string {
	if again {
		return "Reminder: the embedding server is still unavailable; recall searches words alone."
	}
	return "Tell the user: memory search works on words alone for now, because the embedding server does not answer, so memories worded " +
		"differently from the question may be missed. Nothing is lost: what is stored meanwhile is embedded later. " +
		"Look: is the server's process alive; does its port answer from this machine; do the URL and the model's name in the settings still fit; " +
		"`recalld doctor` shows the failing call. " +
		"Repair: start the server again or correct the settings and restart. The notice ends by itself with the first answer."
}
