package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recalld/coordinator"
	"recalld/memory"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the tool snapshots")

// client speaks to a front over two pipes until the test ends.
func client(t *testing.T, service coordinator.Service, agent string) *sdk.ClientSession {
	t.Helper()
	return clientOf(t, service, Options{Agent: agent})
}

func clientOf(t *testing.T, service coordinator.Service, o Options) *sdk.ClientSession {
	t.Helper()
	fromClient, toFront, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromFront, toClient, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		o.Version, o.In, o.Out = "test", fromClient, toClient
		ended <- Serve(context.Background(), service, o)
		toClient.Close()
	}()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).
		Connect(t.Context(), &sdk.IOTransport{Reader: fromFront, Writer: toFront}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = session.Close()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return session
}

// call returns a tool's structured answer, which equals its text and fits its
// schema.
func call(t *testing.T, session *sdk.ClientSession, tool string, arguments any) (answer map[string]any, failed bool) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	structured, err := json.Marshal(result.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(structured, &answer); err != nil {
		t.Fatalf("%s: %s: %v", tool, structured, err)
	}
	var fromText any
	text, ok := result.Content[0].(*sdk.TextContent)
	if !ok || json.Unmarshal([]byte(text.Text), &fromText) != nil || fmt.Sprint(fromText) != fmt.Sprint(answer) {
		t.Errorf("%s: the text %v is not the structured content %s", tool, result.Content, structured)
	}
	fits(t, session, tool, answer)
	return answer, result.IsError
}

func fits(t *testing.T, session *sdk.ClientSession, tool string, answer any) {
	t.Helper()
	for _, listed := range tools(t, session) {
		if listed.Name != tool {
			continue
		}
		raw, err := json.Marshal(listed.OutputSchema)
		if err != nil {
			t.Fatal(err)
		}
		var schema jsonschema.Schema
		if err := json.Unmarshal(raw, &schema); err != nil {
			t.Fatal(err)
		}
		resolved, err := schema.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(answer); err != nil {
			t.Errorf("%s: the answer does not fit its schema: %v", tool, err)
		}
	}
}

func tools(t *testing.T, session *sdk.ClientSession) []*sdk.Tool {
	t.Helper()
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return list.Tools
}

// listBudget bounds what the default tools cost every client, in bytes of their
// list.
const listBudget = 13_500

// What a client sees of each tool is a snapshot: a change to it is a visible
// difference. The list stays small, since every client carries it.
func TestToolSnapshots(t *testing.T) {
	for _, all := range []bool{false, true} {
		session := clientOf(t, &recorder{}, Options{All: all})
		listed := tools(t, session)
		size := 0
		for _, tool := range listed {
			compact, err := json.Marshal(tool)
			if err != nil {
				t.Fatal(err)
			}
			size += len(compact)
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, compact, "", "  "); err != nil {
				t.Fatal(err)
			}
			pretty.WriteByte('\n')
			path := filepath.Join("testdata", tool.Name+".json")
			if *rewrite {
				if err := os.WriteFile(path, pretty.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(pretty.Bytes(), want) {
				t.Errorf("%s is not its snapshot (%v); run with -rewrite and look at the difference", tool.Name, err)
			}
		}
		if !all && size > listBudget {
			t.Errorf("the default tools have %d bytes, want at most %d", size, listBudget)
		}
		t.Logf("%d tools, %d bytes", len(listed), size)
	}
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) != len(usual())+len(further()) {
		t.Errorf("%d snapshots (%v) of %d tools", len(files), err, len(usual())+len(further()))
	}
}

// The lists of the issue, by name.
func TestWhichToolsThereAre(t *testing.T) {
	few := "archive_episode delete_memory get_contents get_profile list_episodes list_memories lock_memory recall recall_with_context store unlock_memory update_memory update_profile"
	more := "calibrate_threshold check_health deep_check delete_agent_data delete_episode export_memories get_operating_context get_queue_status get_recall_precision import_memories " +
		"merge_memories pause_persistence persistence_status resume_persistence set_recall_precision"
	for _, test := range []struct {
		all  bool
		want string
	}{{false, few}, {true, few + " " + more}} {
		var names []string
		for _, tool := range tools(t, clientOf(t, &recorder{}, Options{All: test.all})) {
			names = append(names, tool.Name)
		}
		want := strings.Fields(test.want)
		slices.Sort(want)
		slices.Sort(names)
		if !slices.Equal(names, want) {
			t.Errorf("all %v: %v", test.all, names)
		}
	}
}

