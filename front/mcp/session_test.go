package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recalld/coordinator"
	"recalld/embed"
	"recalld/sqlite"
)

// frontFolder names the folder that this test program, started as a front,
// opens.
const frontFolder = "RECALLD_TEST_FRONT"

// TestMain lets the test program be a front in a process of its own.
func TestMain(m *testing.M) {
	dir := os.Getenv(frontFolder)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := front(context.Background(), dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// front serves a coordinator over the folder's file on standard input and
// output.
func front(ctx context.Context, dir string) (err error) {
	store, err := sqlite.Open(ctx, filepath.Join(dir, "recall.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	model, err := embed.Open(embed.Config{Backend: "hash"})
	if err != nil {
		return err
	}
	service, err := coordinator.New(ctx, coordinator.Config{Store: store, Model: model})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	return Serve(ctx, service, Options{Agent: "ann", Version: "test"})
}

// process is a client of a front in another process.
func process(t *testing.T, dir string) *sdk.ClientSession {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), frontFolder+"="+dir)
	command.Stderr = os.Stderr
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).
		Connect(t.Context(), &sdk.CommandTransport{Command: command}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func messages(t *testing.T, answer map[string]any) []map[string]any {
	t.Helper()
	list, ok := answer["messages"].([]any)
	if !ok {
		t.Fatalf("no messages in %v", answer)
	}
	rows := make([]map[string]any, len(list))
	for i, m := range list {
		rows[i], _ = m.(map[string]any)
	}
	return rows
}

// RR-410, RR-436, RR-438: a client in one process, a front over a real file in
// another. What is stored is recalled, best last, by its agent alone, also by
// the next front.
func TestStoreRecallGetContents(t *testing.T) {
	dir := t.TempDir()
	session := process(t, dir)
	long := "The float switch on pump P2 was jammed. " + strings.Repeat("It was looked at again. ", 60) + "The end: 石灰."
	stored := map[string]string{}
	for _, content := range []string{long, "Anna prefers tea.", "来週の会議は木曜の三時から。", "合同定在周五签。"} {
		answer, failed := call(t, session, "store", map[string]any{"message": map[string]any{"content": content, "timestamp": "2026-11-30T09:00:00+09:00"}})
		if failed || answer["result"] != "stored" {
			t.Fatalf("store: %v", answer)
		}
		stored[content], _ = answer["ref"].(string)
	}
	if answer, failed := call(t, session, "store", map[string]any{"message": map[string]any{"content": "Anna prefers tea."}}); failed || answer["result"] != "skipped" || answer["ref"] != stored["Anna prefers tea."] {
		t.Errorf("the same again: %v", answer)
	}
	if answer, failed := call(t, session, "store", map[string]any{"message": map[string]any{"content": " "}}); !failed || answer["ok"] != false || answer["error"] == "" {
		t.Errorf("blank: %v", answer)
	}
	if answer, failed := call(t, session, "store", map[string]any{"message": map[string]any{"content": "x", "timestamp": "yesterday"}}); !failed || answer["ok"] != false {
		t.Errorf("bad time: %v", answer)
	}
	for query, content := range map[string]string{"pump P2 float switch": long, "会議はいつ?": "来週の会議は木曜の三時から。", "合同": "合同定在周五签。"} {
		answer, failed := call(t, session, "recall", map[string]any{"query": query})
		rows := messages(t, answer)
		if failed || answer["order"] != "best_last" || len(rows) == 0 {
			t.Fatalf("recall %s: %v", query, answer)
		}
		best := rows[len(rows)-1]
		if best["ref"] != stored[content] || best["timestamp"] != "2026-11-30T09:00:00+09:00" || best["match_reason"] == nil {
			t.Errorf("recall %s: best is %v, want %s", query, best, stored[content])
		}
		score := -1.0
		for _, row := range rows {
			reason, _ := row["match_reason"].(map[string]any)
			if now, ok := reason["score"].(float64); ok && now < score {
				t.Errorf("recall %s: %v after a better one", query, row)
			} else if ok {
				score = now
			}
		}
	}
	answer, _ := call(t, session, "recall", map[string]any{"query": "pump P2"})
	rows := messages(t, answer)
	if best := rows[len(rows)-1]; best["content_truncated"] != true || best["content_len"] != float64(len([]rune(long))) {
		t.Errorf("a long record is %v", best)
	}
	answer, failed := call(t, session, "get_contents", map[string]any{"refs": []string{stored[long], "mem:99999", "junk"}})
	items, _ := answer["items"].([]any)
	if failed || len(items) != 1 || items[0].(map[string]any)["content"] != long || fmt.Sprint(answer["missing"]) != "[mem:99999 junk]" {
		t.Errorf("get_contents: %v", answer)
	}
	for tool, arguments := range map[string]map[string]any{
		"recall":       {"query": "pump P2", "agent_id": "bob"},
		"get_contents": {"refs": []string{stored[long]}, "agent_id": "bob"},
		"store":        {"message": map[string]any{"content": "planted"}, "agent_id": "bob"},
	} {
		if answer, failed := call(t, session, tool, arguments); !failed || answer["field"] != "agent_id" {
			t.Errorf("%s serves another agent: %v", tool, answer)
		}
	}
	if err := session.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	session = process(t, dir)
	answer, _ = call(t, session, "recall", map[string]any{"query": "tea"})
	if rows := messages(t, answer); len(rows) == 0 || rows[len(rows)-1]["ref"] != stored["Anna prefers tea."] {
		t.Errorf("the next front recalls %v", answer)
	}
	if err := session.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// Requests piped in at once, with the input closed behind them, are answered.
func TestPipedRequestsAreAnswered(t *testing.T) {
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), frontFolder+"="+t.TempDir())
	command.Stdin = strings.NewReader(initialize +
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"store","arguments":{"message":{"content":"a note"}}}}` + "\n" +
		`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"id":1,`, `"id":2,`, `"id":3,`, `"result":"stored"`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s is not in the answers %.600s", want, out)
		}
	}
}

// Whatever is asked for as a ref, the answer names it in exactly one place.
func FuzzRefs(f *testing.F) {
	dir := f.TempDir()
	store, err := sqlite.Open(f.Context(), filepath.Join(dir, "recall.db"), sqlite.Options{})
	if err != nil {
		f.Fatal(err)
	}
	model, err := embed.Open(embed.Config{Backend: "none"})
	if err != nil {
		f.Fatal(err)
	}
	service, err := coordinator.New(f.Context(), coordinator.Config{Store: store, Model: model})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := errors.Join(service.Close(), store.Close()); err != nil {
			f.Errorf("close: %v", err)
		}
	})
	const content = "浮き fell 😀 off"
	if _, err := service.Store(f.Context(), coordinator.StoreRequest{Agent: "ann", Items: []coordinator.StoreItem{{Content: content}}}); err != nil {
		f.Fatal(err)
	}
	for _, ref := range []string{
		"mem:1", "mem:2", "ep:1", "mem:01", "mem:+1", "mem:1 ", "mem:", ":1", "", "mem:9223372036854775808", "mem:1#", "mem:1#chars=0-3", "mem:1#chars=3-0",
		"mem:1#chars=0-99", "mem:1#chars=-1-3", "mem:1#chars=0-3&rev=00", "mem:1#node=2-3", "MEM:1", "mem：1", "mem:1#chars=0-3&chars=0-2",
	} {
		f.Add(ref)
	}
	s := &server{service: service, bound: "ann"}
	f.Fuzz(func(t *testing.T, ref string) {
		raw, err := json.Marshal(map[string][]string{"refs": {ref}})
		if err != nil {
			t.Fatal(err)
		}
		arguments, err := readArguments(raw)
		if err != nil {
			return
		}
		result, err := s.getContents(t.Context(), arguments)
		if err != nil {
			t.Fatalf("%q: %v", ref, err)
		}
		var answer contentsAnswer
		if err := json.Unmarshal(result.StructuredContent.(json.RawMessage), &answer); err != nil {
			t.Fatal(err)
		}
		if n := len(answer.Items) + len(answer.Missing) + len(answer.Unresolved) + len(answer.Deferred); n != 1 {
			t.Fatalf("%q is named %d times in %+v", ref, n, answer)
		}
		for _, item := range answer.Items {
			if !strings.Contains(content, item.Content) {
				t.Fatalf("%q gave %q", ref, item.Content)
			}
		}
	})
}
