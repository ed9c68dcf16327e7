package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recalld/coordinator"
)

const (
	pauseText  = `Keep nothing for a while, when the user wants to talk off the record: every write of this agent is refused with an error until the time is over, also by other clients and after a restart. Reading goes on.`
	resumeText = `End the pause of pause_persistence now, when the user says so.`
	pausedText = `See whether this agent's writes are paused, and until when.`
)

// scopeAgent is what a pause covers.
const scopeAgent = "agent"

type pauseAnswer struct {
	Paused    bool   `json:"paused"`
	ExpiresAt string `json:"expires_at,omitempty"`
	TTL       int    `json:"ttl_seconds,omitempty"`
	Left      int    `json:"ttl_remaining_seconds,omitempty"`
	WasActive bool   `json:"was_active,omitempty"`
	Scope     string `json:"scope" jsonschema:"agent"`
}

// usualPause is the reference's, in seconds.
const usualPause = 1_800

func pauseTools() []tool {
	return []tool{{
		name: "pause_persistence", text: pauseText, effect: changes,
		properties: []property{count("ttl_seconds", "", 1, coordinator.MaxPause, usualPause)},
		answer:     answers[pauseAnswer],
		call: func(s *server, ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
			seconds := a.count("ttl_seconds", 1, coordinator.MaxPause)
			if seconds == 0 {
				seconds = usualPause
			}
			a.names["seconds"] = "ttl_seconds"
			return s.pause(ctx, a, seconds)
		},
	}, {
		name: "resume_persistence", text: resumeText, effect: changes,
		answer: answers[pauseAnswer],
		call: func(s *server, ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
			return s.pause(ctx, a, 0)
		},
	}, {
		name: "persistence_status", text: pausedText, effect: reads,
		answer: answers[pauseAnswer],
		call: func(s *server, ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
			agent := s.agent(a)
			if err := a.end(); err != nil {
				return nil, err
			}
			state, err := s.service.Paused(ctx, agent)
			if err != nil {
				return nil, err
			}
			return result(pauseAnswer{Paused: state.Paused, ExpiresAt: state.Until, Left: state.Seconds, Scope: scopeAgent}, false), nil
		},
	}}
}

func (s *server) pause(ctx context.Context, a *arguments, seconds int) (*sdk.CallToolResult, error) {
	agent := s.agent(a)
	if err := a.end(); err != nil {
		return nil, err
	}
	state, err := s.service.Pause(ctx, coordinator.PauseRequest{Agent: agent, Seconds: seconds})
	if err != nil {
		return nil, err
	}
	return result(pauseAnswer{state.Paused, state.Until, seconds, state.Seconds, state.WasPaused, scopeAgent}, false), nil
}
