package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"recalld/memory"
)

// keep stores memories of an agent.
func (b *bench) keep(agent string, texts ...string) {
	b.t.Helper()
	items := make([]StoreItem, len(texts))
	for i, text := range texts {
		items[i] = say(text)
	}
	b.put(agent, items...)
}

// exported is everything of an agent, a line a record.
func exported(t *testing.T, b *bench, agent string) string {
	t.Helper()
	var lines []string
	if err := b.Export(t.Context(), ExportRequest{Agent: agent}, func(line json.RawMessage) error {
		lines = append(lines, string(line))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// mergeable has an agent mia with versions, projects, an episode, a locked record
// and a profile, and an agent ken who has two of her texts and a profile.
func mergeable(t *testing.T) *bench {
	t.Helper()
	b := open(t, nil)
	request := StoreRequest{Agent: "mia", Items: []StoreItem{
		{Content: "The staging database moved to db-7.", MessageID: "m1", Project: "atlas", Source: memory.Source{ID: "s1"}, Metadata: json.RawMessage(`{"n":1.50}`)},
		{Content: "The staging database moved to db-8.", MessageID: "m1", Project: "atlas", OnConflict: "version"},
		{Content: "会議は木曜の三時から。", Channel: "chat", Locked: true},
		{Content: "合同定在周五签。"},
		{Type: "episode", Summary: "数据库迁移完成。", Keywords: []string{"迁移"}, Start: "2026-03-01T00:00:00Z", Resolved: true},
		{Type: "profile", Content: "Prefers tea."},
		{Type: "profile", UserID: "ann", Content: "An engineer."},
	}}
	if _, err := b.Store(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	b.keep("ken", "合同定在周五签。", "Ken's own.")
	if _, err := b.PutProfile(t.Context(), ProfileRequest{Agent: "ken", Content: "Prefers coffee."}); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMergeCopies(t *testing.T) {
	b := mergeable(t)
	source := exported(t, b, "mia")
	dry, err := b.Merge(t.Context(), MergeRequest{Source: "mia", Target: "ken", DryRun: true})
	if err != nil || dry.Merged != (MergeCounts{4, 1, 1}) || strings.Contains(exported(t, b, "ken"), "db-7") {
		t.Fatalf("dry run: %+v %v", dry, err)
	}
	answer, err := b.Merge(t.Context(), MergeRequest{Source: "mia", Target: "ken"})
	if err != nil || answer.Merged != (MergeCounts{3, 1, 1}) || answer.Skipped != (MergeCounts{1, 0, 1}) || answer.Moved != 0 {
		t.Fatalf("merged: %+v %v", answer, err)
	}
	if exported(t, b, "mia") != source {
		t.Error("a copy changed its source")
	}
	target := exported(t, b, "ken")
	for _, text := range []string{"db-7", "db-8", "木曜", "Ken's own", "迁移完成", `{"n":1.50}`, "Prefers coffee", "An engineer"} {
		if strings.Count(target, text) != 1 {
			t.Errorf("%s is %d times in\n%s", text, strings.Count(target, text), target)
		}
	}
	again, err := b.Merge(t.Context(), MergeRequest{Source: "mia", Target: "ken"})
	if err != nil || again.Merged != (MergeCounts{}) || exported(t, b, "ken") != target {
		t.Errorf("a repeated merge: %+v %v", again, err)
	}
}

func TestMergeMoves(t *testing.T) {
	b := mergeable(t)
	answer, err := b.Merge(t.Context(), MergeRequest{Source: "mia", Target: "ken", Mode: "move"})
	if err != nil || answer.Moved != 4 || !slices.Equal(answer.Locked, []string{"mem:3"}) {
		t.Fatalf("moved: %+v %v", answer, err)
	}
	left := exported(t, b, "mia")
	if !strings.Contains(left, "木曜") || !strings.Contains(left, "Prefers tea") || strings.Count(left, "\n") != 1 {
		t.Errorf("left are what is locked and the profile that was not taken, not\n%s", left)
	}
}

// A move never deletes what the target did not take.
func TestMoveKeepsWhatWasNotTaken(t *testing.T) {
	b := open(t, nil)
	b.keep("mia", strings.Repeat("long ", 20), "short")
	if _, err := b.SetSetting(t.Context(), "content.max_chars", "50"); err != nil {
		t.Fatal(err)
	}
	answer, err := b.Merge(t.Context(), MergeRequest{Source: "mia", Target: "ken", Mode: "move"})
	if err != nil || answer.Moved != 1 || !slices.Equal(answer.Rejected, []string{"mem:1"}) {
		t.Fatalf("moved: %+v %v", answer, err)
	}
	if left := exported(t, b, "mia"); !strings.Contains(left, "long") {
		t.Errorf("what the target refused is gone: %s", left)
	}
}

// The target may know a message id with another text. A move leaves the source's
// where it is, for it is nowhere else.
func TestMoveKeepsWhatTheTargetHasOtherwise(t *testing.T) {
	b := open(t, nil)
	b.put("mia", StoreItem{Content: "会議は木曜。", MessageID: "m1"}, say("the same"))
	b.put("ken", StoreItem{Content: "会議は金曜。", MessageID: "m1"}, say("the same"))
	answer, err := b.Merge(t.Context(), MergeRequest{Source: "mia", Target: "ken", Mode: "move"})
	if err != nil || answer.Skipped.Memories != 2 || answer.Moved != 1 || !slices.Equal(answer.Rejected, []string{"mem:1"}) {
		t.Errorf("moved: %+v %v", answer, err)
	}
	if left := exported(t, b, "mia"); !strings.Contains(left, "木曜") || strings.Contains(left, "the same") {
		t.Errorf("left:\n%s", left)
	}
}

// What is changed at the source while a merge goes on is not deleted: the target
// has what was there before.
func TestMoveKeepsWhatChangesMeanwhile(t *testing.T) {
	b := open(t, nil)
	b.keep("mia", "before", "stays")
	m := &merge{c: b.Coordinator, request: MergeRequest{Source: "mia", Target: "ken"}, answer: &MergeResponse{}}
	if err := m.copyAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := "after"
	if _, err := b.Update(t.Context(), UpdateRequest{Agent: "mia", Ref: "mem:1", Content: &after}); err != nil {
		t.Fatal(err)
	}
	if err := m.deleteTaken(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := exported(t, b, "mia"); m.answer.Moved != 1 || !strings.Contains(left, "after") || strings.Contains(left, "stays") {
		t.Errorf("moved %d, left:\n%s", m.answer.Moved, left)
	}
}

func TestMergeRefuses(t *testing.T) {
	b := mergeable(t)
	for field, r := range map[string]MergeRequest{
		"source": {Target: "ken"}, "target": {Source: "mia"}, "mode": {Source: "mia", Target: "ken", Mode: "swap"},
	} {
		var refused *memory.FieldError
		if _, err := b.Merge(t.Context(), r); !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%+v: %v, want %s refused", r, err, field)
		}
	}
	if _, err := b.Merge(t.Context(), MergeRequest{Source: "mia", Target: "mia", Mode: "move"}); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("into itself: %v", err)
	}
}

// More than one batch, in order.
func TestMergeTakesAll(t *testing.T) {
	b := open(t, nil)
	var texts []string
	for i := range 2*mergeBatch + 7 {
		texts = append(texts, fmt.Sprintf("note %d 第%d条", i, i))
	}
	b.keep("mia", texts...)
	answer, err := b.Merge(t.Context(), MergeRequest{Source: "mia", Target: "ken", Mode: "move"})
	if err != nil || answer.Merged.Memories != int64(len(texts)) || answer.Moved != int64(len(texts)) || exported(t, b, "mia") != "" {
		t.Errorf("got %+v %v", answer, err)
	}
	if got := strings.Count(exported(t, b, "ken"), "\n") + 1; got != len(texts) {
		t.Errorf("%d records arrived, want %d", got, len(texts))
	}
}
