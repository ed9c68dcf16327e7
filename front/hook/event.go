package hook

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"recalld/memory"
)

// MaxEvent is the longest event that is read, in bytes.
const MaxEvent = 16 << 20

// Event is a prompt on its way to an agent. Claude Code sends more than this with
// UserPromptSubmit; everything else is passed over.
type Event struct {
	Prompt  string `json:"prompt"`
	Folder  string `json:"cwd"`
	Session string `json:"session_id"`
}

// ReadEvent reads one event. Lone surrogates in it, which are no text, become
// U+FFFD.
func ReadEvent(in io.Reader) (Event, error) {
	var e Event
	raw, err := io.ReadAll(io.LimitReader(in, MaxEvent+1))
	switch {
	case err != nil:
		return e, fmt.Errorf("read the event: %w", err)
	case len(raw) > MaxEvent:
		return e, &memory.FieldError{Field: "event", Problem: "is longer than is read", Limit: fmt.Sprintf("%d bytes", MaxEvent), Next: "send the prompt alone"}
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, &memory.FieldError{Field: "event", Problem: "is not a JSON object", Limit: `an object such as {"prompt": "..."}`, Next: "send what the agent's program writes to its hooks"}
	}
	if strings.TrimSpace(e.Prompt) == "" {
		return e, &memory.FieldError{Field: "prompt", Problem: "is empty", Limit: "the text that the person wrote", Next: "send it as prompt"}
	}
	return e, nil
}

// Query is what is asked for a prompt: the prompt, or of one that is longer than a
// query may be its beginning and its end.
func (e Event) Query(limit int) string {
	text := strings.ReplaceAll(e.Prompt, "\x00", " ")
	if memory.Len(text) <= limit {
		return text
	}
	const gap = "\n"
	half := (limit - len(gap)) / 2
	head, _ := memory.Prefix(text, half)
	runes := []rune(text)
	return head + gap + string(runes[len(runes)-half:])
}

// Project is the project that a working folder belongs to: the name of the nearest
// folder at or above it that has a .git, else its own name; "" for the root and for
// no folder.
func Project(folder string) string {
	if folder == "" {
		return ""
	}
	at := filepath.Clean(folder)
	for {
		if _, err := os.Stat(filepath.Join(at, ".git")); err == nil {
			break
		}
		above := filepath.Dir(at)
		if above == at {
			at = filepath.Clean(folder)
			break
		}
		at = above
	}
	name := filepath.Base(at)
	if name == "." || name == string(filepath.Separator) || memory.CheckName("project", name) != nil {
		return ""
	}
	return name
}
