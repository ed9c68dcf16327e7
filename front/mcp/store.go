package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recalld/coordinator"
	"recalld/memory"
)

const storeText = `Remember one thing for later conversations. Call it when you learn a fact, a decision and its reason, a preference, a correction, or an outcome that will still matter when this conversation is gone. Write content so that it stands alone: names instead of pronouns, absolute dates. Not for secrets, nor for what the files at hand already say. Read "result": stored; skipped (the same text or id is there already); versioned; rejected (see error). Changed text under a known id is skipped unless on_conflict is "version".`

type storeAnswer struct {
	OK       bool                  `json:"ok"`
	Result   string                `json:"result" jsonschema:"stored, versioned, skipped or rejected"`
	Ref      string                `json:"ref,omitempty"` // the record, or the one that made it a duplicate
	ID       int64                 `json:"id,omitempty"`  // its number
	Embed    string                `json:"embed,omitempty" jsonschema:"done, queued (found by words until then), off"`
	Locked   bool                  `json:"locked,omitempty"`
	Advisory *coordinator.Advisory `json:"advisory,omitempty"`
}

func storeTool() tool {
	return tool{
		name: "store", text: storeText, effect: adds,
		properties: []property{
			text("content", "The text. What is too long is refused, never cut."),
			text("id", "Your own id for it; the same id is stored once."),
			text("timestamp", "When it happened, RFC 3339 with zone."),
			property{"source", object("Where it comes from.", nil,
				text("type", "Such as chat or file."),
				text("id", "Session or document; records that share it are neighbours."),
				text("name", "Speaker or author."))},
			anObject("metadata", "Kept, not searched."),
			boolean("lock", "Protect it as lock_memory does."),
			text("project_id", "Absent: the pool that every project sees."),
			text("channel", "Absent: every channel sees it."),
			choice("on_conflict", `"version" keeps both texts.`, "skip", "version"),
			anObject("message", "Older form: content, id, timestamp, source, metadata inside."),
		},
		answer: answers[storeAnswer],
		call:   (*server).store,
	}
}

func (s *server) store(ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
	request := coordinator.StoreRequest{Agent: s.agent(a)}
	item := coordinator.StoreItem{
		Project:    a.text("project_id", ""),
		Channel:    a.text("channel", ""),
		OnConflict: a.text("on_conflict", ""),
		Locked:     a.flag("lock"),
	}
	message, older := a, a.has("message")
	if older {
		message = a.object("message")
	}
	item.Content = message.requiredText("content", "", "give the text to remember")
	item.MessageID = message.text("id", "")
	item.Time = message.text("timestamp", "")
	item.Metadata = message.rawObject("metadata")
	source := message.object("source")
	item.Source = memory.Source{Type: source.text("type", ""), ID: source.text("id", ""), Name: source.text("name", "")}
	for field, name := range map[string]string{"content": "content", "message_id": "id", "time": "timestamp", "metadata": "metadata", "source": "source"} {
		a.names[field] = message.at(name)
	}
	if !older {
		a.known = append(a.known, "message")
	}
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
	answer := storeAnswer{OK: true, Result: r.Outcome, Ref: r.Ref, ID: idOf(r.Ref), Embed: r.Embed, Locked: item.Locked && r.Outcome != outcomeSkipped, Advisory: response.Advisory}
	if r.Outcome == coordinator.OutcomeRejected {
		answer.OK, answer.Locked = false, false
		return result(struct {
			storeAnswer
			Error string `json:"error"`
		}{answer, ownWords(r.Error, a.names)}, true), nil
	}
	return result(answer, false), nil
}

// outcomeSkipped is what the service says of what was there already.
const outcomeSkipped = "skipped"

// idOf is the number in a reference, 0 when it is none.
func idOf(text string) int64 {
	ref, err := memory.ParseRef(text)
	if err != nil {
		return 0
	}
	return ref.ID
}