// The agent is required unless the front was started for one, which is then the
// only one that it serves.
func TestAgentIsRequiredUnlessTheFrontHasOne(t *testing.T) {
	for _, agent := range []string{"", "ann"} {
		service := &recorder{recallAnswer: coordinator.RecallResponse{Order: "best_last"}}
		session := client(t, service, agent)
		for _, tool := range tools(t, session) {
			schema, _ := json.Marshal(tool.InputSchema)
			if got := strings.Contains(string(schema), `"required":["agent_id"`); got == (agent != "") {
				t.Errorf("agent %q: %s requires agent_id: %v", agent, tool.Name, got)
			}
		}
		answer, failed := call(t, session, "recall", map[string]any{"query": "x"})
		if failed != (agent == "") || failed && answer["field"] != "agent_id" {
			t.Errorf("agent %q: %v", agent, answer)
		}
		if agent != "" && service.recall.Agent != "ann" {
			t.Errorf("asked for %q", service.recall.Agent)
		}
		service.recall.Agent = ""
		if _, failed := call(t, session, "recall", map[string]any{"query": "x", "agent_id": "bob"}); failed != (agent != "") || (service.recall.Agent == "bob") == failed {
			t.Errorf("agent %q: a named agent became %q, refused: %v", agent, service.recall.Agent, failed)
		}
	}
}

// RR-410, RR-436, BR-055, BR-195: best last, in the reference's keys; what is empty
// is absent; a reserved message says how it came and what of it answers.
func TestRecallAnswersBestLast(t *testing.T) {
	cosine, sure, bits := 0.71, 0.9, 312
	service := &recorder{recallAnswer: coordinator.RecallResponse{
		Order: coordinator.BestLast,
		Rows: []coordinator.Row{
			{
				Ref: "mem:9", Content: "长", ContentTruncated: true, ContentLen: 900, Admission: coordinator.AdmissionReservation, MatchReason: &coordinator.MatchReason{Signal: "block", Order: "vector", Distance: &bits},
				Quote: &coordinator.Quote{Start: 620, End: 640, Text: "相同编号的通知在入口丢弃。", ReadRange: &coordinator.ReadRange{Start: 620, End: 700, Revision: "9f86"}},
			},
			{Ref: "ep:7", Content: "週次会議", Time: "2026-11-01T10:00:00+09:00", End: "2026-11-01T11:00:00+09:00", Resolved: true},
			{
				Ref: "mem:12", Content: "Anna chose", ContentTruncated: true, ContentLen: 700, Time: "2026-11-30T09:00:00+09:00", MessageID: "chat-7",
				Source: memory.Source{Type: "chat", ID: "s1", Name: "Anna"}, Metadata: json.RawMessage(`{"secret":1}`),
				MatchReason: &coordinator.MatchReason{Signal: "confidence", Score: &sure, Arms: []coordinator.ArmVote{{Arm: "vector", Rank: 1, Score: cosine}}},
				Confidence:  &coordinator.Confidence{Score: 0.9, AgeHours: 2, Cosine: &cosine},
			},
		},
		Coverage: coordinator.Coverage{Records: 2, Embedded: 2, Full: true},
		Degraded: []coordinator.Degradation{{Arm: "vector", Reason: "no_model"}},
		Advisory: &coordinator.Advisory{Severity: "hint", Reason: "no_model"},
		Profile:  []memory.Profile{{ID: 1, Agent: "ann", Content: "likes tea"}},
	}}
	session := client(t, service, "ann")
	answer, failed := call(t, session, "recall", map[string]any{"query": "who chose?"})
	if failed {
		t.Fatalf("got %v", answer)
	}
	if service.recall.Order != coordinator.BestLast || answer["order"] != "best_last" {
		t.Errorf("asked for %q, answered %v", service.recall.Order, answer["order"])
	}
	want := `[{"ref":"mem:9","content":"长","content_truncated":true,"content_len":900,"quote":{"start":620,"end":640,"text":"相同编号的通知在入口丢弃。","complete":false,"read_range":{"start":620,"end":700,"revision":"9f86"}},` +
		`"admission":"reservation","match_reason":{"signal":"block","order":"vector","distance":312}},` +
		`{"ref":"ep:7","content":"週次会議","timestamp":"2026-11-01T10:00:00+09:00","end":"2026-11-01T11:00:00+09:00","resolved":true},` +
		`{"ref":"mem:12","content":"Anna chose","content_truncated":true,"content_len":700,"id":"chat-7","source":{"type":"chat","id":"s1","name":"Anna"},"timestamp":"2026-11-30T09:00:00+09:00",` +
		`"match_reason":{"signal":"confidence","score":0.9,"arms":[{"arm":"vector","rank":1,"score":0.71}]},"confidence":{"score":0.9,"age_hours":2,"cosine":0.71}}]`
	if got := canonical(t, answer["messages"]); got != canonicalText(t, want) {
		t.Errorf("messages\n got %s\nwant %s", got, canonicalText(t, want))
	}
	for _, key := range []string{"coverage", "degraded", "advisory", "profile"} {
		if answer[key] == nil {
			t.Errorf("the answer has no %s", key)
		}
	}
	service.recallAnswer = coordinator.RecallResponse{Order: coordinator.BestLast}
	if answer, _ := call(t, session, "recall", map[string]any{"query": ""}); canonical(t, answer["messages"]) != "[]" {
		t.Errorf("no rows are %v, want []", answer["messages"])
	}
}

