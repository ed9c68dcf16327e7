package coordinator

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"recalld/memory"
)

func TestOperatingContext(t *testing.T) {
	b := open(t, nil)
	if got, err := b.OperatingContext(t.Context(), ""); err != nil || got.Enabled {
		t.Fatalf("without a file: %+v %v", got, err)
	}
	if _, err := b.OperatingContext(t.Context(), "recall"); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("a section without a file: %v", err)
	}
	file := filepath.Join(filepath.Dir(b.path), "operating-context.md")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("\uFEFFProjects: atlas.\r\nAsk first.\r\n\r\n## recall\r\nlimit 5\r\n### deep\nno\n## 約束\n三時\n## recall\nand more\n")
	got, err := b.OperatingContext(t.Context(), "")
	if err != nil || !got.Enabled || got.Summary != "Projects: atlas.\nAsk first." || !slices.Equal(got.Sections, []string{"recall", "約束"}) || got.Revision == "" {
		t.Fatalf("got %+v %v", got, err)
	}
	for section, want := range map[string]string{"recall": "limit 5\n### deep\nno\nand more", "約束": "三時"} {
		if got, err := b.OperatingContext(t.Context(), section); err != nil || got.Body != want {
			t.Errorf("%s: %+v %v", section, got, err)
		}
	}
	if _, err := b.OperatingContext(t.Context(), "nothing"); err == nil || !strings.Contains(err.Error(), "recall, 約束") {
		t.Errorf("an unknown section: %v", err)
	}
	for name, text := range map[string]string{"long summary": strings.Repeat("長", MaxContextSummary+1), "large": strings.Repeat("x\n", maxContext), "no text": "\xff", "NUL": "a\x00",
		"no heading": "a\n## \nb", "long heading": "## " + strings.Repeat("節", memory.MaxName+1)} {
		write(text)
		if _, err := b.OperatingContext(t.Context(), ""); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	write("changed")
	if got, err := b.OperatingContext(t.Context(), ""); err != nil || got.Summary != "changed" {
		t.Errorf("after an edit: %+v %v", got, err)
	}
}
