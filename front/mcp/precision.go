package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recalld/coordinator"
	"recalld/memory"
)

const (
	setPrecisionText = `Say how strict an agent's recall is, and measure its thresholds anew from its own records: strict answers less and misses more, lenient the other way. Try this first when recall gives too much or too little.`
	getPrecisionText = `Read how strict an agent's recall is, and the thresholds in force.`
	calibrateText    = `Measure an agent's thresholds anew from its own records, at its own strictness. Call it after a large import or a new embedding model.`
)

type precisionAnswer struct {
	OK         bool                      `json:"ok"`
	AgentID    string                    `json:"agent_id"`
	Precision  string                    `json:"precision"`
	Overridden bool                      `json:"overridden" jsonschema:"measured for this agent"`
	Global     string                    `json:"global_precision"`
	Thresholds []coordinator.Calibration `json:"thresholds"`
}

type calibrateAnswer struct {
	OK        bool                      `json:"ok"`
	AgentID   string                    `json:"agent_id"`
	Precision string                    `json:"precision,omitempty"`
	Results   []coordinator.Calibration `json:"results"`
	Skipped   []coordinator.Degradation `json:"skipped,omitempty" jsonschema:"what has too few records"`
}

func precisionTools() []tool {
	level := choice("precision", "", "strict", "balanced", "lenient")
	return []tool{{
		name: "set_recall_precision", text: setPrecisionText, effect: changes,
		required:   []string{"precision"},
		properties: []property{level},
		answer:     answers[calibrateAnswer],
		call: func(s *server, ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
			request := coordinator.CalibrateRequest{Agent: s.agent(a), Precision: a.requiredText("precision", "", "say strict, balanced or lenient")}
			return s.calibrate(ctx, a, request)
		},
	}, {
		name: "get_recall_precision", text: getPrecisionText, effect: reads,
		answer: answers[precisionAnswer],
		call:   (*server).precision,
	}, {
		name: "calibrate_threshold", text: calibrateText, effect: changes,
		properties: []property{
			choice("method", "", "separation", "percentile", "zscore"),
			number("percentile", "For method percentile, such as 0.95."),
			number("z_factor", "For method zscore, such as 1."),
			boolean("dry_run", "Measure, store nothing."),
		},
		answer: answers[calibrateAnswer],
		call: func(s *server, ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
			request := coordinator.CalibrateRequest{Agent: s.agent(a), Method: a.text("method", ""), DryRun: a.flag("dry_run")}
			percentile, z := a.number("percentile"), a.number("z_factor")
			if err := a.end(); err != nil {
				return nil, err
			}
			for _, of := range []struct{ name, method string }{{"percentile", "percentile"}, {"z_factor", "zscore"}} {
				if a.has(of.name) && request.Method != of.method {
					return nil, &memory.FieldError{Field: of.name, Problem: "is given with another method", Limit: "method " + of.method, Next: "leave it out, or name the method that it is for"}
				}
			}
			switch request.Method {
			case "percentile":
				request.Parameter = percentile
				a.names["parameter"] = "percentile"
			case "zscore":
				request.Parameter = z
				a.names["parameter"] = "z_factor"
			}
			return s.calibrate(ctx, a, request)
		},
	}}
}

func (s *server) calibrate(ctx context.Context, a *arguments, request coordinator.CalibrateRequest) (*sdk.CallToolResult, error) {
	if err := a.end(); err != nil {
		return nil, err
	}
	r, err := s.service.Calibrate(ctx, request)
	if err != nil {
		return nil, err
	}
	answer := calibrateAnswer{OK: len(r.Results) > 0, AgentID: r.Agent, Precision: request.Precision, Results: r.Results, Skipped: r.Skipped}
	if answer.OK {
		answer.Precision = r.Results[0].Precision
		return result(answer, false), nil
	}
	return result(struct {
		calibrateAnswer
		Error string `json:"error"`
	}{answer, "nothing could be measured, and nothing was changed; store more records first"}, true), nil
}

func (s *server) precision(ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
	agent := s.agent(a)
	if err := a.end(); err != nil {
		return nil, err
	}
	stored, err := s.service.Calibrations(ctx, agent)
	if err != nil {
		return nil, err
	}
	const usual = "balanced"
	answer := precisionAnswer{OK: true, AgentID: agent, Precision: usual, Overridden: len(stored) > 0, Global: usual, Thresholds: stored}
	newest := ""
	for _, c := range stored {
		if c.Measured > newest {
			newest, answer.Precision = c.Measured, c.Precision
		}
	}
	return result(answer, false), nil
}
