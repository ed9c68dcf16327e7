package ingest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"recalld/memory"
)

// chatGPTFiles are the names under which an export has its conversations.
const chatGPTFiles = "conversations*.json"

// openChatGPT reads the file of an export that has the conversations, or the
// folder of the export.
func openChatGPT(path string) (*Reader, error) {
	wanted := func(at string) bool {
		ok, _ := filepath.Match(chatGPTFiles, filepath.Base(at))
		return ok
	}
	s, err := newFolder(path, wanted, openConversations)
	if err != nil {
		return nil, err
	}
	return &Reader{source: s}, nil
}

// conversation is one conversation of an export: a tree of messages.
type conversation struct {
	ID             string          `json:"id"`
	ConversationID string          `json:"conversation_id"`
	Title          string          `json:"title"`
	CurrentNode    string          `json:"current_node"`
	Mapping        map[string]node `json:"mapping"`
}

type node struct {
	Message  *chatMessage `json:"message"`
	Parent   string       `json:"parent"`
	Children []string     `json:"children"`
}

type chatMessage struct {
	ID     string `json:"id"`
	Author struct {
		Role string `json:"role"`
	} `json:"author"`
	CreateTime float64 `json:"create_time"`
	Recipient  string  `json:"recipient"`
	Content    struct {
		Type  string            `json:"content_type"`
		Parts []json.RawMessage `json:"parts"`
	} `json:"content"`
	Metadata struct {
		Hidden bool `json:"is_visually_hidden_from_conversation"`
	} `json:"metadata"`
}

// conversations is a source of one unit a conversation.
type conversations struct {
	file   *os.File
	name   string
	total  int64
	in     *json.Decoder
	number int
	broken bool
}

func openConversations(f file) (source, error) {
	opened, err := os.Open(f.path)
	if err != nil {
		return nil, fmt.Errorf("open import: %w", err)
	}
	return &conversations{file: opened, name: f.name, total: f.bytes, in: json.NewDecoder(opened)}, nil
}

func (c *conversations) size() int64  { return c.total }
func (c *conversations) Close() error { return c.file.Close() }

func (c *conversations) skipTo(offset int64) error {
	for c.in.InputOffset() < offset {
		if _, err := c.raw(); err != nil {
			return err
		}
	}
	return nil
}

// raw returns the next conversation as it stands, io.EOF behind the last.
func (c *conversations) raw() (json.RawMessage, error) {
	if c.broken {
		return nil, io.EOF
	}
	if c.number == 0 {
		if t, err := c.in.Token(); err != nil || t != json.Delim('[') {
			return nil, errors.New("is not a list of conversations")
		}
	}
	if !c.in.More() {
		if _, err := c.in.Token(); err != nil {
			return nil, errors.New("ends in the middle")
		}
		return nil, io.EOF
	}
	c.number++
	var raw json.RawMessage
	if err := c.in.Decode(&raw); err != nil {
		return nil, errors.New("is not valid JSON from here on")
	}
	return raw, nil
}

func (c *conversations) next() ([]entry, int64, error) {
	for {
		raw, err := c.raw()
		if err == io.EOF {
			return nil, c.total, io.EOF
		}
		where := fmt.Sprintf("%s, conversation %d", c.name, c.number)
		if err != nil {
			c.broken = true
			return []entry{{line: c.number, where: where, err: fmt.Errorf("%w; give the file conversations.json of the export as it is", err)}}, c.total, nil
		}
		items, err := decodeConversation(raw)
		switch {
		case err != nil:
			return []entry{{line: c.number, where: where, err: err}}, c.in.InputOffset(), nil
		case len(items) == 0:
			continue
		}
		entries := make([]entry, len(items))
		for i, item := range items {
			entries[i] = entry{item: item, line: c.number, where: where}
		}
		return entries, c.in.InputOffset(), nil
	}
}

// decodeConversation makes a record of each message that a person or the
// assistant wrote on the branch that the conversation shows. Messages that were
// replaced by another branch, hidden ones, and those to and from tools are passed
// over.
func decodeConversation(raw []byte) ([]Item, error) {
	var c conversation
	if err := decodeLoose(raw, &c); err != nil {
		return nil, err
	}
	id := c.ConversationID
	if id == "" {
		id = c.ID
	}
	if id == "" {
		return nil, &memory.FieldError{Field: "conversation_id", Problem: "is empty", Limit: "the conversation's id", Next: "give the file conversations.json of the export as it is"}
	}
	branch, err := c.branch()
	if err != nil {
		return nil, err
	}
	var items []Item
	for _, m := range branch {
		text := m.text()
		if text == "" {
			continue
		}
		item := Item{
			Type: TypeMemory, Content: text, MessageID: m.ID, Time: unixTime(m.CreateTime),
			Source: memory.Source{Type: FormatChatGPT, ID: id, Name: m.Author.Role},
		}
		if c.Title != "" {
			item.Metadata = withMetadata(nil, map[string]any{"title": c.Title})
		}
		items = append(items, split(item)...)
	}
	return items, nil
}

// branch is the messages from the root to the current node; where that is not
// named, to the last child of the last child.
func (c *conversation) branch() ([]*chatMessage, error) {
	at := c.CurrentNode
	if _, known := c.Mapping[at]; !known {
		at = c.lastLeaf()
	}
	var found []*chatMessage
	for steps := 0; at != ""; steps++ {
		n, known := c.Mapping[at]
		if steps > len(c.Mapping) {
			return nil, &memory.FieldError{Field: "mapping", Problem: "leads in a circle", Limit: "a tree", Next: "give the file conversations.json of the export as it is"}
		}
		if !known {
			break
		}
		if n.Message != nil {
			found = append(found, n.Message)
		}
		at = n.Parent
	}
	slices.Reverse(found)
	return found, nil
}

func (c *conversation) lastLeaf() string {
	var roots []string
	for id, n := range c.Mapping {
		if _, known := c.Mapping[n.Parent]; !known {
			roots = append(roots, id)
		}
	}
	if len(roots) == 0 {
		return ""
	}
	at := slices.Min(roots)
	for range c.Mapping {
		children := c.Mapping[at].Children
		if len(children) == 0 {
			break
		}
		at = children[len(children)-1]
	}
	return at
}

// text is what a person or the assistant wrote, "" for every other message.
func (m *chatMessage) text() string {
	talks := m.Author.Role == "user" || m.Author.Role == "assistant" && (m.Recipient == "" || m.Recipient == "all")
	if !talks || m.Metadata.Hidden || m.Content.Type != "text" && m.Content.Type != "multimodal_text" {
		return ""
	}
	var all []string
	for _, part := range m.Content.Parts {
		var text string
		if json.Unmarshal(part, &text) == nil && strings.TrimSpace(text) != "" {
			all = append(all, text)
		}
	}
	return strings.TrimSpace(strings.Join(all, "\n\n"))
}
