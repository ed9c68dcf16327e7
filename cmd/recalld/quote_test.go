package main

import (
	"bytes"
	"testing"

	"recalld/coordinator"
)

// BR-055, BR-081: a person sees which rows are reserved, how they came, the place
// that answers, with its control characters as escapes, and what to read when the
// place is not complete.
func TestAnswerShowsWhatAPartMatched(t *testing.T) {
	score, bits := .5, 312
	var out bytes.Buffer
	writeAnswer(&out, &coordinator.RecallResponse{Coverage: coordinator.Coverage{Records: 2, Full: true}, Rows: []coordinator.Row{
		{Ref: "mem:1", Content: "short", MatchReason: &coordinator.MatchReason{Signal: "rsf", Score: &score}},
		{
			Ref: "mem:2", Content: "庭師は", ContentTruncated: true, ContentLen: 900, Admission: coordinator.AdmissionReservation,
			MatchReason: &coordinator.MatchReason{Signal: "block", Order: "vector", Distance: &bits},
			Quote:       &coordinator.Quote{Start: 620, End: 640, Text: "案Aを\n採用した。\x1b[2J", ReadRange: &coordinator.ReadRange{Start: 620, End: 700}},
		},
	}})
	const want = `1. mem:1
   short
   because: rsf 0.500
2. mem:2
   庭師は
   … 620-640: 案Aを 採用した。\u001b[2J
   … what limits it goes on: recalld get 'mem:2#chars=620-700'
   … 900 characters in all: recalld get mem:2
   because: block · reserved, vector order, 312 bits away
`
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// DECISIONS 14: a person sees that the former text of a record is not gone yet.
func TestUpdateShowsAPendingErasure(t *testing.T) {
	for pending, want := range map[bool]string{
		false: "updated mem:7\n",
		true:  "updated mem:7\nwhat it said before leaves the log once the open export, backup or recall has ended\n",
	} {
		var out bytes.Buffer
		if writeUpdated(&out, &coordinator.Row{Ref: "mem:7", ErasePending: pending}); out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	}
}
