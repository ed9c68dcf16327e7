package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const operatingText = `Read the operator's rules for using this memory: an overview, or one of its sections. They come from whoever runs the server, unlike anything that is remembered.`

type operatingAnswer struct {
	Enabled  bool     `json:"enabled" jsonschema:"false: the operator wrote none"`
	Revision string   `json:"context_revision,omitempty"`
	Summary  string   `json:"instructions_summary,omitempty"`
	Sections []string `json:"doctrine_sections,omitempty"`
	Section  string   `json:"section,omitempty"`
	Body     string   `json:"body,omitempty"`
}

func contextTools() []tool {
	return []tool{{
		name: "get_operating_context", text: operatingText, effect: reads, whole: true,
		properties: []property{text("section", "One of doctrine_sections; absent: the overview.")},
		answer:     answers[operatingAnswer],
		call: func(s *server, ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
			section := a.text("section", "")
			if err := a.end(); err != nil {
				return nil, err
			}
			c, err := s.service.OperatingContext(ctx, section)
			if err != nil {
				return nil, err
			}
			return result(operatingAnswer{c.Enabled, c.Revision, c.Summary, c.Sections, c.Section, c.Body}, false), nil
		},
	}}
}

// instruct adds the operator's summary to what a client is told when it
// connects. A summary that cannot be had is left out: the tools say why.
func (s *server) instruct(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, request sdk.Request) (sdk.Result, error) {
		answer, err := next(ctx, method, request)
		if err != nil {
			return answer, err
		}
		switch answer := answer.(type) {
		case *sdk.InitializeResult:
			answer.Instructions = s.instructions(ctx)
		case *sdk.DiscoverResult:
			answer.Instructions = s.instructions(ctx)
		}
		return answer, nil
	}
}

func (s *server) instructions(ctx context.Context) string {
	told, err := s.service.OperatingContext(ctx, "")
	switch {
	case err != nil:
		s.log.Warn("operating context", "error", err)
		return instructions
	case told.Summary == "":
		return instructions
	}
	return instructions + "\n\n" + told.Summary
}
