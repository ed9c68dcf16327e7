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
// that is too long or a heading that no section can have.
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
	summary, names, _ := sectionsOf(text)
	if memory.Len(summary) > MaxContextSummary {
		return "", fmt.Errorf("%s has a summary of %d code points (limit: %d); move text below a \"## \" heading: %w", contextName, memory.Len(summary), MaxContextSummary, memory.ErrInvalid)
	}
	for _, name := range names {
		if err := memory.CheckName("heading", name); err != nil || name == "" {
			return "", fmt.Errorf("%s has the heading %s, which no section can be fetched by (limit: 1 to %d code points); rename it: %w", contextName, memory.Shape(name), memory.MaxName, memory.ErrInvalid)
		}
	}
	return text, nil
}

// sectionsOf cuts the text at its second-level headings. A repeated heading goes
// on with its section.
func sectionsOf(text string) (summary string, names, bodies []string) {
	parts := []*strings.Builder{new(strings.Builder)} // the summary, then the sections
	at := map[string]int{}                            // in parts, by name
	current := 0
	for line := range strings.Lines(text) {
		heading, ok := strings.CutPrefix(line, "## ")
		if !ok {
			parts[current].WriteString(line)
			continue
		}
		name := strings.TrimSpace(heading)
		if current, ok = at[name]; !ok {
			current = len(parts)
			at[name] = current
			names, parts = append(names, name), append(parts, new(strings.Builder))
		}
	}
	for _, part := range parts[1:] {
		bodies = append(bodies, strings.TrimSpace(part.String()))
	}
	return strings.TrimSpace(parts[0].String()), names, bodies
}
