package bench

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"recalld/coordinator/arm"
	"recalld/ingest"
	"recalld/memory"
)

// A whole run at a small scale. The sweep ranks by itself what the recall path
// ranks, so at the default cap and depth both must count the same; every target
// is shown or missed under one cause.
//
// BR-166, BR-173, BR-185
func TestReachBenchAtASmallScale(t *testing.T) {
	report, err := Reach(t.Context(), ReachOptions{Folder: t.TempDir(), Path: conversations(t), Records: 120, Limit: 12, Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if got := report.Names(); !slices.Equal(got, []string{"copy", "locomo", "paraphrase"}) {
		t.Fatalf("families %v", got)
	}
	for name, f := range report.Families {
		if want := map[string]int{"copy": 12, "paraphrase": 12, "locomo": 1}[name]; f.Targets != want {
			t.Errorf("%s: %d targets, want %d", name, f.Targets, want)
		}
		missed := 0
		for _, n := range f.Misses {
			missed += n
		}
		if f.After.Shown+missed != f.Targets || len(f.Misses) != 4 {
			t.Errorf("%s: %d shown, misses %v, of %d", name, f.After.Shown, f.Misses, f.Targets)
		}
		if got := f.Rerank["64"]["200"].Reached; got != f.After.Rows {
			t.Errorf("%s: the recalls reach %d, the sweep %d", name, f.After.Rows, got)
		}
		for limit, cells := range f.Rerank {
			if cells["all"].Pool != f.Targets && limit == "none" {
				t.Errorf("%s: %d of %d are in a ranking of all blocks", name, cells["all"].Pool, f.Targets)
			}
			for depth, c := range cells {
				if c.Reached < f.Before.Rows || c.Reached > max(c.Pool, f.Before.Rows+c.Pool) {
					t.Errorf("%s, cap %s, depth %s: %+v", name, limit, depth, c)
				}
			}
		}
		if f.Moved != 0 || f.After.Rows-f.Before.More != f.After.Gained-f.After.Lost {
			t.Errorf("%s: %d moved, %+v, %+v", name, f.Moved, f.Before, f.After)
		}
		sum := 0
		for _, l := range f.ByLanguage {
			sum += l.Targets
		}
		if sum != f.Targets {
			t.Errorf("%s: %d by language", name, sum)
		}
	}
	if s := report.Settings; s.ParentCap != 64 || s.Reserved != 3 || s.Blocks <= s.Sets || s.Sets < 12 || s.Distractors != 120 || s.Dims != 256 {
		t.Errorf("%+v", s)
	}
	if f := report.Families["copy"]; f.Rerank["none"]["all"].Reached != f.Targets || f.After.Reserved == 0 {
		t.Errorf("copies of what was said: %+v, %+v", f.After, f.Rerank)
	}
}

// conversations writes a question set of two conversations: one question asks
// about the end of a long one, one about its beginning, one about two turns.
func conversations(t *testing.T) string {
	folder := t.TempDir()
	var turns strings.Builder
	for range 2 {
		turns.WriteString(strings.ReplaceAll(`{"conversation":"a","session":1,"dia_id":"x","speaker":"Mia","time":"2023-05-08T13:56:00Z","text":"TEXT"}`+"\n",
			"TEXT", strings.Repeat("We talked about the boat and about the weather of the week. ", 40)))
	}
	turns.WriteString(`{"conversation":"a","session":2,"dia_id":"late","speaker":"Ben","time":"2023-05-09T13:56:00Z","text":"My uncle keeps bees on the roof."}` + "\n")
	turns.WriteString(`{"conversation":"b","session":1,"dia_id":"early","speaker":"Ann","time":"2023-05-09T13:56:00Z","text":"I paint doors."}` + "\n")
	questions := `{"conversation":"a","question":"Who keeps bees?","category":"single_hop","evidence":["late"]}
{"conversation":"b","question":"Who paints?","category":"single_hop","evidence":["early"]}
{"conversation":"a","question":"What of both?","category":"multi_hop","evidence":["x","late"]}
`
	for name, text := range map[string]string{"turns.jsonl": turns.String(), "questions.jsonl": questions} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// Sessions stay whole, a record never holds two conversations, and a turn's span
// is its text.
func TestSessionsAreJoinedIntoLongRecords(t *testing.T) {
	long := strings.Repeat("語", locomoChars)
	turns := []ingest.Turn{
		{Conversation: "a", Session: 1, DiaID: "1", Speaker: "Mia", Text: "hello"},
		{Conversation: "a", Session: 2, DiaID: "2", Speaker: "Ben", Text: long},
		{Conversation: "a", Session: 2, DiaID: "3", Speaker: "Mia", Text: "still here"},
		{Conversation: "a", Session: 3, DiaID: "4", Speaker: "Ben", Text: "next day"},
		{Conversation: "b", Session: 3, DiaID: "1", Speaker: "Ann", Text: "elsewhere"},
	}
	texts, places := joinSessions(turns)
	want := []string{"Mia: hello\nBen: " + long + "\nMia: still here\n", "Ben: next day\n", "Ann: elsewhere\n"}
	for i, text := range texts {
		if i >= len(want) || text.content != want[i] {
			t.Errorf("record %d: %q", i, text.content)
		}
	}
	for i, record := range []int{0, 0, 0, 1, 2} {
		at := places[[2]string{turns[i].Conversation, turns[i].DiaID}]
		if got, ok := at.span.Slice(want[record]); at.record != record || !ok || got != turns[i].Text {
			t.Errorf("turn %d: record %d, %q", i, at.record, got)
		}
	}
}

// BR-166, BR-189: the cause of a miss is the first that holds.
func TestMissesHaveOneCause(t *testing.T) {
	for _, c := range []struct {
		scanned, pooled, reached, shown bool
		want                            string
	}{
		{true, true, true, true, ""},
		{false, false, true, true, ""},
		{false, true, true, false, missNotScanned},
		{false, false, false, false, missNotScanned},
		{true, true, true, false, missQuotationCut},
		{true, false, true, false, missQuotationCut},
		{true, false, false, false, missBelowDepth},
		{true, true, false, false, missLostReserving},
	} {
		q := sweptQuestion{scanned: c.scanned, pooled: c.pooled}
		if got := q.cause(c.reached, c.shown); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// Reserved rows do not repeat rows, and come in the order of the ranking.
func TestReservedPlacesGoToOtherRecords(t *testing.T) {
	ref := func(id int64) memory.Ref { return memory.Ref{Kind: memory.KindMemory, ID: id} }
	rows := []reachRow{{ref: ref(1).String()}, {ref: ref(2).String()}}
	block := func(id int64, index, distance int) scoredBlock {
		return scoredBlock{arm.BlockHit{Ref: ref(id), Index: index, Distance: distance}, float64(-distance)}
	}
	blocks := []scoredBlock{block(3, 1, 9), block(5, 0, 6), block(2, 0, 2), block(4, 0, 5), block(3, 0, 3)}
	ranking := fold(blocks, byVector)
	if want := []memory.Ref{ref(2), ref(3), ref(4), ref(5)}; !slices.Equal(ranking, want) || !slices.Equal(fold(blocks, byCode), want) {
		t.Errorf("ranking %v, want %v", ranking, want)
	}
	for id, want := range map[int64]ReachCount{1: {Reached: 1}, 2: {Reached: 1, Pool: 1}, 3: {Reached: 1, Pool: 1}, 4: {Reached: 1, Pool: 1}, 5: {Pool: 1}, 6: {}} {
		if got := reachCount(ranking, ref(id), rows, 2); got != want {
			t.Errorf("%d: %+v, want %+v", id, got, want)
		}
	}
	if got := reachCount(ranking, ref(3), rows, 0); got.Reached != 0 {
		t.Errorf("without reserved rows: %+v", got)
	}
}

func TestImpossibleReachIsRefused(t *testing.T) {
	for field, o := range map[string]ReachOptions{"records": {Records: 0}, "limit": {Records: 1, Limit: -1}} {
		_, err := Reach(t.Context(), o)
		var refused *memory.FieldError
		if !errors.As(err, &refused) || refused.Field != field || refused.Limit == "" || refused.Next == "" {
			t.Errorf("%s: %v", field, err)
		}
	}
}
