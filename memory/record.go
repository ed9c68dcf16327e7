package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Source says where a record came from. ID is the session or the document:
// records of one cell that share it are neighbours. Name is the speaker or the
// author. All fields may be empty.
type Source struct {
	Type string `json:"type,omitempty"`
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
}

// Record is one stored memory or episode. For an episode Content is its
// summary, Time its start and End its end.
type Record struct {
	Ref       Ref
	Cell      Cell
	Content   string
	MessageID string // the caller's id, memories only; "" when it gave none
	Version   int    // 1, or the place in the chain of its message id
	// SupersededBy is the newer version of the same message id, zero for the
	// newest one.
	SupersededBy Ref
	Source       Source
	Metadata     json.RawMessage // a JSON object, or nil
	Time         Time            // when it happened; zero when undated
	End          Time            // episodes only
	Created      Time            // when it was stored
	Updated      Time            // when its text last changed; equals Created at first
	Keywords     []string        // episodes only
	Resolved     bool            // episodes only
	Locked       bool            // refuses update and delete
	RecallCount  int64
	LastRecalled Time
}

// When is the time that age is counted from: Time, or Created for an undated
// episode (RR-418). It is zero for an undated memory.
func (r Record) When() Time {
	if r.Time.IsZero() && r.Ref.Kind == KindEpisode {
		return r.Created
	}
	return r.Time
}

// Revision is the SHA-256 of a text in lower-case hexadecimal. A range that was
// measured on a text carries it, and is refused once the text has another
// (BR-086, BR-087).
func Revision(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Profile is one fact sheet about an agent's user, newest first in answers.
type Profile struct {
	ID      int64  `json:"id"`
	Agent   string `json:"agent"`
	UserID  string `json:"user_id"`
	Content string `json:"content"`
	Updated Time   `json:"updated"`
}
