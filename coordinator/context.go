package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"recalld/memory"
)

const (
	// contextName is the operator's file beside the store.
	contextName = "operating-context.md"
	// maxContext bounds it, in bytes; every client may be sent all of it.
	maxContext = 256 << 10
	// MaxContextSummary bounds what every client is told when it connects, in code
	// points.
	MaxContextSummary = 3_000
)

// OperatingContext reads what the operator tells every client. The file is
// Markdown: what stands before the first "## " heading is the summary, which
// fronts hand to every client that connects; each such heading begins a section,
// fetched by name. It is read anew at every call, and there is no way to write
// it here: a client that was talked into changing it would change it for all.
func (c *Coordinator) OperatingContext(_ context.Context, section string) (*OperatingContext, error) {
	if err := memory.CheckName("section", section); err != nil {
		return nil, err
	}
	text, err := readContext(filepath.Join(filepath.Dir(c.store.Path()), contextName))
	switch {
	case errors.Is(err, fs.ErrNotExist) && section == "":
		return &OperatingContext{}, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, &memory.FieldError{Field: "section", Problem: "is of a context that the operator has not written", Next: "go on without it"}
	case err != nil:
		return nil, fmt.Errorf("operating context: %w", err)
	}
	summary, names, bodies := sectionsOf(text)
	answer := &OperatingContext{Enabled: true, Revision: memory.Revision(text)}
	if section == "" {
		answer.Summary, answer.Sections = summary, names
		return answer, nil
	}
	at := slices.Index(names, section)
	if at < 0 {
		return nil, &memory.FieldError{Field: "section", Problem: memory.Shape(section) + " is not a section", Limit: strings.Join(names, ", "), Next: "take one of these"}
	}
	answer.Section, answer.Body = section, bodies[at]
	return answer, nil
}

// readContext refuses a file that is too large, is no UTF-8, or has a summary
// that is too long.
func readContext(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxContext+1))
	switch {
	case err != nil:
		return "", err
	case len(raw) > maxContext:
		return "", fmt.Errorf("%s has more than %d bytes; shorten it: %w", contextName, maxContext, memory.ErrInvalid)
	case !utf8.Valid(raw) || strings.ContainsRune(string(raw), 0):
		return "", fmt.Errorf("%s is no UTF-8 text; write it anew: %w", contextName, memory.ErrInvalid)
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(raw), "\uFEFF"), "\r\n", "\n")
	if summary, _, _ := sectionsOf(text); memory.Len(summary) > MaxContextSummary {
		return "", fmt.Errorf("%s has a summary of %d code points (limit: %d); move text below a \"## \" heading: %w", contextName, memory.Len(summary), MaxContextSummary, memory.ErrInvalid)
	}
	return text, nil
}

// sectionsOf cuts the text at its second-level headings. A repeated heading goes
// on with its section.
func sectionsOf(text string) (summary string, names, bodies []string) {
	current := -1
	for line := range strings.Lines(text) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			name := strings.TrimSpace(heading)
			if current = slices.Index(names, name); current < 0 {
				names, bodies, current = append(names, name), append(bodies, ""), len(names)
			}
			continue
		}
		if current < 0 {
			summary += line
		} else {
			bodies[current] += line
		}
	}
	for i := range bodies {
		bodies[i] = strings.TrimSpace(bodies[i])
	}
	return strings.TrimSpace(summary), names, bodies
}