// RR-440, RR-441: an omitted project or channel stays omitted, an empty one
// stays empty; null is omitted.
func TestScopeArguments(t *testing.T) {
	empty, x := "", "x"
	tests := []struct {
		arguments        string
		project, channel *string
	}{
		{`{"query":"q"}`, nil, nil},
		{`{"query":"q","project_id":null,"channel":null}`, nil, nil},
		{`{"query":"q","project_id":"","channel":""}`, &empty, &empty},
		{`{"query":"q","project_id":"x","channel":"x"}`, &x, &x},
	}
	service := &recorder{}
	session := client(t, service, "ann")
	for _, test := range tests {
		if answer, failed := call(t, session, "recall", json.RawMessage(test.arguments)); failed {
			t.Fatalf("%s: %v", test.arguments, answer)
		}
		if !same(service.recall.Project, test.project) || !same(service.recall.Channel, test.channel) {
			t.Errorf("%s: asked %+v", test.arguments, service.recall)
		}
	}
}

func same(a, b *string) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

func TestEveryArgumentReachesTheService(t *testing.T) {
	service := &recorder{storeAnswer: coordinator.StoreResponse{Results: []coordinator.StoreResult{{Ref: "mem:1", Outcome: "stored", Embed: "queued"}}}}
	session := client(t, service, "")
	answer, failed := call(t, session, "store", json.RawMessage(`{"agent_id":"ann","project_id":"p","channel":"c","on_conflict":"version",
		"message":{"content":"会議は三時","id":"m1","timestamp":"2026-11-30T09:00:00+09:00","source":{"type":"chat","id":"s","name":"安奈"},"metadata":{"b":1.50,"a":[null]}}}`))
	if failed || answer["ok"] != true || answer["result"] != "stored" || answer["ref"] != "mem:1" || answer["embed"] != "queued" {
		t.Errorf("got %v", answer)
	}
	item := coordinator.StoreItem{
		Project: "p", Channel: "c", OnConflict: "version", Content: "会議は三時", MessageID: "m1", Time: "2026-11-30T09:00:00+09:00",
		Source: memory.Source{Type: "chat", ID: "s", Name: "安奈"}, Metadata: json.RawMessage(`{"b":1.50,"a":[null]}`),
	}
	if got, want := fmt.Sprintf("%+v", service.store), fmt.Sprintf("%+v", coordinator.StoreRequest{Agent: "ann", Items: []coordinator.StoreItem{item}}); got != want {
		t.Errorf("asked %s\n want %s", got, want)
	}
	call(t, session, "recall", json.RawMessage(`{"agent_id":"ann","query":"q","limit":7,"deep":true,"source_id":"s","exclude_contents":["a","b"],"full_content":true}`))
	if r := service.recall; r.Count != 7 || !r.Deep || r.SourceID != "s" || len(r.Exclude) != 2 || !r.FullContent {
		t.Errorf("asked %+v", r)
	}
	call(t, session, "get_contents", json.RawMessage(`{"agent_id":"ann","refs":["mem:1","ep:2#chars=1-2"]}`))
	if r := service.contents; r.Agent != "ann" || len(r.Refs) != 2 || r.Refs[1] != "ep:2#chars=1-2" {
		t.Errorf("asked %+v", r)
	}
}

