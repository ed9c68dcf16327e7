package mcp

import (
	"context"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recalld/coordinator"
	"recalld/memory"
)

const (
	listMemoriesText = `Page through memories, newest first, without a question; for an overview or to tidy up. To find something, recall. Long texts are previews.`
	listEpisodesText = `Page through archived episodes, newest first. Long summaries are previews.`
)

// listPreview is how much of a text a list shows, in code points.
const listPreview = 500

// listedMemory has the reference's keys.
type listedMemory struct {
	ID               int64         `json:"id"`
	Ref              string        `json:"ref"`
	AgentID          string        `json:"agent_id"`
	ProjectID        string        `json:"project_id"`
	Channel          string        `json:"channel"`
	Content          string        `json:"content"`
	ContentTruncated bool          `json:"content_truncated,omitempty"`
	ContentLen       int           `json:"content_len,omitempty"`
	Source           memory.Source `json:"source,omitzero"`
	Timestamp        string        `json:"timestamp,omitempty"`
	Locked           bool          `json:"locked"`
	SupersededBy     string        `json:"superseded_by,omitempty"`
}

// listedEpisode has the reference's keys.
type listedEpisode struct {
	ID               int64  `json:"id"`
	Ref              string `json:"ref"`
	AgentID          string `json:"agent_id"`
	ProjectID        string `json:"project_id"`
	Channel          string `json:"channel"`
	Summary          string `json:"summary"`
	SummaryTruncated bool   `json:"summary_truncated,omitempty"`
	SummaryLen       int    `json:"summary_len,omitempty"`
	Keywords         string `json:"keywords"`
	StartTime        string `json:"start_time,omitempty"`
	EndTime          string `json:"end_time,omitempty"`
	Resolved         bool   `json:"resolved,omitempty"`
	Locked           bool   `json:"locked,omitempty"`
}

type memoriesAnswer struct {
	Memories []listedMemory `json:"memories"`
	Count    int            `json:"count"`
	Cursor   string         `json:"next_cursor,omitempty"`
}

type episodesAnswer struct {
	Episodes []listedEpisode `json:"episodes"`
	Count    int             `json:"count"`
	Cursor   string          `json:"next_cursor,omitempty"`
}

func listTools() []tool {
	paging := []property{
		count("limit", "", 1, coordinator.MaxList, coordinator.DefaultList),
		text("cursor", "next_cursor of the page before."),
		text("project_id", "As in recall."),
		text("channel", "As in recall."),
	}
	return []tool{{
		name: "list_memories", text: listMemoriesText, effect: reads,
		properties: paging, answer: answers[memoriesAnswer], call: (*server).listMemories,
	}, {
		name: "list_episodes", text: listEpisodesText, effect: reads,
		properties: paging, answer: answers[episodesAnswer], call: (*server).listEpisodes,
	}}
}

func (s *server) page(ctx context.Context, a *arguments, kind string) (string, *coordinator.ListResponse, error) {
	request := coordinator.ListRequest{
		Agent:   s.agent(a),
		Type:    kind,
		Limit:   a.count("limit", 1, coordinator.MaxList),
		Cursor:  a.text("cursor", ""),
		Project: a.optionalText("project_id"),
		Channel: a.optionalText("channel"),
	}
	if err := a.end(); err != nil {
		return "", nil, err
	}
	page, err := s.service.List(ctx, request)
	return request.Agent, page, err
}

func (s *server) listMemories(ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
	agent, page, err := s.page(ctx, a, "memory")
	if err != nil {
		return nil, err
	}
	answer := memoriesAnswer{Memories: []listedMemory{}, Count: len(page.Rows), Cursor: page.Cursor}
	for _, r := range page.Rows {
		content, cut, length := preview(r.Content)
		answer.Memories = append(answer.Memories, listedMemory{
			idOf(r.Ref), r.Ref, agent, r.Project, r.Channel, content, cut, length, r.Source, r.Time, r.Locked, r.SupersededBy,
		})
	}
	return result(answer, false), nil
}

func (s *server) listEpisodes(ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
	agent, page, err := s.page(ctx, a, "episode")
	if err != nil {
		return nil, err
	}
	answer := episodesAnswer{Episodes: []listedEpisode{}, Count: len(page.Rows), Cursor: page.Cursor}
	for _, r := range page.Rows {
		summary, cut, length := preview(r.Content)
		answer.Episodes = append(answer.Episodes, listedEpisode{
			idOf(r.Ref), r.Ref, agent, r.Project, r.Channel, summary, cut, length, strings.Join(r.Keywords, ", "), r.Time, r.End, r.Resolved, r.Locked,
		})
	}
	return result(answer, false), nil
}

// preview is the beginning of a text; length is that of the whole when it was
// cut.
func preview(content string) (prefix string, cut bool, length int) {
	if prefix, cut = memory.Prefix(content, listPreview); cut {
		length = memory.Len(content)
	}
	return prefix, cut, length
}
