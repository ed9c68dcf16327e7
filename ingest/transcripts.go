package ingest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"recalld/memory"
)

// openTranscripts reads the transcripts that Claude Code keeps of a project, or
// one of them.
func openTranscripts(path string) (*Reader, error) {
	s, err := newFolder(path, isTranscript, openTranscript)
	if err != nil {
		return nil, err
	}
	return &Reader{source: s}, nil
}

// transcriptLine is a line of a transcript; of the many kinds, those with a
// message count.
type transcriptLine struct {
	Type        string `json:"type"`
	UUID        string `json:"uuid"`
	SessionID   string `json:"sessionId"`
	Timestamp   string `json:"timestamp"`
	CWD         string `json:"cwd"`
	IsSidechain bool   `json:"isSidechain"`
	IsMeta      bool   `json:"isMeta"`
	Message     struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"message"`
}

func openTranscript(f file) (source, error) {
	project, err := projectOf(f.path)
	if err != nil {
		return nil, err
	}
	l, err := openLines(f.path, func(line []byte) ([]Item, error) { return decodeTranscript(line, project) })
	if err != nil {
		return nil, err
	}
	l.where = f.name
	return l, nil
}

// projectOf is the name of the folder that a session began in, as its first
// lines say; "" when none does.
func projectOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("open import: %w", err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, MaxLine)
	for in.Scan() {
		var line transcriptLine
		if json.Unmarshal(in.Bytes(), &line) == nil && line.CWD != "" {
			return ProjectOfFolder(line.CWD), nil
		}
	}
	return "", nil // a line that is too long is refused when it is read
}

// ProjectOfFolder is the project that a working folder stands for: its own name.
// The root and what is no path stand for the global pool.
func ProjectOfFolder(folder string) string {
	name := filepath.Base(filepath.FromSlash(strings.ReplaceAll(folder, `\`, "/")))
	if name == "." || name == string(filepath.Separator) || strings.HasSuffix(name, ":") || memory.CheckName("project", name) != nil {
		return ""
	}
	return name
}

// decodeTranscript makes a record of what a person or the assistant said. Tool
// calls and their results, thinking, what the program itself put in, and the
// conversations of sub-agents are passed over.
func decodeTranscript(line []byte, project string) ([]Item, error) {
	var l transcriptLine
	if err := decodeLoose(line, &l); err != nil {
		return nil, err
	}
	if l.Type != "user" && l.Type != "assistant" || l.IsMeta || l.IsSidechain {
		return nil, nil
	}
	text, err := said(l.Message.Content)
	if err != nil {
		return nil, err
	}
	text = strings.TrimSpace(text)
	if text == "" || l.Type == "user" && ofTheProgram(text) {
		return nil, nil
	}
	if l.UUID == "" || l.SessionID == "" {
		return nil, &memory.FieldError{Field: "uuid", Problem: "or sessionId is empty", Limit: "the message's and the session's id", Next: "give the transcript as Claude Code wrote it"}
	}
	when, ok := readTime(l.Timestamp)
	if !ok {
		return nil, &memory.FieldError{Field: "timestamp", Problem: memory.Shape(l.Timestamp) + " is not a time", Next: "give the transcript as Claude Code wrote it"}
	}
	return split(Item{
		Type: TypeMemory, Project: project, Content: text, MessageID: l.UUID, Time: when,
		Source: memory.Source{Type: FormatClaudeCode, ID: l.SessionID, Name: l.Type},
	}), nil
}

// said is the text of a message: a string, or the blocks of type text.
func said(content json.RawMessage) (string, error) {
	var text string
	if len(content) == 0 || json.Unmarshal(content, &text) == nil {
		return text, nil
	}
	var blocks []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(content, &blocks); err != nil {
		return "", &memory.FieldError{Field: "message.content", Problem: "is neither a text nor a list of blocks", Next: "give the transcript as Claude Code wrote it"}
	}
	var all []string
	for _, b := range blocks {
		if b.Type == "text" && strings.TrimSpace(b.Text) != "" {
			all = append(all, b.Text)
		}
	}
	return strings.Join(all, "\n\n"), nil
}

// ofTheProgram reports whether a user's message is a command or its output, which
// the program writes in the user's name.
func ofTheProgram(text string) bool {
	for _, tag := range []string{"<command-", "<local-command-", "<bash-", "<system-reminder>", "[Request interrupted"} {
		if strings.HasPrefix(text, tag) {
			return true
		}
	}
	return false
}