// RR-438: whole rows; what could not be given is named.
func TestGetContents(t *testing.T) {
	service := &recorder{contentsAnswer: coordinator.ContentsResponse{
		Rows:    []coordinator.Row{{Ref: "mem:1", Content: "whole", Metadata: json.RawMessage(`{"k":"v"}`), Revision: "ab", Keywords: []string{"k"}}},
		Missing: []string{"mem:9"}, Deferred: []string{"mem:3"}, Budget: 40_000,
	}}
	session := client(t, service, "ann")
	answer, failed := call(t, session, "get_contents", map[string]any{"refs": []string{"mem:1", "mem:9", "mem:3"}})
	want := `{"items":[{"ref":"mem:1","content":"whole","keywords":["k"],"metadata":{"k":"v"},"revision":"ab"}],"missing":["mem:9"],"deferred":["mem:3"],"budget_chars":40000}`
	if got := canonical(t, answer); failed || got != canonicalText(t, want) {
		t.Errorf("got %s", got)
	}
	service.contentsAnswer = coordinator.ContentsResponse{}
	if answer, _ := call(t, session, "get_contents", map[string]any{"refs": []string{}}); canonical(t, answer) != `{"items":[],"missing":[]}` {
		t.Errorf("got %v", answer)
	}
}

// RR-450: every failure carries `error` and `ok` false, and names the argument
// as the caller wrote it. Nothing that is refused reaches the service.
func TestBadArgumentsAreRefusedByName(t *testing.T) {
	tests := []struct{ tool, arguments, field, says string }{
		{"recall", `{}`, "query", "missing"},
		{"recall", `{"query":null}`, "query", "missing"},
		{"recall", `{"query":7}`, "query", "number"},
		{"recall", `{"query":"q","limit":0}`, "limit", "range"},
		{"recall", `{"query":"q","limit":-1}`, "limit", "range"},
		{"recall", `{"query":"q","limit":101}`, "limit", "range"},
		{"recall", `{"query":"q","limit":1e400}`, "limit", "number"},
		{"recall", `{"query":"q","limit":2.5}`, "limit", "number"},
		{"recall", `{"query":"q","limit":"ten"}`, "limit", "string"},
		{"recall", `{"query":"q","deep":"yes"}`, "deep", "string"},
		{"recall", `{"query":"q","project_id":["p"]}`, "project_id", "array"},
		{"recall", `{"query":"q","exclude_contents":[1]}`, "exclude_contents", "number"},
		{"recall", `{"query":"q","qurey":"r"}`, "qurey", "not an argument"},
		{"recall", `{"query":"q","Query":"r"}`, "Query", "not an argument"},
		{"recall", `{"query":"q","query":"r"}`, "query", "twice"},
		{"recall", `{"query":"\ud83d"}`, "query", "surrogate"},
		{"recall", `{"query":"a\u0000b"}`, "query", "NUL"},
		{"recall", "{\"query\":\"caf\xe9\"}", "query", "UTF-8"},
		{"recall", `{"query":"q","agent_id":"\udc00"}`, "agent_id", "surrogate"},
		{"store", `{}`, "content", "missing"},
		{"store", `{"content":7}`, "content", "number"},
		{"store", `{"content":"x","message":{"content":"y"}}`, "content", "not an argument"},
		{"store", `{"content":"x","meta":{}}`, "meta", "not an argument"},
		{"store", `{"content":"x","source":{"id":7}}`, "source.id", "number"},
		{"store", `{"content":"x","source":{"ids":""}}`, "source.ids", "not an argument"},
		{"store", `{"content":"x","lock":"yes"}`, "lock", "string"},
		{"recall_with_context", `{"query":"q","external_context":[{"role":"user"},{"content":7}]}`, "external_context[1].content", "number"},
		{"recall_with_context", `{"query":"q","external_context":[{"content":"x","timestamp":"noon"}]}`, "external_context[0].timestamp", "time"},
		{"recall_with_context", `{"query":"q","external_context":{"content":"x"}}`, "external_context", "object"},
		{"archive_episode", `{}`, "summary", "missing"},
		{"archive_episode", `{"summary":"x","keywords":7}`, "keywords", "number"},
		{"archive_episode", `{"summary":"x","history":[{"timestamp":"noon"}]}`, "history[0].timestamp", "time"},
		{"update_memory", `{"content":"x"}`, "memory_id", "missing"},
		{"update_memory", `{"memory_id":1}`, "content", "missing"},
		{"update_memory", `{"memory_id":0,"content":"x"}`, "memory_id", "number of a record"},
		{"update_memory", `{"memory_id":"ep:1","content":"x"}`, "memory_id", "number of a record"},
		{"update_memory", `{"memory_id":1.5,"content":"x"}`, "memory_id", "number of a record"},
		{"delete_memory", `{}`, "memory_id", "missing"},
		{"delete_memory", `{"memory_id":-1}`, "memory_id", "number of a record"},
		{"delete_memory", `{"memory_id":[1]}`, "memory_id", "number of a record"},
		{"lock_memory", `{"memory_id":null}`, "memory_id", "missing"},
		{"unlock_memory", `{"memory_id":"mem:01"}`, "memory_id", "number of a record"},
		{"update_profile", `{}`, "profile", "missing"},
		{"list_memories", `{"limit":501}`, "limit", "range"},
		{"list_episodes", `{"cursor":7}`, "cursor", "number"},
		{"delete_agent_data", `{"agent_id":"bob"}`, "agent_id", "not the agent"},
		{"delete_episode", `{"episode_id":"mem:1"}`, "episode_id", "number of a record"},
		{"export_memories", `{}`, "output_path", "missing"},
		{"export_memories", `{"output_path":"x.jsonl"}`, "output_path", "--files"},
		{"import_memories", `{"input_path":"x.jsonl"}`, "target_agent_id", "missing"},
		{"import_memories", `{"input_path":"x.jsonl","target_agent_id":"ann"}`, "input_path", "--files"},
		{"import_memories", `{"input_path":"x.jsonl","target_agent_id":"bob"}`, "target_agent_id", "not the agent"},
		{"merge_memories", `{"source_agent_id":"ann","target_agent_id":"bob"}`, "target_agent_id", "not the agent"},
		{"merge_memories", `{"source_agent_id":"ann","target_agent_id":"ann","strategy":"overwrite"}`, "strategy", "unknown"},
		{"set_recall_precision", `{}`, "precision", "missing"},
		{"calibrate_threshold", `{"percentile":"high"}`, "percentile", "string"},
		{"calibrate_threshold", `{"percentile":0.9}`, "percentile", "another method"},
		{"calibrate_threshold", `{"method":"percentile","z_factor":2}`, "z_factor", "another method"},
		{"check_health", `{"agent_id":"ann"}`, "agent_id", "not an argument"},
		{"deep_check", `{"fix":true}`, "fix", "not an argument"},
		{"pause_persistence", `{"ttl_seconds":90000}`, "ttl_seconds", "range"},
		{"store", `{"message":"text"}`, "message", "string"},
		{"store", `{"message":{}}`, "message.content", "missing"},
		{"store", `{"message":{"content":["x"]}}`, "message.content", "array"},
		{"store", `{"message":{"content":"x","meta":{}}}`, "message.meta", "not an argument"},
		{"store", `{"message":{"content":"x","metadata":[]}}`, "message.metadata", "array"},
		{"store", `{"message":{"content":"x","metadata":{"k":["\ud800"]}}}`, "message.metadata.k[0]", "surrogate"},
		{"store", `{"message":{"content":"x","source":{"id":7}}}`, "message.source.id", "number"},
		{"store", `{"message":{"content":"x","source":"chat"}}`, "message.source", "string"},
		{"get_contents", `{}`, "refs", "missing"},
		{"get_contents", `{"refs":"mem:1"}`, "refs", "string"},
		{"get_contents", `{"refs":["mem:1",null,"\ud83d"]}`, "refs[2]", "surrogate"},
		{"get_contents", `[]`, "arguments", ""},
	}
	service := &recorder{}
	for _, test := range tests {
		frame := fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, test.tool, test.arguments)
		lines := session(t, service, strings.NewReader(initialize+frame+"\n"))
		var answer struct {
			Result struct {
				IsError           bool
				StructuredContent failure
			}
		}
		for _, line := range lines {
			if strings.Contains(line, `"id":2,`) {
				if err := json.Unmarshal([]byte(line), &answer); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
			}
		}
		f := answer.Result.StructuredContent
		if !answer.Result.IsError || f.OK || f.Field != test.field || !strings.Contains(f.Error, test.says) || !strings.Contains(f.Error, test.field) {
			t.Errorf("%s %s: got %+v, want %s refused: …%s…", test.tool, test.arguments, f, test.field, test.says)
		}
	}
	if service.calls != 0 {
		t.Errorf("%d refused calls reached the service", service.calls)
	}
}

