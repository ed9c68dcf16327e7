package ingest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"recalld/memory"
)

// Names of the formats.
const (
	FormatJSONL         = "jsonl"
	FormatLocomo        = "locomo"
	FormatCPersonaDB    = "cpersona-db"
	FormatCPersonaJSONL = "cpersona-jsonl"
	FormatMarkdown      = "markdown"
	FormatClaudeCode    = "claude-code"
	FormatChatGPT       = "chatgpt"
	FormatMCPMemory     = "mcp-memory"
)

// Formats are the names that [OpenFile] knows.
func Formats() []string {
	return []string{FormatJSONL, FormatLocomo, FormatCPersonaDB, FormatCPersonaJSONL, FormatMarkdown, FormatClaudeCode, FormatChatGPT, FormatMCPMemory}
}

// OpenFile opens an input of the named format. The path is a file or, where the
// format has such a thing, the folder that holds its files.
func OpenFile(ctx context.Context, format, path string) (*Reader, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open import: %w", err)
	}
	folder := info.IsDir()
	switch format {
	case FormatLocomo:
		if folder {
			path, folder = filepath.Join(path, "turns.jsonl"), false
		}
	case FormatMarkdown, FormatClaudeCode, FormatChatGPT:
		folder = false
	}
	if folder {
		return nil, &memory.FieldError{Field: "path", Problem: "is a folder", Next: "name the file"}
	}
	switch format {
	case FormatJSONL:
		return lineReader(path, one(decodeItem), true)
	case FormatLocomo:
		return lineReader(path, one(decodeTurn), false)
	case FormatMCPMemory:
		return lineReader(path, decodeGraphLine, false)
	case FormatCPersonaJSONL:
		return openCPersonaJSONL(path)
	case FormatCPersonaDB:
		return openCPersonaDB(ctx, path)
	case FormatMarkdown:
		return openMarkdown(path)
	case FormatClaudeCode:
		return openTranscripts(path)
	case FormatChatGPT:
		return openChatGPT(path)
	}
	return nil, &memory.FieldError{Field: "format", Problem: memory.Shape(format) + " is not known", Limit: strings.Join(Formats(), ", "), Next: "choose one of them"}
}

func lineReader(path string, decode func([]byte) ([]Item, error), agents bool) (*Reader, error) {
	l, err := openLines(path, decode)
	if err != nil {
		return nil, err
	}
	return &Reader{source: l, agents: agents}, nil
}
