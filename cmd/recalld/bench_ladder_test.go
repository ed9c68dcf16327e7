package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recalld/bench"
)

// A ladder's file is what report and compare read; its fields have the names that
// are published.
func TestLadderReportCompare(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	call := func(code int, args ...string) string {
		t.Helper()
		var out, errOut bytes.Buffer
		if got := run(append([]string{"bench"}, args...), strings.NewReader(""), &out, &errOut); got != code {
			t.Fatalf("%v: exit code %d, %s", args, got, errOut.String())
		}
		return out.String()
	}
	file := filepath.Join(folder, "one.json")
	result := call(exitOK, "ladder", "--records", "40,60", "--questions", "2", "--scanner", "off", "--json")
	if err := os.WriteFile(file, []byte(result), 0o600); err != nil {
		t.Fatal(err)
	}
	var ladder struct {
		Kind  string
		Rungs []map[string]any
	}
	if err := json.Unmarshal([]byte(result), &ladder); err != nil || ladder.Kind != bench.KindLadder || len(ladder.Rungs) != 2 {
		t.Fatalf("%d rungs of kind %q, %v", len(ladder.Rungs), ladder.Kind, err)
	}
	for _, rung := range ladder.Rungs {
		for _, field := range strings.Fields("shape records blocks recall_ms arm_ms hit_at_1 hit_at_10 rss_mb file_mb build_s") {
			if rung[field] == nil {
				t.Errorf("no field %s", field)
			}
		}
		times := rung["recall_ms"].(map[string]any)
		if times["p50"] == nil || times["p95"] == nil || times["p99"] == nil {
			t.Errorf("recall_ms %v", times)
		}
	}
	page := filepath.Join(folder, "page.md")
	written := strings.Fields(call(exitOK, "report", file, "--out", page))
	if len(written) < 3 || written[0] != page {
		t.Errorf("written: %v", written)
	}
	var compared bench.CompareReport
	if err := json.Unmarshal([]byte(call(exitOK, "compare", file, file, "--resamples", "50", "--json")), &compared); err != nil || len(compared.Rows) != 12 {
		t.Fatalf("%d rows, %v", len(compared.Rows), err)
	}
	for _, row := range compared.Rows {
		if row.Ratio != nil && (*row.Ratio != 1 || row.Low != nil && (*row.Low != 1 || *row.High != 1)) {
			t.Errorf("a file differs from itself: %+v", row)
		}
	}
	call(exitInvalid, "compare", file)
	call(exitInvalid, "report")
	call(exitInvalid, "ladder", "--shape", "round", "--folder", folder)
	call(exitInvalid, "report", page)
	call(exitInvalid, "report", file, filepath.Join(folder, "two.json"))
	call(exitInvalid, "compare", file, filepath.Join(folder, "two.json"))
	call(exitInvalid, "rebuild", "--rounds", "0")
}