// RR-450
func TestErrorsOfTheServiceAreFailures(t *testing.T) {
	service := &recorder{}
	session := client(t, service, "ann")
	arguments := map[string]any{"message": map[string]any{"content": "x"}}
	for _, test := range []struct {
		err          error
		field, error string
	}{
		{&memory.FieldError{Field: "items[0].time", Problem: "is not a time with a zone", Limit: "RFC 3339", Next: "add the zone"}, "message.timestamp", "message.timestamp: is not a time with a zone (limit: RFC 3339); add the zone"},
		{fmt.Errorf("store: %w", &memory.FieldError{Field: "agent", Problem: "is empty"}), "agent_id", "agent_id: is empty"},
		{fmt.Errorf("store: %w", memory.ErrFull), "", "store: disk is full"},
		{errors.New("no server answers"), "", "no server answers"},
	} {
		service.err = test.err
		if answer, failed := call(t, session, "store", arguments); !failed || answer["ok"] != false || answer["error"] != test.error || answer["field"] != nil && answer["field"] != test.field {
			t.Errorf("%v: got %v", test.err, answer)
		}
	}
	service.err = nil
	service.storeAnswer = coordinator.StoreResponse{Results: []coordinator.StoreResult{{Outcome: "rejected", Error: "content: is empty"}}}
	if answer, failed := call(t, session, "store", arguments); !failed || answer["ok"] != false || answer["result"] != "rejected" || answer["error"] != "message.content: is empty" {
		t.Errorf("rejected: got %v", answer)
	}
	service.storeAnswer = coordinator.StoreResponse{Results: []coordinator.StoreResult{{Outcome: "skipped", Ref: "mem:3"}}}
	if answer, failed := call(t, session, "store", arguments); failed || answer["ok"] != true || answer["result"] != "skipped" || answer["ref"] != "mem:3" {
		t.Errorf("skipped: got %v", answer)
	}
	service.storeAnswer = coordinator.StoreResponse{}
	if answer, failed := call(t, session, "store", arguments); !failed || answer["ok"] != false {
		t.Errorf("no result: got %v", answer)
	}
	service.panics = true
	if answer, failed := call(t, session, "store", arguments); !failed || answer["error"] != "internal error; the server's log has it" {
		t.Errorf("panic: got %v", answer)
	}
	if _, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "forget_everything"}); err == nil {
		t.Error("an unknown tool answered")
	}
}

// Read-only, destructive, repeatable: what a client may ask its user about, or
// call again. Nothing reaches out of the memory.
func TestAnnotations(t *testing.T) {
	hints := map[string]string{
		"recall": "read", "recall_with_context": "read", "get_contents": "read", "get_profile": "read", "list_memories": "read", "list_episodes": "read",
		"get_recall_precision": "read", "deep_check": "read", "get_queue_status": "read", "get_operating_context": "read", "persistence_status": "read",
		"delete_memory": "destroy", "delete_episode": "destroy", "delete_agent_data": "destroy", "merge_memories": "destroy", "export_memories": "once",
	}
	for _, tool := range tools(t, clientOf(t, &recorder{}, Options{All: true})) {
		a, hint := tool.Annotations, hints[tool.Name]
		if a.ReadOnlyHint != (hint == "read") || *a.DestructiveHint != (hint == "destroy") || a.IdempotentHint != (hint != "once") || *a.OpenWorldHint {
			t.Errorf("%s: %+v", tool.Name, a)
		}
		if len(tool.Description) < 50 || tool.OutputSchema == nil {
			t.Errorf("%s is not described", tool.Name)
		}
	}
}

func canonical(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func canonicalText(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return canonical(t, v)
}
