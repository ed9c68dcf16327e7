package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recalld/coordinator"
	"recalld/embed"
	"recalld/front/guard"
	"recalld/sqlite"
)

// whole is a coordinator over a new file in a folder of its own.
func whole(t testing.TB) *coordinator.Coordinator {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "recall.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	model, err := embed.Open(embed.Config{Backend: "hash"})
	if err != nil {
		t.Fatal(err)
	}
	service, err := coordinator.New(t.Context(), coordinator.Config{Store: store, Model: model})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(service.Close(), store.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return service
}

// spoken are the texts of one round through the tools, in one language.
type spoken struct{ fact, question, corrected, summary, keywords, said, profile string }

var languages = map[string]spoken{
	"en": {"The float switch on pump P2 was jammed.", "what was wrong with the float switch?", "The float switch on pump P3 was jammed.", "Pump P2 was repaired after two days.", "pump, float switch", "Where do we stand with the pump?", "An engineer who likes short answers."},
	"ja": {"ポンプP2のフロートスイッチが固着していた。", "フロートスイッチの問題は何でしたか", "ポンプP3のフロートスイッチが固着していた。", "ポンプP2は二日後に修理された。", "ポンプ、修理", "ポンプはどうなりましたか。", "短い答えを好む技術者。"},
	"zh": {"水泵P2的浮球开关卡住了。", "浮球开关出了什么问题", "水泵P3的浮球开关卡住了。", "两天后水泵P2修好了。", "水泵，维修", "水泵现在怎么样了？", "喜欢简短回答的工程师。"},
}

// RR-410, RR-436, RR-438, RR-444: every default tool does what its text says, in
// three languages, by a client of the SDK over a real file. Each agent sees its
// own alone.
func TestEveryUsualTool(t *testing.T) {
	session := client(t, whole(t), "")
	for _, language := range []string{"en", "ja", "zh"} {
		t.Run(language, func(t *testing.T) {
			w := languages[language]
			used := map[string]bool{}
			ask := func(tool string, arguments map[string]any) map[string]any {
				t.Helper()
				used[tool] = true
				arguments["agent_id"] = language
				answer, failed := call(t, session, tool, arguments)
				if failed || answer["ok"] == false {
					t.Fatalf("%s: %v", tool, answer)
				}
				return answer
			}
			refuse := func(tool, field string, arguments map[string]any) {
				t.Helper()
				arguments["agent_id"] = language
				if answer, failed := call(t, session, tool, arguments); !failed || answer["ok"] != false || answer["field"] != nil && answer["field"] != field {
					t.Errorf("%s: %v, want a refusal of %s", tool, answer, field)
				}
			}
			stored := ask("store", map[string]any{"content": w.fact, "id": "m1", "timestamp": "2026-11-01T10:00:00+09:00", "project_id": "plant", "source": map[string]any{"id": "s1"}})
			if again := ask("store", map[string]any{"content": w.fact, "project_id": "plant"}); again["result"] != "skipped" || again["id"] != stored["id"] {
				t.Errorf("stored twice: %v", again)
			}
			recalled := messages(t, ask("recall", map[string]any{"query": w.question}))
			if len(recalled) == 0 || recalled[len(recalled)-1]["content"] != w.fact || recalled[len(recalled)-1]["ref"] != stored["ref"] {
				t.Fatalf("recalled %v", recalled)
			}
			merged := messages(t, ask("recall_with_context", map[string]any{"query": w.question, "external_context": []any{
				map[string]any{"role": "user", "content": w.said, "timestamp": "2026-11-02T00:00:00Z", "name": "Ken"},
				map[string]any{"role": "assistant", "content": "…"},
				map[string]any{"role": "system", "content": "left out"},
			}}))
			if len(merged) != 3 || merged[0]["content"] != "…" || merged[1]["content"] != w.fact || merged[2]["content"] != w.said || merged[2]["context_type"] != "conversation" || merged[1]["context_type"] != nil {
				t.Errorf("merged %v", merged)
			}
			if rest := messages(t, ask("recall_with_context", map[string]any{"query": w.question, "external_context": []any{map[string]any{"role": "tool", "content": w.fact}}})); len(rest) != 0 {
				t.Errorf("what the caller holds is recalled: %v", rest)
			}
			ask("update_memory", map[string]any{"memory_id": stored["id"], "content": w.corrected})
			if got := ask("get_contents", map[string]any{"refs": []any{stored["ref"]}}); got["items"].([]any)[0].(map[string]any)["content"] != w.corrected {
				t.Errorf("contents %v", got)
			}
			archived := ask("archive_episode", map[string]any{"summary": w.summary, "keywords": w.keywords, "resolved": true, "history": []any{
				map[string]any{"timestamp": "2026-11-03T10:00:00+09:00", "content": "b"}, map[string]any{"timestamp": "2026-11-01T10:00:00+09:00"}, map[string]any{"role": "user"}}})
			episodes := ask("list_episodes", map[string]any{"limit": 5})["episodes"].([]any)
			episode := episodes[0].(map[string]any)
			if len(episodes) != 1 || episode["id"] != archived["episode_id"] || episode["summary"] != w.summary || episode["start_time"] != "2026-11-01T10:00:00+09:00" || episode["end_time"] != "2026-11-03T10:00:00+09:00" ||
				strings.Count(episode["keywords"].(string), ",") != 1 || episode["resolved"] != true {
				t.Errorf("episodes %v", episodes)
			}
			if got := ask("get_profile", map[string]any{}); got["profile"] != "" {
				t.Errorf("a profile before there is one: %v", got)
			}
			ask("update_profile", map[string]any{"profile": w.profile})
			if got := ask("get_profile", map[string]any{}); got["profile"] != w.profile {
				t.Errorf("profile %v", got)
			}
			ask("lock_memory", map[string]any{"memory_id": stored["ref"]})
			refuse("update_memory", "", map[string]any{"memory_id": stored["id"], "content": "x"})
			refuse("delete_memory", "memory_id", map[string]any{"memory_id": stored["id"]})
			if got := ask("list_memories", map[string]any{})["memories"].([]any); len(got) != 1 || got[0].(map[string]any)["locked"] != true || got[0].(map[string]any)["agent_id"] != language {
				t.Errorf("memories %v", got)
			}
			ask("unlock_memory", map[string]any{"memory_id": stored["id"]})
			if got := ask("delete_memory", map[string]any{"memory_id": stored["id"]}); got["deleted_id"] != stored["id"] {
				t.Errorf("deleted %v", got)
			}
			refuse("delete_memory", "memory_id", map[string]any{"memory_id": stored["id"]})
			refuse("lock_memory", "memory_id", map[string]any{"memory_id": 99999})
			refuse("update_memory", "", map[string]any{"memory_id": 99999, "content": "x"})
			for _, tool := range usual() {
				if !used[tool.name] {
					t.Errorf("%s was not called", tool.name)
				}
			}
		})
	}
}

// A page continues where the last one ended, and long texts are previews.
func TestListPages(t *testing.T) {
	session := client(t, whole(t), "ann")
	long := strings.Repeat("長い記録。", 200)
	for i := range 7 {
		if answer, failed := call(t, session, "store", map[string]any{"content": fmt.Sprintf("%d %s", i, long)}); failed {
			t.Fatal(answer)
		}
	}
	var seen []string
	arguments := map[string]any{"limit": 3}
	for range 4 {
		answer, failed := call(t, session, "list_memories", arguments)
		if failed {
			t.Fatal(answer)
		}
		for _, m := range answer["memories"].([]any) {
			row := m.(map[string]any)
			if len([]rune(row["content"].(string))) != listPreview || row["content_truncated"] != true || row["content_len"] != float64(1002) {
				t.Errorf("%v", row)
			}
			seen = append(seen, row["content"].(string)[:1])
		}
		if answer["next_cursor"] == nil {
			break
		}
		arguments["cursor"] = answer["next_cursor"]
	}
	if got := strings.Join(seen, ""); got != "6543210" {
		t.Errorf("pages in the order %s", got)
	}
}

// Every further tool does what its text says, over a real file.
func TestEveryFurtherTool(t *testing.T) {
	service, dir := whole(t), t.TempDir()
	folders, err := guard.OpenFolders(t.TempDir(), []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folders.Close() })
	session := clientOf(t, service, Options{All: true, Files: folders})
	used := map[string]bool{}
	ask := func(tool string, arguments map[string]any) map[string]any {
		t.Helper()
		used[tool] = true
		answer, failed := call(t, session, tool, arguments)
		if failed || answer["ok"] == false {
			t.Fatalf("%s: %v", tool, answer)
		}
		return answer
	}
	ann := func(more ...any) map[string]any {
		arguments := map[string]any{"agent_id": "ann"}
		for i := 0; i < len(more); i += 2 {
			arguments[more[i].(string)] = more[i+1]
		}
		return arguments
	}
	for i := range 30 {
		ask("store", ann("content", fmt.Sprintf("note %d about pump %d ポンプ", i, i%3), "timestamp", "2026-11-01T10:00:00Z"))
	}
	ask("archive_episode", ann("summary", "水泵修好了。", "keywords", []any{"水泵"}))
	ask("update_profile", ann("profile", "An engineer."))

	if got := ask("export_memories", ann("output_path", "ann.jsonl")); got["memories"] != 30. || got["episodes"] != 1. || got["profiles"] != 1. {
		t.Errorf("export: %v", got)
	}
	if answer, failed := call(t, session, "export_memories", ann("output_path", "ann.jsonl")); !failed || answer["field"] != "output_path" {
		t.Errorf("a file is overwritten: %v", answer)
	}
	if answer, failed := call(t, session, "export_memories", ann("output_path", "../out.jsonl")); !failed || answer["field"] != "output_path" {
		t.Errorf("a file outside: %v", answer)
	}
	if got := ask("import_memories", map[string]any{"input_path": "ann.jsonl", "target_agent_id": "bob", "dry_run": true}); got["imported_memories"] != 30. {
		t.Errorf("dry import: %v", got)
	}
	if got := ask("import_memories", map[string]any{"input_path": "ann.jsonl", "target_agent_id": "bob"}); got["imported_memories"] != 30. || got["imported_episodes"] != 1. || got["profile_updated"] != true {
		t.Errorf("import: %v", got)
	}
	if got := ask("import_memories", map[string]any{"input_path": "ann.jsonl", "target_agent_id": "bob"}); got["imported_memories"] != 0. || got["skipped_memories"] != 30. || got["skipped_episodes"] != 1. {
		t.Errorf("import again: %v", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "bad.jsonl"), []byte("{\"content\":\"good 良い\"}\nno JSON\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ask("import_memories", map[string]any{"input_path": "bad.jsonl", "target_agent_id": "bob"}); got["rejected"] != 1. || !strings.Contains(fmt.Sprint(got["bad_lines"]), "line 2") {
		t.Errorf("import of a bad line: %v", got)
	}
	merge := map[string]any{"source_agent_id": "bob", "target_agent_id": "cat", "mode": "move"}
	if got := ask("merge_memories", merge); got["merged_memories"] != 31. || got["profile_copied"] != true || got["mode"] != "move" || got["moved"] != 32. {
		t.Errorf("merge: %v", got)
	}
	if got := ask("set_recall_precision", ann("precision", "strict")); got["precision"] != "strict" {
		t.Errorf("precision: %v", got)
	}
	if got := ask("calibrate_threshold", ann("method", "percentile", "percentile", 0.9)); got["precision"] != "strict" {
		t.Errorf("calibrate: %v", got)
	}
	if got := ask("get_recall_precision", ann()); got["precision"] != "strict" || got["overridden"] != true {
		t.Errorf("precision read: %v", got)
	}
	if got := ask("get_recall_precision", map[string]any{"agent_id": "nobody"}); got["precision"] != "balanced" || got["overridden"] != false {
		t.Errorf("precision of nobody: %v", got)
	}
	if answer, failed := call(t, session, "calibrate_threshold", map[string]any{"agent_id": "nobody"}); !failed || answer["ok"] != false {
		t.Errorf("calibrate nobody: %v", answer)
	}
	if got := ask("check_health", map[string]any{}); got["status"] == "unhealthy" || got["checks_run"].(float64) < 10 {
		t.Errorf("health: %v", got)
	}
	if got := ask("deep_check", ann("checks", []any{"anonymous_source"})); got["rows_scanned"] != 31. {
		t.Errorf("deep check: %v", got)
	}
	if got := ask("get_queue_status", map[string]any{}); got["enabled"] != true {
		t.Errorf("queue: %v", got)
	}
	if got := ask("get_operating_context", map[string]any{}); got["enabled"] != false {
		t.Errorf("context: %v", got)
	}
	if got := ask("pause_persistence", ann("ttl_seconds", 60)); got["paused"] != true || got["scope"] != "agent" {
		t.Errorf("pause: %v", got)
	}
	if answer, failed := call(t, session, "store", ann("content", "off the record")); !failed || answer["ok"] != false || !strings.Contains(fmt.Sprint(answer["error"]), "resume_persistence") {
		t.Errorf("a paused store: %v", answer)
	}
	if got := ask("persistence_status", ann()); got["paused"] != true || got["ttl_remaining_seconds"].(float64) < 1 {
		t.Errorf("status: %v", got)
	}
	if got := ask("resume_persistence", ann()); got["paused"] != false || got["was_active"] != true {
		t.Errorf("resume: %v", got)
	}
	episode := ask("archive_episode", ann("summary", "to be deleted"))["episode_id"]
	if got := ask("delete_episode", ann("episode_id", episode)); got["deleted_id"] != episode {
		t.Errorf("delete episode: %v", got)
	}
	if got := ask("delete_agent_data", ann()); got["deleted_memories"] != 30. || got["deleted_episodes"] != 1. || got["deleted_profiles"] != 1. {
		t.Errorf("delete all: %v", got)
	}
	for _, tool := range further() {
		if !used[tool.name] {
			t.Errorf("%s was not called", tool.name)
		}
	}
}

// The operator's summary is told to every client that connects, and is read anew
// for each.
func TestOperatorInstructsClients(t *testing.T) {
	service := &recorder{context: coordinator.OperatingContext{Enabled: true, Summary: "Projects: atlas."}}
	if got := client(t, service, "").InitializeResult().Instructions; !strings.HasPrefix(got, instructions) || !strings.HasSuffix(got, "\n\nProjects: atlas.") {
		t.Errorf("told %q", got)
	}
	service.context.Summary = ""
	if got := client(t, service, "").InitializeResult().Instructions; got != instructions {
		t.Errorf("told %q", got)
	}
}

// A call that nobody answered is made again where its repetition changes nothing.
func TestUnansweredCallsAreRepeated(t *testing.T) {
	gone := errors.New("gone")
	for tool, arguments := range map[string]string{
		"store": `{"content":"x"}`, "recall": `{"query":"x"}`, "get_contents": `{"refs":["mem:1"]}`, "delete_memory": `{"memory_id":1}`,
	} {
		service := &flaky{recorder: recorder{storeAnswer: coordinator.StoreResponse{Results: []coordinator.StoreResult{{Ref: "mem:1", Outcome: "stored"}}}}, err: gone}
		session := clientOf(t, service, Options{Agent: "ann", Again: func(err error) bool { return errors.Is(err, gone) }})
		answer, failed := call(t, session, tool, json.RawMessage(arguments))
		if destroyed := tool == "delete_memory"; failed != destroyed || service.calls != map[bool]int{false: 2, true: 1}[destroyed] {
			t.Errorf("%s: %d calls, %v", tool, service.calls, answer)
		}
	}
}

// flaky fails the first of its calls.
type flaky struct {
	recorder
	err error
}

func (f *flaky) first() error {
	f.calls++
	if f.calls == 1 {
		return f.err
	}
	return nil
}

func (f *flaky) Store(context.Context, coordinator.StoreRequest) (coordinator.StoreResponse, error) {
	return f.storeAnswer, f.first()
}

func (f *flaky) Recall(context.Context, coordinator.RecallRequest) (*coordinator.RecallResponse, error) {
	return &coordinator.RecallResponse{}, f.first()
}

func (f *flaky) GetContents(context.Context, coordinator.ContentsRequest) (*coordinator.ContentsResponse, error) {
	return &coordinator.ContentsResponse{}, f.first()
}

func (f *flaky) Delete(context.Context, coordinator.DeleteRequest) (*coordinator.DeleteResponse, error) {
	return &coordinator.DeleteResponse{Deleted: []string{"mem:1"}}, f.first()
}
