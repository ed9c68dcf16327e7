package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recalld/coordinator"
	"recalld/memory"
)

const recallText = `Search what was remembered. Call it at the start of a task, and whenever the answer may depend on earlier conversations: people, decisions, preferences, dates, "as we said". Ask in full words, one question a call; names, identifiers and dates help. The LAST message is the best match. Long content comes as a preview (content_truncated): fetch the ones that matter with get_contents. An empty query lists the newest. Nothing relevant is an answer too; "degraded" says what could not be searched.`

// recallOrder is the reference's: a model attends most to what stands last.
const recallOrder = coordinator.BestLast

// message is a record in the reference's keys (RR-436).
type message struct {
	Ref              string                   `json:"ref,omitempty" jsonschema:"handle for get_contents"`
	Content          string                   `json:"content"`
	ContentTruncated bool                     `json:"content_truncated,omitempty"`
	ContentLen       int                      `json:"content_len,omitempty" jsonschema:"whole length in characters"`
	ID               string                   `json:"id,omitempty" jsonschema:"the caller's own id"`
	Source           memory.Source            `json:"source,omitzero"`
	Timestamp        string                   `json:"timestamp,omitempty"`
	End              string                   `json:"end,omitempty" jsonschema:"episodes"`
	ProjectID        string                   `json:"project_id,omitempty"`
	Channel          string                   `json:"channel,omitempty"`
	Resolved         bool                     `json:"resolved,omitempty" jsonschema:"a finished episode"`
	SupersededBy     string                   `json:"superseded_by,omitempty" jsonschema:"ref of the newer version"`
	MatchReason      *coordinator.MatchReason `json:"match_reason,omitempty"`
	Confidence       *coordinator.Confidence  `json:"confidence,omitempty"`
}

type recallAnswer struct {
	Messages          []message                 `json:"messages" jsonschema:"best last"`
	Order             string                    `json:"order"`
	Profile           []memory.Profile          `json:"profile,omitempty" jsonschema:"what is known about the user"`
	Coverage          coordinator.Coverage      `json:"coverage" jsonschema:"how much of the scope was searched"`
	Degraded          []coordinator.Degradation `json:"degraded,omitempty"`
	Advisory          *coordinator.Advisory     `json:"advisory,omitempty" jsonschema:"the server is degraded"`
	GateFallback      bool                      `json:"gate_fallback,omitempty" jsonschema:"low confidence"`
	FullContentBudget int                       `json:"full_content_budget_chars,omitempty"`
}

func recallTool(o Options) (*sdk.Tool, error) {
	required, whose := scope(o.Agent)
	output, err := answers[recallAnswer]()
	if err != nil {
		return nil, err
	}
	return &sdk.Tool{
		Name:        "recall",
		Title:       "Recall",
		Description: recallText,
		Annotations: readOnly(),
		InputSchema: object("", append(required, "query"), append(whose,
			text("query", "The question, or words of the memory. Empty: the newest."),
			count("limit", "Messages at most.", 1, coordinator.MaxCount, coordinator.DefaultCount),
			text("project_id", `Absent: all projects. "": only the common pool. X: X and the pool.`),
			text("channel", "Absent: all channels. X: X and what has no channel."),
			text("source_id", "Only records whose source.id starts so."),
			texts("exclude_contents", "Texts that you already have; left out.", coordinator.MaxExclude),
			boolean("full_content", "Whole texts instead of previews."),
			boolean("deep", "Old, finished and weakly matching records count fully."),
		)...),
		OutputSchema: output,
	}, nil
}

func (s *server) recall(ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
	request := coordinator.RecallRequest{
		Agent:       s.agent(a),
		Query:       a.text("query", ""),
		Count:       a.count("limit", 1, coordinator.MaxCount),
		Project:     a.optionalText("project_id"),
		Channel:     a.optionalText("channel"),
		SourceID:    a.text("source_id", ""),
		Exclude:     a.texts("exclude_contents"),
		FullContent: a.flag("full_content"),
		Deep:        a.flag("deep"),
		Order:       recallOrder,
	}
	if !a.has("query") {
		a.refuse(&memory.FieldError{Field: "query", Problem: "is missing", Limit: "a string", Next: "give the question, or an empty string for the newest"})
	}
	if err := a.end(); err != nil {
		return nil, err
	}
	response, err := s.service.Recall(ctx, request)
	if err != nil {
		return nil, err
	}
	answer := recallAnswer{
		Messages:          make([]message, len(response.Rows)),
		Order:             response.Order,
		Profile:           response.Profile,
		Coverage:          response.Coverage,
		Degraded:          response.Degraded,
		Advisory:          response.Advisory,
		GateFallback:      response.GateFallback,
		FullContentBudget: response.FullContentBudget,
	}
	for i, row := range response.Rows {
		answer.Messages[i] = messageOf(row)
	}
	return result(answer, false), nil
}

func messageOf(row coordinator.Row) message {
	return message{
		Ref:              row.Ref,
		Content:          row.Content,
		ContentTruncated: row.ContentTruncated,
		ContentLen:       row.ContentLen,
		ID:               row.MessageID,
		Source:           row.Source,
		Timestamp:        row.Time,
		End:              row.End,
		ProjectID:        row.Project,
		Channel:          row.Channel,
		Resolved:         row.Resolved,
		SupersededBy:     row.SupersededBy,
		MatchReason:      row.MatchReason,
		Confidence:       row.Confidence,
	}
}
