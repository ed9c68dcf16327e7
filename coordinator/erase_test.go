package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"recalld/memory"
)

// DECISIONS 14: while a snapshot holds deleted bytes in the log, the answer and
// the status say so, and no longer once it has closed.
func TestErasureThatASnapshotHoldsUp(t *testing.T) {
	b := open(t, nil)
	refs := b.put("mia", say("the zanzibarite was deleted"), say("the quixotrope stays"))
	b.put("ken", say("the umbrellium left with its agent"))
	view, err := b.store.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	gone, err := b.Delete(t.Context(), DeleteRequest{Agent: "mia", Refs: refs[:1]})
	if err != nil || len(gone.Deleted) != 1 || !gone.ErasePending {
		t.Errorf("beside a snapshot: %+v, %v", gone, err)
	}
	if len(below(t, filepath.Dir(b.path), "zanzibarite")) == 0 {
		t.Error("the answer says pending, and nothing is")
	}
	if all, err := b.Delete(t.Context(), DeleteRequest{Agent: "ken", All: true}); err != nil || all.Memories != 1 || !all.ErasePending {
		t.Errorf("everything of an agent, beside a snapshot: %+v, %v", all, err)
	}
	if none, err := b.Delete(t.Context(), DeleteRequest{Agent: "mia", Refs: refs[:1]}); err != nil || none.ErasePending {
		t.Errorf("nothing was deleted: %+v, %v", none, err)
	}
	if !b.status().ErasePending {
		t.Error("the status does not say so")
	}
	view.Close()
	b.erased("zanzibarite", "umbrellium")
	if gone, err := b.Delete(t.Context(), DeleteRequest{Agent: "mia", Refs: refs[1:]}); err != nil || gone.ErasePending {
		t.Errorf("beside no snapshot: %+v, %v", gone, err)
	}
}

// erased waits until no erasure is pending; then no file has the words.
func (b *bench) erased(words ...string) {
	b.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); b.status().ErasePending; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatal("the erasure is never made up for")
		}
	}
	for _, word := range words {
		if in := below(b.t, filepath.Dir(b.path), word); len(in) > 0 {
			b.t.Errorf("%s is still in %v", word, in)
		}
	}
}

// DECISIONS 14: an update whose former words a snapshot holds in the log says so as
// a deletion does, whatever the words were, and says nothing where none were replaced.
func TestUpdateThatASnapshotHoldsUp(t *testing.T) {
	b := open(t, nil)
	refs := b.put("mia", say("the zanzibarite was corrected"), say("the quixotrope moves"),
		StoreItem{Type: "episode", Summary: "the outage", Keywords: []string{"umbrellium"}})
	view, err := b.store.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	update := func(r UpdateRequest) bool {
		r.Agent = "mia"
		row, err := b.Update(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return row.ErasePending
	}
	if update(UpdateRequest{Ref: refs[1], Project: pointer("atlas")}) {
		t.Error("nothing was replaced, and its erasure is pending")
	}
	if !update(UpdateRequest{Ref: refs[0], Content: pointer("会議は水曜日に変わった。")}) || !b.status().ErasePending {
		t.Error("a text: neither the answer nor the status says that it is pending")
	}
	if len(below(t, filepath.Dir(b.path), "zanzibarite")) == 0 {
		t.Error("the answer says pending, and nothing is")
	}
	if update(UpdateRequest{Ref: refs[1], Project: pointer("")}) {
		t.Error("a pending erasure of others is told of as one's own")
	}
	if !update(UpdateRequest{Ref: refs[2], Keywords: []string{"停电"}}) ||
		!update(UpdateRequest{Ref: refs[1], Source: &memory.Source{ID: "another"}}) || !update(UpdateRequest{Ref: refs[1], Metadata: json.RawMessage(`{"a":1}`)}) {
		t.Error("keywords, a source or metadata: the answer does not say that they are pending")
	}
	view.Close()
	b.erased("zanzibarite", "umbrellium")
	if update(UpdateRequest{Ref: refs[0], Content: pointer("数据库备份在凌晨三点。")}) {
		t.Error("beside no snapshot it is pending")
	}
}

// DECISIONS 14: an erasure from derived files that failed says what is still there,
// what becomes of it and which command tells; it is made up for, and that command
// tells of it until then.
func TestErasureThatFailsSaysWhatToDo(t *testing.T) {
	b := open(t, nil)
	folder := filepath.Join(filepath.Dir(b.path), "derived", "lexical")
	refs := b.put("mia", say("the zanzibarite was deleted"), say("the quixotrope was corrected"), say("another one"))
	if err := b.words.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(folder, "MANIFEST")
	if err := errors.Join(os.Remove(name), os.MkdirAll(filepath.Join(name, "in the way"), 0o700)); err != nil {
		t.Fatal(err)
	}
	_, deleted := b.Delete(t.Context(), DeleteRequest{Agent: "mia", Refs: refs[:1]})
	_, updated := b.Update(t.Context(), UpdateRequest{Agent: "mia", Ref: refs[1], Content: pointer("会議は水曜日に変わった。")})
	for what, err := range map[string]error{"delete: the records are gone, and their words or vectors are still in derived files: ": deleted, "update: the record is changed, and words or vectors of what it said before are still in derived files: ": updated} {
		if err == nil || !strings.HasPrefix(err.Error(), what) || !strings.Contains(err.Error(), "tried again by themselves, and `recalld doctor` says under lexical-index") {
			t.Errorf("the error is %v", err)
		}
	}
	if len(below(t, folder, "zanzibarit")) == 0 {
		t.Error("the error says that words are still there, and none is")
	}
	until := func(what string, so func() bool) {
		for deadline := time.Now().Add(20 * time.Second); !so(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("not so:", what)
			}
		}
	}
	until("the doctor says it", func() bool { return !b.check("lexical-index", false).OK })
	if err := os.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
	until("it is made up for", func() bool { return len(below(t, folder, "zanzibarit"))+len(below(t, folder, "quixotrop")) == 0 })
	until("the doctor is content", func() bool { return b.check("lexical-index", false).OK })
}

