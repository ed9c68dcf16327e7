package ingest

import (
	"crypto/sha256"
	"strconv"
	"strings"
)

// repeats knows which items an input has had, for a dry run: there the store
// cannot know those that it was only asked about.
type repeats map[[sha256.Size]byte]bool

// repeated reports whether an item has the message id, or says the same at the
// same place, as one before it, and remembers it.
func (r repeats) repeated(item *Item) bool {
	parts := []string{item.Agent, item.Project}
	switch {
	case item.MessageID == "":
		parts = append(parts, "text", item.Type, item.Channel, item.UserID, item.Start, item.End, item.Content, item.Summary)
	case item.OnConflict == "version":
		parts = append(parts, "version", strconv.Itoa(item.Version), item.MessageID, item.Time, item.Content)
	default:
		parts = append(parts, "id", item.MessageID)
	}
	key := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	if r[key] {
		return true
	}
	r[key] = true
	return false
}
