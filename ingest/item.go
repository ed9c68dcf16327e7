package ingest

import (
	"encoding/base64"
	"encoding/json"
	"strings"

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
	Version    int             `json:"version,omitempty"`     // its number in the chain of the message id, with on_conflict version
	Source     memory.Source   `json:"source,omitzero"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	Time       string          `json:"time,omitempty"`  // memory, RFC 3339 with zone
	Start      string          `json:"start,omitempty"` // episode
	End        string          `json:"end,omitempty"`   // episode
	Keywords   []string        `json:"keywords,omitempty"`
	Resolved   bool            `json:"resolved,omitempty"`
	Locked     bool            `json:"locked,omitempty"`
	UserID     string          `json:"user_id,omitempty"` // profile
	Kept       *Kept           `json:"kept,omitempty"`
}

// Kept is what an item keeps of its life in another store. Everything in it may
// be left out.
type Kept struct {
	ID       int64  `json:"id,omitempty"`       // its number, given again when no record here ever had it; memory, episode
	Created  string `json:"created,omitempty"`  // when it was first stored, RFC 3339 with zone; memory, episode
	Updated  string `json:"updated,omitempty"`  // when its text last changed
	Recalls  int64  `json:"recalls,omitempty"`  // how often it was recalled; memory, episode
	Recalled string `json:"recalled,omitempty"` // when for the last time
	// Superseded says that a newer version follows; an import finds that out by
	// itself.
	Superseded bool `json:"superseded,omitempty"`
	// Vector is the text's vector, the base64 of little-endian float32; Model is
	// what its writer called the model, "" when it did not say.
	Vector string `json:"vector,omitempty"`
	Model  string `json:"model,omitempty"`
}

// Types of item.
const (
	TypeMemory  = "memory"
	TypeEpisode = "episode"
	TypeProfile = "profile"
)

// size is about how many bytes an item takes on its way to the sink.
func (i *Item) size() int {
	n := len(i.Content) + len(i.Summary) + len(i.Metadata) + 256
	if i.Kept != nil {
		n += len(i.Kept.Vector)
	}
	return n
}

// dims is the dimension that the vector's length says.
func (k *Kept) dims() int {
	padding := strings.Count(k.Vector, "=")
	return (base64.StdEncoding.DecodedLen(len(k.Vector)) - padding) / 4
}
