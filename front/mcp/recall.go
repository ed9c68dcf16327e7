package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recalld/coordinator"
	"recalld/memory"
)

const recallText = `Search what was remembered. Call it at the start of a task, and whenever the answer may depend on earlier conversations: people, decisions, preferences, dates, "as we said". Ask in full words, one question a call; names, identifiers and dates help. The LAST message is the best match. Long content comes as a preview (content_truncated): "quote" is the place in it that answers; fetch the ones that matter with get_contents. Messages with admission "reservation" come beyond the limit: a part of a long text matched. An empty query lists the newest. Nothing relevant is an answer too; "degraded" says what could not be searched.`

// recallOrder is the reference's: a model attends most to what stands last.
const recallOrder = coordinator.BestLast

// message is a record in the reference's keys (RR-436).
type message struct {
	Ref              string                   `json:"ref,omitempty"`
	Content          string                   `json:"content"`
	ContentTruncated bool                     `json:"content_truncated,omitempty"`
	ContentLen       int                      `json:"content_len,omitempty"` // of the whole, in characters
	Quote            *coordinator.Quote       `json:"quote,omitempty"`       // of a preview: the place that answers
	Admission        string                   `json:"admission,omitempty"`   // reservation: beyond limit
	ID               string                   `json:"id,omitempty"`          // the caller's own
	Source           memory.Source            `json:"source,omitzero"`
	Timestamp        string                   `json:"timestamp,omitempty"`
	End              string                   `json:"end,omitempty"` // episodes
	ProjectID        string                   `json:"project_id,omitempty"`
	Channel          string                   `json:"channel,omitempty"`
	Resolved         bool                     `json:"resolved,omitempty"`      // a finished episode
	SupersededBy     string                   `json:"superseded_by,omitempty"` // ref of the newer version
	MatchReason      *coordinator.MatchReason `json:"match_reason,omitempty"`
	Confidence       *coordinator.Confidence  `json:"confidence,omitempty"`
}

type recallAnswer struct {
	Messages          []message                 `json:"messages" jsonschema:"best last"`
	Order             string                    `json:"order"`
	Profile           []memory.Profile          `json:"profile,omitempty"`
	Coverage          coordinator.Coverage      `json:"coverage"`
	Degraded          []coordinator.Degradation `json:"degraded,omitempty"`
	Advisory          *coordinator.Advisory     `json:"advisory,omitempty"`
	GateFallback      bool                      `json:"gate_fallback,omitempty" jsonschema:"low confidence"`
	FullContentBudget int                       `json:"full_content_budget_chars,omitempty"`
}

func recallQuestions() []property {
	return []property{
		text("query", "The question, or words of the memory."),
		count("limit", "", 1, coordinator.MaxCount, coordinator.DefaultCount),
		text("project_id", `Absent: all projects. "": only the common pool. X: X and the pool.`),
		text("channel", "Absent: all channels. X: X and what has no channel."),
		text("source_id", "Only records whose source.id starts so."),
		boolean("full_content", "Whole texts, no previews."),
		boolean("deep", "Old, finished and weakly matching records count fully."),
	}
}

func recallTool() tool {
	return tool{
		name: "recall", text: recallText, effect: reads,
		required:   []string{"query"},
		properties: append(recallQuestions(), texts("exclude_contents", "Texts that you already have; left out.", coordinator.MaxExclude)),
		answer:     answers[recallAnswer],
		call:       (*server).recall,
	}
}

// question reads the arguments of both recalls.
func (s *server) question(a *arguments) coordinator.RecallRequest {
	request := coordinator.RecallRequest{
		Agent:       s.agent(a),
		Query:       a.text("query", ""),
		Count:       a.count("limit", 1, coordinator.MaxCount),
		Project:     a.optionalText("project_id"),
		Channel:     a.optionalText("channel"),
		SourceID:    a.text("source_id", ""),
		FullContent: a.flag("full_content"),
		Deep:        a.flag("deep"),
		Order:       recallOrder,
	}
	if !a.has("query") {
		a.missing("query", "a string", "give the question, or an empty string for the newest")
	}
	return request
}

func (s *server) recall(ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
	request := s.question(a)
	request.Exclude = a.texts("exclude_contents")
	if err := a.end(); err != nil {
		return nil, err
	}
	response, err := s.service.Recall(ctx, request)
	if err != nil {
		return nil, err
	}
	return result(recalled(response), false), nil
}

func recalled(response *coordinator.RecallResponse) recallAnswer {
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
	return answer
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
		Quote:            row.Quote,
		Admission:        row.Admission,
		MatchReason:      row.MatchReason,
		Confidence:       row.Confidence,
	}
}
