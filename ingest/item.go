package ingest

import (
	"encoding/json"

	"recalld/memory"
)

// Item is one record, or a profile, as a caller or a file gives it. Its JSON
// form is a line of the jsonl format (docs/formats.md). Nothing in it has been
// checked yet.
type Item struct {
	Type       string          `json:"type,omitempty"`  // memory (default), episode, profile
	Agent      string          `json:"agent,omitempty"` // in files; equals the request's agent or is empty
	Project    string          `json:"project,omitempty"`
	Channel    string          `json:"channel,omitempty"`
	Content    string          `json:"content,omitempty"` // memory, profile
	Summary    string          `json:"summary,omitempty"` // episode
	MessageID  string          `json:"message_id,omitempty"`
	OnConflict string          `json:"on_conflict,omitempty"` // skip (default), version
	Source     memory.Source   `json:"source,omitzero"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	Time       string          `json:"time,omitempty"`  // memory, RFC 3339 with zone
	Start      string          `json:"start,omitempty"` // episode
	End        string          `json:"end,omitempty"`   // episode
	Keywords   []string        `json:"keywords,omitempty"`
	Resolved   bool            `json:"resolved,omitempty"`
	Locked     bool            `json:"locked,omitempty"`
	UserID     string          `json:"user_id,omitempty"` // profile
}

// Types of item.
const (
	TypeMemory  = "memory"
	TypeEpisode = "episode"
	TypeProfile = "profile"
)
