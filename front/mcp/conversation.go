package mcp

import (
	"context"
	"fmt"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recalld/coordinator"
	"recalld/memory"
)

const recallWithContextText = `Recall for a conversation that you pass in: one list of both in order of time, the newest last, undated first. What the conversation says already is not recalled again. Use it to answer inside a running chat; use recall to look something up.`

// contextConversation marks what came from the caller and not from memory.
const contextConversation = "conversation"

type contextMessage struct {
	message
	ContextType string `json:"context_type,omitempty"` // conversation, or absent for a memory
}

type contextAnswer struct {
	Messages []contextMessage `json:"messages" jsonschema:"in order of time"`
	recallRest
}

// recallRest is what a recall's answer has beside its messages.
type recallRest struct {
	Order    string                    `json:"order"`
	Profile  []memory.Profile          `json:"profile,omitempty"`
	Coverage coordinator.Coverage      `json:"coverage"`
	Degraded []coordinator.Degradation `json:"degraded,omitempty"`
	Advisory *coordinator.Advisory     `json:"advisory,omitempty"`
}

// orderOfTime is the order of an answer with a conversation in it.
const orderOfTime = "chronological"

func recallWithContextTool() tool {
	turn := object("", nil, text("role", "user or assistant; others only filter."), text("content", ""), text("name", ""), text("user_id", ""), text("timestamp", "RFC 3339 with zone."))
	return tool{
		name: "recall_with_context", text: recallWithContextText, effect: reads,
		required: []string{"query"},
		properties: []property{
			text("query", "This and the next ones are as in recall."),
			count("limit", "", 1, coordinator.MaxCount, coordinator.DefaultCount),
			text("project_id", ""), text("channel", ""), text("source_id", ""), boolean("full_content", ""), boolean("deep", ""),
			property{"external_context", turnsOf(turn, coordinator.MaxExclude)},
		},
		answer: answers[contextAnswer],
		call:   (*server).recallWithContext,
	}
}

func (s *server) recallWithContext(ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
	request := s.question(a)
	turns, contents := conversation(a)
	request.Exclude = contents
	a.names["exclude_contents"] = "external_context"
	if err := a.end(); err != nil {
		return nil, err
	}
	response, err := s.service.Recall(ctx, request)
	if err != nil {
		return nil, err
	}
	for _, row := range response.Rows {
		when, err := memory.ParseTime("timestamp", row.Time)
		if err != nil {
			return nil, fmt.Errorf("recall with context: %s: %w", row.Ref, err)
		}
		turns = append(turns, turn{contextMessage{message: messageOf(row)}, when})
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return byTime(a.when, b.when) })
	answer := contextAnswer{
		Messages:   make([]contextMessage, len(turns)),
		recallRest: recallRest{orderOfTime, response.Profile, response.Coverage, response.Degraded, response.Advisory},
	}
	for i, t := range turns {
		answer.Messages[i] = t.contextMessage
	}
	return result(answer, false), nil
}

// turn is one message and the instant that its timestamp names.
type turn struct {
	contextMessage
	when memory.Time
}

// byTime puts what has no time first.
func byTime(a, b memory.Time) int {
	switch {
	case a.Known != b.Known && b.Known:
		return -1
	case a.Known != b.Known:
		return 1
	case a.Milli < b.Milli:
		return -1
	case a.Milli > b.Milli:
		return 1
	}
	return 0
}

// conversation reads what the caller holds: every text is left out of the
// recall, the turns of user and assistant come back in the answer.
func conversation(a *arguments) (turns []turn, contents []string) {
	for _, entry := range a.objects("external_context") {
		role, content := entry.text("role", ""), entry.text("content", "")
		said := message{Content: content, Timestamp: entry.text("timestamp", ""), Source: memory.Source{Type: role, ID: entry.text("user_id", ""), Name: entry.text("name", "")}}
		when, err := memory.ParseTime(entry.at("timestamp"), said.Timestamp)
		if err != nil {
			entry.refuse(err)
		}
		if content != "" {
			contents = append(contents, content)
		}
		if role == "user" || role == "assistant" {
			turns = append(turns, turn{contextMessage{said, contextConversation}, when})
		}
	}
	return turns, contents
}
