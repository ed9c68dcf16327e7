package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// session runs one stdio session over the input and returns what was written,
// a frame a line.
func session(t testing.TB, service *recorder, input io.Reader) []string {
	t.Helper()
	var out bytes.Buffer
	if err := Serve(t.Context(), service, Options{Agent: "ann", All: true, Version: "test", In: input, Out: &out}); err != nil {
		t.Fatalf("serve: %v", err)
	}
	return strings.FieldsFunc(out.String(), func(r rune) bool { return r == '\n' })
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

// A line that is no message is answered with an error of the specification, and
// the session goes on.
func TestMalformedFramesAreAnsweredAndPassed(t *testing.T) {
	tests := []struct {
		name, line, id string
		code           int64
	}{
		{"not JSON", `{"jsonrpc":`, "null", jsonrpc.CodeParseError},
		{"prose", `hello`, "null", jsonrpc.CodeParseError},
		{"bytes", "\xff\xfe\x00", "null", jsonrpc.CodeParseError},
		{"a number", `42`, "null", jsonrpc.CodeInvalidRequest},
		{"a batch", `[{"jsonrpc":"2.0","id":7,"method":"ping"}]`, "null", jsonrpc.CodeInvalidRequest},
		{"another version", `{"jsonrpc":"1.0","id":7,"method":"ping"}`, "7", jsonrpc.CodeInvalidRequest},
		{"a method that is no text", `{"jsonrpc":"2.0","id":"x","method":3}`, `"x"`, jsonrpc.CodeInvalidRequest},
		{"an id that is an object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, "null", jsonrpc.CodeInvalidRequest},
		{"deep nesting", strings.Repeat(`{"a":`, 2000) + "1" + strings.Repeat("}", 2000), "null", jsonrpc.CodeInvalidRequest},
		{"too long", `{"jsonrpc":"2.0","id":7,"method":"` + strings.Repeat("x", MaxFrame) + `"}`, "null", jsonrpc.CodeInvalidRequest},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			lines := session(t, &recorder{}, strings.NewReader(initialize+test.line+"\n\n"+`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`))
			if len(lines) != 3 {
				t.Fatalf("got %d frames, want 3: %.300q", len(lines), lines)
			}
			var refused, listed bool
			for _, line := range lines {
				var answer struct {
					ID     json.RawMessage
					Error  *jsonrpc.Error
					Result struct{ Tools []json.RawMessage }
				}
				if err := json.Unmarshal([]byte(line), &answer); err != nil {
					t.Fatalf("wrote %q: %v", line, err)
				}
				if answer.Error != nil {
					refused = string(answer.ID) == test.id && answer.Error.Code == test.code
				}
				listed = listed || len(answer.Result.Tools) == len(usual())+len(further())
			}
			if !refused || !listed {
				t.Errorf("want an error %d for id %s, then the tools; got %.600q", test.code, test.id, lines)
			}
		})
	}
}

// A line over the limit is never held in memory whole.
func TestLongLinesArePassedOver(t *testing.T) {
	input := io.MultiReader(strings.NewReader(initialize), io.LimitReader(repeat('x'), 3*MaxFrame), strings.NewReader("\n"+`{"jsonrpc":"2.0","id":2,"method":"ping"}`+"\n"))
	lines := session(t, &recorder{}, input)
	if all := strings.Join(lines, ""); len(lines) != 3 || !strings.Contains(all, `"id":2,"result":{}`) || !strings.Contains(all, "longer than 16777216 bytes") {
		t.Errorf("got %.300q, want an answer, a refusal and a pong", lines)
	}
}

type repeat byte

func (r repeat) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r)
	}
	return len(p), nil
}

// Whatever comes in, what goes out is JSON-RPC, and the session ends with its
// input.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"recall","arguments":{"query":"\ud83d"}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"store","arguments":{"message":{"content":"x","metadata":{}}}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_contents","arguments":{"refs":["mem:1#chars=1-"]}}}`))
	f.Add([]byte("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}"))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":null}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":3,"method":"tools/call"}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":3,"method":"initialize","params":{}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":3,"method":"server/discover","params":{"_meta":{}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"delete_memory","arguments":{"memory_id":"mem:9"}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"recall_with_context","arguments":{"query":"","external_context":[{"role":"user","timestamp":"2026-11-02T00:00:00Z"}]}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"archive_episode","arguments":{"summary":"x","keywords":["a"],"history":[{"timestamp":""}]}}}`))
	s, err := newServer(&recorder{}, Options{Agent: "ann", All: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		var out bytes.Buffer
		if err := s.Run(t.Context(), frames{io.MultiReader(strings.NewReader(initialize), bytes.NewReader(input)), &out}); err != nil && !errors.Is(err, io.EOF) {
			t.Fatalf("the session ended with %v", err)
		}
		for line := range strings.Lines(out.String()) {
			var answer struct {
				Version string `json:"jsonrpc"`
			}
			if err := json.Unmarshal([]byte(line), &answer); err != nil || answer.Version != "2.0" {
				t.Fatalf("wrote %q: %v", line, err)
			}
		}
	})
}
