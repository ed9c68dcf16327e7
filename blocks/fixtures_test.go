package blocks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"recalld/memory"
)

// show prints blocks a line each.
func show(text string, all []Block) string {
	var out strings.Builder
	for _, b := range all {
		part, _ := b.Slice(text)
		marks := ""
		if b.Node {
			marks += "@"
		}
		if b.Forced {
			marks += "!"
		}
		fmt.Fprintf(&out, "%s%q\n", marks, part)
	}
	return out.String()
}

// mustSplit splits and checks.
func mustSplit(t testing.TB, text string, nodes ...memory.Span) []Block {
	t.Helper()
	all, err := Split(text, nodes)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(memory.Len(text), nodes, all); err != nil {
		t.Fatal(err)
	}
	return all
}

// BR-012, BR-013, BR-015
func TestSplitFixtures(t *testing.T) {
	datadriven.RunTest(t, "testdata/split", func(t *testing.T, d *datadriven.TestData) string {
		// The format cannot hold a carriage return.
		text := strings.ReplaceAll(d.Input, "␍", "\r")
		return show(text, mustSplit(t, text))
	})
}
