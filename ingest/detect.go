package ingest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"recalld/memory"
	"recalld/sqlite/cpersona"
)

// detectBytes is how much of a file is looked at.
const detectBytes = 1 << 20

// Detect tells the format of a file or folder by what is in it. The error is a
// *[memory.FieldError] when it does not tell.
func Detect(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("open import: %w", err)
	case info.IsDir():
		return detectFolder(path)
	case cpersona.Is(path):
		return FormatCPersonaDB, nil
	case isMarkdown(path):
		return FormatMarkdown, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, detectBytes)
	head, err := in.Peek(detectBytes)
	if len(head) == 0 && err != nil {
		return FormatJSONL, nil
	}
	return detectText(head)
}

// detectText tells the format from the beginning of a file of text.
func detectText(head []byte) (string, error) {
	head = bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")))
	if bytes.HasPrefix(head, []byte("[")) && bytes.Contains(head, []byte(`"mapping"`)) {
		return FormatChatGPT, nil
	}
	for line := range bytes.Lines(head) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var is map[string]json.RawMessage
		if json.Unmarshal(line, &is) != nil {
			if bytes.HasPrefix(line, []byte("{")) {
				return FormatJSONL, nil // which says what is wrong with the line
			}
			break
		}
		has := func(keys ...string) bool {
			for _, key := range keys {
				if is[key] == nil {
					return false
				}
			}
			return true
		}
		switch {
		case has("_type"):
			return FormatCPersonaJSONL, nil
		case has("conversation", "dia_id"):
			return FormatLocomo, nil
		case has("entityType"), has("relationType"):
			return FormatMCPMemory, nil
		case has("sessionId"), has("leafUuid"):
			return FormatClaudeCode, nil
		}
		return FormatJSONL, nil
	}
	return "", unclear()
}

func detectFolder(path string) (string, error) {
	if _, err := os.Stat(filepath.Join(path, "turns.jsonl")); err == nil {
		return FormatLocomo, nil
	}
	if found, _ := filepath.Glob(filepath.Join(path, chatGPTFiles)); len(found) > 0 {
		return FormatChatGPT, nil
	}
	markdown, transcripts := false, false
	err := filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && at != path && hidden(d.Name()):
			return fs.SkipDir
		case d.Type().IsRegular() && isMarkdown(at):
			markdown = true
		case d.Type().IsRegular() && isTranscript(at):
			transcripts = true
		}
		return nil
	})
	switch {
	case err != nil:
		return "", err
	case transcripts && !markdown:
		return FormatClaudeCode, nil
	case markdown && !transcripts:
		return FormatMarkdown, nil
	}
	return "", unclear()
}

func unclear() error {
	return &memory.FieldError{Field: "--format", Problem: "does not show from what is in PATH", Limit: strings.Join(Formats(), ", "), Next: "name the format"}
}

// hidden reports whether a folder is one that programs keep for themselves.
func hidden(name string) bool { return strings.HasPrefix(name, ".") }

func isMarkdown(path string) bool {
	extension := strings.ToLower(filepath.Ext(path))
	return extension == ".md" || extension == ".markdown"
}

func isTranscript(path string) bool { return strings.ToLower(filepath.Ext(path)) == ".jsonl" }
