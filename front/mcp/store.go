package mcp

import (
	"context"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recalld/coordinator"
	"recalld/memory"
)

const storeText = `Remember one thing for later conversations. Call it when you learn a fact, a decision and its reason, a preference, a correction, or an outcome that will still matter when this conversation is gone. Write content so that it stands alone: names instead of pronouns, absolute dates. Not for secrets, nor for what the files at hand already say. Read "result": stored; skipped (the same text or message.id is already there, nothing to do); versioned; rejected (see error). Changed text under a known message.id is skipped unless on_conflict is "version".`

type storeAnswer struct {
	OK       bool                  `json:"ok"`
	Result   string                `json:"result" jsonschema:"stored, versioned, skipped or rejected"`
	Ref      string                `json:"ref,omitempty" jsonschema:"the record, or the one that made it a duplicate"`
	Embed    string                `json:"embed,omitempty" jsonschema:"done, queued (found by its words until then), off"`
	Advisory *coordinator.Advisory `json:"advisory,omitempty" jsonschema:"the server is degraded"`
}

func storeTool(o Options) (*sdk.Tool, error) {
	required, whose := scope(o.Agent)
	message := object("What to remember.", []string{"content"},
		text("content", "The text, up to 16,000 characters."),
		text("id", "Your own id for it; the same id is stored once."),
		text("timestamp", "When it happened, RFC 3339 with zone."),
		property{"source", object("Where it comes from.", nil,
			text("type", "Such as chat or file."),
			text("id", "Session or document; records that share it are neighbours."),
			text("name", "Speaker or author."))},
		property{"metadata", &jsonschema.Schema{Type: "object", Description: "Kept, not searched."}},
	)
	output, err := answers[storeAnswer]()
	if err != nil {
		return nil, err
	}
	return &sdk.Tool{
		Name:        "store",
		Title:       "Remember",
		Description: storeText,
		Annotations: &sdk.ToolAnnotations{IdempotentHint: true, DestructiveHint: new(false), OpenWorldHint: new(false)},
		InputSchema: object("", append(required, "message"), append(whose,
			property{"message", message},
			text("project_id", "Project it belongs to. Absent: the pool that every project sees."),
			text("channel", "Channel it belongs to. Absent: every channel sees it."),
			choice("on_conflict", `When message.id is known: "version" keeps both texts.`, "skip", "version"),
		)...),
		OutputSchema: output,
	}, nil
}

func (s *server) store(ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
	request := coordinator.StoreRequest{Agent: s.agent(a)}
	item := coordinator.StoreItem{
		Project:    a.text("project_id", ""),
		Channel:    a.text("channel", ""),
		OnConflict: a.text("on_conflict", ""),
	}
	if !a.has("message") {
		a.refuse(&memory.FieldError{Field: "message", Problem: "is missing", Limit: "an object with content", Next: "give the text as message.content"})
	}
	message := a.object("message")
	item.Content = message.requiredText("content", "", "give the text to remember")
	item.MessageID = message.text("id", "")
	item.Time = message.text("timestamp", "")
	item.Metadata = message.rawObject("metadata")
	source := message.object("source")
	item.Source = memory.Source{Type: source.text("type", ""), ID: source.text("id", ""), Name: source.text("name", "")}
	if err := a.end(); err != nil {
		return nil, err
	}
	request.Items = []coordinator.StoreItem{item}
	response, err := s.service.Store(ctx, request)
	if err != nil {
		return nil, err
	}
	if len(response.Results) != 1 {
		return nil, errNoResult
	}
	r := response.Results[0]
	answer := storeAnswer{OK: true, Result: r.Outcome, Ref: r.Ref, Embed: r.Embed, Advisory: response.Advisory}
	if r.Outcome == coordinator.OutcomeRejected {
		answer.OK = false
		return result(struct {
			storeAnswer
			Error string `json:"error"`
		}{answer, ownWords(r.Error)}, true), nil
	}
	return result(answer, false), nil
}
