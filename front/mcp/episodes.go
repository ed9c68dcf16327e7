package mcp

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recalld/coordinator"
	"recalld/memory"
)

const archiveText = `Keep the summary of a finished conversation or piece of work. Call it once, at the end: what was wanted, what was decided and why, what is open. You write the summary; the server never does. Single facts belong in store.`

type archiveAnswer struct {
	OK        bool                  `json:"ok"`
	Result    string                `json:"result" jsonschema:"stored or skipped"`
	EpisodeID int64                 `json:"episode_id,omitempty"`
	Ref       string                `json:"ref,omitempty"`
	Advisory  *coordinator.Advisory `json:"advisory,omitempty"`
}

func archiveTool() tool {
	history := property{"history", turnsOf(&jsonschema.Schema{Type: "object"}, maxHistory)}
	history.schema.Description = "The conversation; only its first and last timestamp are kept."
	return tool{
		name: "archive_episode", text: archiveText, effect: adds,
		required: []string{"summary"},
		properties: []property{
			text("summary", "It stands alone: names, absolute dates."),
			text("keywords", "Separated by spaces, or by commas."),
			boolean("resolved", "The matter is finished."),
			history,
			text("project_id", "As in store."),
			text("channel", "As in store."),
		},
		answer: answers[archiveAnswer],
		call:   (*server).archive,
	}
}

// maxHistory bounds the turns whose timestamps are read.
const maxHistory = 10_000

func (s *server) archive(ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
	request := coordinator.StoreRequest{Agent: s.agent(a)}
	item := coordinator.StoreItem{
		Type:     "episode",
		Summary:  a.requiredText("summary", "", "write the summary yourself"),
		Keywords: keywords(a),
		Resolved: a.flag("resolved"),
		Project:  a.text("project_id", ""),
		Channel:  a.text("channel", ""),
	}
	item.Start, item.End = period(a)
	a.names["start"], a.names["end"] = "history", "history"
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
	if r.Outcome == coordinator.OutcomeRejected {
		return result(failure{Error: ownWords(r.Error, a.names)}, true), nil
	}
	return result(archiveAnswer{OK: true, Result: r.Outcome, EpisodeID: idOf(r.Ref), Ref: r.Ref, Advisory: response.Advisory}, false), nil
}

// keywords reads one text, cut at commas where it has some and else at spaces,
// or a list.
func keywords(a *arguments) []string {
	var raw json.RawMessage
	a.read("keywords", &raw, "a string")
	if strings.HasPrefix(string(raw), "[") {
		return a.texts("keywords")
	}
	written := a.text("keywords", "")
	words := strings.Fields(written)
	if strings.ContainsAny(written, ",，、") {
		words = strings.FieldsFunc(written, func(r rune) bool { return strings.ContainsRune(",，、", r) })
	}
	var kept []string
	for _, word := range words {
		if word = strings.TrimSpace(word); word != "" {
			kept = append(kept, word)
		}
	}
	return kept
}

// period is the first and the last time of a conversation.
func period(a *arguments) (start, end string) {
	turns := a.objects("history")
	if len(turns) > maxHistory {
		a.refuse(&memory.FieldError{Field: "history", Problem: "is too long", Limit: "10,000 messages", Next: "send the first and the last one"})
		return "", ""
	}
	var first, last memory.Time
	for _, turn := range turns {
		written := turn.text("timestamp", "")
		turn.rest()
		when, err := memory.ParseTime(turn.at("timestamp"), written)
		if err != nil {
			turn.refuse(err)
		}
		if when.Known && (!first.Known || when.Milli < first.Milli) {
			first = when
		}
		if when.Known && (!last.Known || when.Milli > last.Milli) {
			last = when
		}
	}
	return first.String(), last.String()
}
