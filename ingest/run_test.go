package ingest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

func fixedTime() time.Time { return time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC) }

// Refusals of the reader and of the store stand in the input's order, and those
// for one reason in one entry.
func TestRefusalsAreInTheInputsOrder(t *testing.T) {
	input := strings.Join([]string{
		`{"agent":"a","content":""}`, // refused by the store, later than line 2 by the reader
		`{"agent":"a","contents":"x"}`,
		`{"agent":"b","content":""}`,
		`{"content":"whose?"}`,
		`{"content":"whose?"}`,
		`{"agent":"a","content":"fine"}`,
		`{"content":"whose?"}`,
		`{"agent":"b","content":""}`,
	}, "\n")
	var stored []string
	report, err := Run(context.Background(), NewReader(strings.NewReader(input)), sinkOf(&stored, 0), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, bad := range report.Bad {
		got = append(got, fmt.Sprintf("%d-%d×%d", bad.Line, bad.Last, bad.Count))
	}
	if want := "[1-0×0 2-0×0 3-0×0 4-7×3 8-0×0]"; fmt.Sprint(got) != want || report.Rejected != 7 || report.Stored != 1 || report.Read != 8 {
		t.Errorf("refused %v, want %s; %+v", got, want, report)
	}
}

// Agents that alternate line by line still travel in batches, each agent's items
// in the file's order.
func TestAgentsTravelTogether(t *testing.T) {
	var input strings.Builder
	for i := range 100 {
		fmt.Fprintf(&input, "{\"agent\":\"a%d\",\"content\":\"text %d\"}\n", i%4, i)
	}
	calls := 0
	var order []string
	sink := func(_ context.Context, agent string, items []Item) ([]Outcome, error) {
		calls++
		out := make([]Outcome, len(items))
		for i, item := range items {
			if item.Agent != agent {
				t.Errorf("%s got an item of %s", agent, item.Agent)
			}
			if agent == "a2" {
				order = append(order, item.Content)
			}
			out[i] = Outcome{Word: "stored"}
		}
		return out, nil
	}
	report, err := Run(context.Background(), NewReader(strings.NewReader(input.String())), sink, Options{Batch: 50})
	if err != nil || report.Stored != 100 || calls != 8 {
		t.Errorf("%d calls, %+v, %v", calls, report, err)
	}
	if order[0] != "text 2" || order[24] != "text 98" {
		t.Errorf("order %v", order)
	}
}

// Numbers and vectors that came along are counted by what became of them, and
// other numbers are told.
func TestKeptIsCounted(t *testing.T) {
	input := strings.Join([]string{
		`{"content":"one","kept":{"id":3,"vector":"AACAPwAAAAA=","model":"tiny"}}`,
		`{"content":"two","kept":{"id":4,"vector":"AACAPwAAAAA=","model":"tiny"}}`,
		`{"content":"three","kept":{"id":5,"vector":"AACAPwAAAAAAAAAA"}}`,
		`{"type":"episode","summary":"four","kept":{"id":6}}`,
		`{"content":"five"}`,
	}, "\n")
	sink := func(_ context.Context, _ string, items []Item) ([]Outcome, error) {
		return []Outcome{
			{Word: "stored", Ref: "mem:3", Embed: EmbedKept}, {Word: "skipped", Ref: "mem:1"}, {Word: "stored", Ref: "mem:9", Embed: "queued"},
			{Word: "stored", Ref: "ep:6"}, {Word: "stored", Ref: "mem:10", Embed: "done"},
		}, nil
	}
	var told []string
	report, err := Run(context.Background(), NewReader(strings.NewReader(input)), sink, Options{Agent: "a", DryRun: true, Dims: 2, Renumbered: func(from, to string) error {
		told = append(told, from+">"+to)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if *report.IDs != (IDs{Kept: 2, Renumbered: 2}) || fmt.Sprint(told) != "[mem:4>mem:1 mem:5>mem:9]" {
		t.Errorf("numbers %+v, told %v", *report.IDs, told)
	}
	if want := "[{tiny 2 1 1} { 3 1 0}]"; fmt.Sprint(report.Vectors) != want {
		t.Errorf("vectors %v, want %s", report.Vectors, want)
	}
	if e := report.Estimate; e.Texts != 3 || e.DiskBytes < 4*recordBytes {
		t.Errorf("estimate %+v", e)
	}
}

// A dry run knows what a run would skip because it came before in the same input.
func TestADryRunKnowsRepeats(t *testing.T) {
	input := strings.Join([]string{
		`{"content":"会議"}`, `{"content":"会議"}`, `{"content":"会議","project":"p"}`,
		`{"content":"x","message_id":"m"}`, `{"content":"y","message_id":"m"}`,
		`{"content":"y","message_id":"m","on_conflict":"version"}`, `{"content":"x","message_id":"m","on_conflict":"version"}`,
		`{"content":"y","message_id":"m","on_conflict":"version"}`,
	}, "\n")
	sink := func(_ context.Context, _ string, items []Item) ([]Outcome, error) {
		out := make([]Outcome, len(items))
		for i := range out {
			out[i].Word = "stored"
		}
		return out, nil
	}
	report, err := Run(context.Background(), NewReader(strings.NewReader(input)), sink, Options{Agent: "a", DryRun: true, Batch: 1})
	if err != nil || report.Stored != 5 || report.Skipped != 3 {
		t.Errorf("%+v, %v", report, err)
	}
}
