package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recalld/coordinator"
)

const (
	healthText    = `Check how the whole store is kept: the file, its indexes, the queue, the model. When the user asks, or after an error that says damaged. fix repairs what can be repaired without loss.`
	deepCheckText = `Look at what one agent's records say: without a source, too short, undated, nearly the same twice, a profile grown old. Reports only; decide with the user, then update or delete.`
	queueText     = `See whether records still wait for their embedding. Until then they are found by their words.`
)

type healthAnswer struct {
	Status string  `json:"status" jsonschema:"healthy, degraded or unhealthy"`
	Issues []issue `json:"issues"`
	Run    int     `json:"checks_run"`
	Fixed  int64   `json:"fixed"`
}

// issue is one check that found something.
type issue struct {
	Check    string   `json:"check"`
	Severity string   `json:"severity"`
	Evidence []string `json:"evidence,omitempty"`
	Fix      string   `json:"fix,omitempty"`
	Fixed    int64    `json:"fixed,omitempty"`
}

type deepCheckAnswer struct {
	AgentID string                    `json:"agent_id"`
	Scanned int64                     `json:"rows_scanned"`
	Partial bool                      `json:"partial,omitempty" jsonschema:"only the newest were read"`
	Results []coordinator.CheckResult `json:"results"`
}

type queueAnswer struct {
	Enabled      bool   `json:"enabled" jsonschema:"false: there is no model"`
	Pending      int64  `json:"pending"`
	Failed       int64  `json:"failed"`
	Unembeddable int64  `json:"unembeddable"`
	LastError    string `json:"last_error,omitempty"`
}

// maxChecks bounds a list of names of checks.
const maxChecks = 100

func healthTools() []tool {
	names := texts("checks", "Names; absent: all.", maxChecks)
	return []tool{{
		name: "check_health", text: healthText, effect: changes, whole: true,
		properties: []property{names, boolean("fix", "")},
		answer:     answers[healthAnswer],
		call:       (*server).health,
	}, {
		name: "deep_check", text: deepCheckText, effect: reads,
		properties: []property{names},
		answer:     answers[deepCheckAnswer],
		call: func(s *server, ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
			request := coordinator.DeepCheckRequest{Agent: s.agent(a), Checks: a.texts("checks")}
			if err := a.end(); err != nil {
				return nil, err
			}
			r, err := s.service.DeepCheck(ctx, request)
			if err != nil {
				return nil, err
			}
			return result(deepCheckAnswer{r.Agent, r.Scanned, r.Partial, r.Checks}, false), nil
		},
	}, {
		name: "get_queue_status", text: queueText, effect: reads, whole: true,
		answer: answers[queueAnswer],
		call: func(s *server, ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
			if err := a.end(); err != nil {
				return nil, err
			}
			status, err := s.service.Status(ctx)
			if err != nil {
				return nil, err
			}
			q := status.Queue
			return result(queueAnswer{status.Model.ID != 0, q.Pending, q.Failed, q.Unembeddable, q.LastError}, false), nil
		},
	}}
}

func (s *server) health(ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
	request := coordinator.DoctorRequest{Checks: a.texts("checks"), Fix: a.flag("fix")}
	if err := a.end(); err != nil {
		return nil, err
	}
	r, err := s.service.Doctor(ctx, request)
	if err != nil {
		return nil, err
	}
	answer := healthAnswer{Status: "healthy", Issues: []issue{}, Run: len(r.Checks)}
	for _, check := range r.Checks {
		answer.Fixed += check.Fixed
		if check.OK {
			continue
		}
		answer.Issues = append(answer.Issues, issue{check.Name, check.Severity, check.Evidence, check.Fix, check.Fixed})
		switch {
		case check.Severity == "error":
			answer.Status = "unhealthy"
		case answer.Status == "healthy":
			answer.Status = "degraded"
		}
	}
	return result(answer, false), nil
}
