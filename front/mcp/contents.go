package mcp

import (
	"context"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recalld/coordinator"
)

const contentsText = `Fetch whole texts by the refs of a recall: only those whose preview is cut and that you need. "missing" are unknown refs; "deferred" did not fit the budget, ask for them again. A ref may name a range of characters, half open: mem:7#chars=100-240.`

type contentsAnswer struct {
	Items      []item   `json:"items" jsonschema:"in the order asked"`
	Missing    []string `json:"missing"`              // unknown or malformed
	Unresolved []string `json:"unresolved,omitempty"` // ranges that the text no longer has
	Deferred   []string `json:"deferred,omitempty"`
	Budget     int      `json:"budget_chars,omitempty"`
}

// item is a whole record: a recall's message and what only its owner needs.
type item struct {
	message
	Keywords []string        `json:"keywords,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	Locked   bool            `json:"locked,omitempty"`
	Revision string          `json:"revision,omitempty"` // SHA-256 of the whole text
}

func contentsTool() tool {
	return tool{
		name: "get_contents", text: contentsText, effect: reads,
		required:   []string{"refs"},
		properties: []property{texts("refs", `Such as ["mem:12", "ep:3"].`, coordinator.MaxContentRefs)},
		answer:     answers[contentsAnswer],
		call:       (*server).getContents,
	}
}

func (s *server) getContents(ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
	request := coordinator.ContentsRequest{Agent: s.agent(a), Refs: a.texts("refs")}
	if !a.has("refs") {
		a.missing("refs", "a list of refs", "take refs from a recall's messages")
	}
	if err := a.end(); err != nil {
		return nil, err
	}
	response, err := s.service.GetContents(ctx, request)
	if err != nil {
		return nil, err
	}
	answer := contentsAnswer{
		Items:      make([]item, len(response.Rows)),
		Missing:    append([]string{}, response.Missing...),
		Unresolved: response.Unresolved,
		Deferred:   response.Deferred,
		Budget:     response.Budget,
	}
	for i, row := range response.Rows {
		answer.Items[i] = item{messageOf(row), row.Keywords, row.Metadata, row.Locked, row.Revision}
	}
	return result(answer, false), nil
}
