package mcp

import (
	"os"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// docs/spec/tools.md has a section for every tool, and in it every argument and
// every key of the answer.
func TestContractsAreWritten(t *testing.T) {
	raw, err := os.ReadFile("../../docs/spec/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, part := range strings.Split(string(raw), "\n### `")[1:] {
		name, body, _ := strings.Cut(part, "`")
		body, _, _ = strings.Cut(body, "\n## ")
		sections[name] = body
	}
	for _, tool := range append(usual(), further()...) {
		described, err := tool.describe("")
		if err != nil {
			t.Fatal(err)
		}
		section, ok := sections[tool.name]
		if !ok {
			t.Errorf("%s has no section", tool.name)
			continue
		}
		delete(sections, tool.name)
		for _, schema := range []any{described.InputSchema, described.OutputSchema} {
			for name := range schema.(*jsonschema.Schema).Properties {
				if name != "agent_id" && !strings.Contains(section, "`"+name+"`") {
					t.Errorf("%s: nothing is said of %s", tool.name, name)
				}
			}
		}
	}
	for name := range sections {
		t.Errorf("%s is no tool", name)
	}
}
