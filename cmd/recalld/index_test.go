package main

import (
	"strings"
	"testing"

	"recalld/coordinator"
)

// A person sees that a rebuild is under way, how far it is and since when, and
// nothing of the kind when there is none.
func TestIndexShowsARebuild(t *testing.T) {
	state := coordinator.IndexState{Codes: coordinator.CodeState{Scanner: coordinator.ScannerAuto, Generation: 7}}
	text := func() string {
		var out strings.Builder
		writeIndex(&out, &state)
		return out.String()
	}
	if got := text(); strings.Contains(got, "rebuild") {
		t.Errorf("without one:\n%s", got)
	}
	state.Codes.Rebuild = &coordinator.RebuildState{Rows: 1200, Total: 5000, Since: "2026-12-01T09:00:00Z"}
	if got, want := text(), "a rebuild is under way since 2026-12-01T09:00:00Z: 1200 of 5000 rows are read\n"; !strings.Contains(got, want) {
		t.Errorf("got\n%swhich lacks\n%s", got, want)
	}
}