// DECISIONS 14: a caller who leaves once the deletion is durable does not keep
// the words in derived files.
func TestErasureOutlastsTheCaller(t *testing.T) {
	b := open(t, nil)
	ref := memory.Ref{Kind: memory.KindMemory, ID: 1}
	derived := filepath.Join(filepath.Dir(b.path), "derived")
	b.put("mia", say("the zanzibarite was deleted"), say("another one"))
	if err := b.words.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(below(t, derived, "zibarit")) == 0 {
		t.Fatal("the word is in no file to begin with")
	}
	if _, err := b.store.Delete(t.Context(), "mia", []memory.Ref{ref}); err != nil {
		t.Fatal(err)
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if err := b.erase(left, true); err != nil {
		t.Error(err)
	}
	if in := below(t, derived, "zibarit"); len(in) > 0 {
		t.Errorf("the word is still in %v", in)
	}
}

// DECISIONS 11: an episode's end can be corrected, alone, with its start, or
// removed, and never comes before its start.
func TestEndOfAnEpisodeIsUpdated(t *testing.T) {
	b := open(t, nil)
	refs := b.put("mia",
		StoreItem{Type: "episode", Summary: "the outage", Start: "2026-03-03T09:00:00+09:00", End: "2026-03-03T10:00:00+09:00"},
		say("not an episode"))
	for _, step := range []struct {
		time, end *string
		field     string
		wantStart string
		wantEnd   string
	}{
		{nil, pointer("2026-03-03T12:00:00+09:00"), "", "2026-03-03T09:00:00+09:00", "2026-03-03T12:00:00+09:00"},
		{nil, pointer("2026-03-02T12:00:00+09:00"), "end", "2026-03-03T09:00:00+09:00", "2026-03-03T12:00:00+09:00"},
		{pointer("2026-03-05T09:00:00+09:00"), nil, "time", "2026-03-03T09:00:00+09:00", "2026-03-03T12:00:00+09:00"},
		{nil, pointer("noon"), "end", "2026-03-03T09:00:00+09:00", "2026-03-03T12:00:00+09:00"},
		{pointer("2026-03-05T09:00:00+09:00"), pointer("2026-03-06T09:00:00+09:00"), "", "2026-03-05T09:00:00+09:00", "2026-03-06T09:00:00+09:00"},
		{nil, pointer(""), "", "2026-03-05T09:00:00+09:00", ""},
	} {
		_, err := b.Update(t.Context(), UpdateRequest{Agent: "mia", Ref: refs[0], Time: step.time, End: step.end})
		var refused *memory.FieldError
		if step.field == "" && err != nil || step.field != "" && (!errors.As(err, &refused) || refused.Field != step.field) {
			t.Errorf("%s: %v, want a refusal of %q", encode(t, []*string{step.time, step.end}), err, step.field)
		}
		row := revised(b.record(refs[0]))
		if row.Time != step.wantStart || row.End != step.wantEnd {
			t.Errorf("%s to %s, want %s to %s", row.Time, row.End, step.wantStart, step.wantEnd)
		}
	}
	_, err := b.Update(t.Context(), UpdateRequest{Agent: "mia", Ref: refs[1], End: pointer("2026-03-03T12:00:00+09:00")})
	if refused := new(memory.FieldError); !errors.As(err, &refused) || refused.Field != "end" {
		t.Errorf("the end of a memory: %v", err)
	}
}
