package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"recalld/memory"
)

// RR-450: a refusal names the field.
func TestCheckNamesTheField(t *testing.T) {
	tests := []struct{ raw, field, problem string }{
		{`{"message":{"content":"\ud83d"}}`, "message.content", "lone surrogate"},
		{`{"message":{"content":"\ude00\ud83d"}}`, "message.content", "lone surrogate"},
		{`{"message":{"content":"\ud83dx\ude00"}}`, "message.content", "lone surrogate"},
		{`{"message":{"content":"\ud83d\ud83d\ude00"}}`, "message.content", "lone surrogate"},
		{`{"refs":["mem:1","mem:\u0000"]}`, "refs[1]", "NUL"},
		{"{\"query\":\"caf\xe9\"}", "query", "UTF-8"},
		{"{\"a\":{\"b\xff\":1}}", "a", "UTF-8"},
		{`{"agent_id":"a","agent_id":"b"}`, "agent_id", "twice"},
		{`{"agent_id":"a","\u0061gent_id":"b"}`, "agent_id", "twice"},
		{`{"message":{"metadata":{"k":[{},{"x":1,"x":2}]}}}`, "message.metadata.k[1].x", "twice"},
		{`{"a":}`, "arguments", "not JSON"},
		{`{"a":"` + "\x01" + `"}`, "arguments", "not JSON"},
		{`{} {}`, "arguments", "not JSON"},
		{``, "arguments", "not JSON"},
		{`"\udc00"`, "arguments", "lone surrogate"},
		{strings.Repeat("[", 65) + strings.Repeat("]", 65), strings.Repeat("[0]", 64), "deep"},
	}
	for _, test := range tests {
		var refused *memory.FieldError
		if err := Check("arguments", []byte(test.raw)); !errors.As(err, &refused) {
			t.Errorf("%q: got %v, want a refusal", test.raw, err)
		} else if refused.Field != test.field || !strings.Contains(refused.Problem, test.problem) {
			t.Errorf("%q: got %q: %q, want %q: …%q…", test.raw, refused.Field, refused.Problem, test.field, test.problem)
		}
	}
}

func TestCheckLetsWholeTextsPass(t *testing.T) {
	for _, raw := range []string{
		`{}`, `[]`, `null`, ` 12e3 `, `""`, `{"a":[1,true,null,{"b":"c"}],"d":-0.5}`,
		`{"content":"😀 \ud83d\ude00 日本語 中文 \\u0000 \"quoted\" \ud7ff\ue000"}`,
		`{"a":"x","A":"y"}`,
		strings.Repeat("[", 64) + strings.Repeat("]", 64),
	} {
		if err := Check("arguments", []byte(raw)); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

// What passes is what any decoder reads: nothing in it gets mended.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{`{"a":"\ud83d\ude00","b":["日本",{"c":null}]}`, `{"a":"\ud83d"}`, "\"\xff\"", `{"a":1,"a":2}`, `[[[[`, `"\u0000"`, `{"":{"":[]}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		err := Check("arguments", raw)
		if err == nil {
			if !json.Valid(raw) || !utf8.Valid(raw) {
				t.Fatalf("%q passed", raw)
			}
			var decoded any
			decoder := json.NewDecoder(bytes.NewReader(raw))
			decoder.UseNumber()
			if err := decoder.Decode(&decoded); err != nil {
				t.Fatal(err)
			}
			again, _ := json.Marshal(decoded)
			if strings.Count(string(again), `\ufffd`)+strings.Count(string(again), "\uFFFD") > strings.Count(strings.ToLower(string(raw)), `\ufffd`)+strings.Count(string(raw), "\uFFFD") {
				t.Fatalf("%q was mended to %q", raw, again)
			}
			return
		}
		if !errors.Is(err, memory.ErrInvalid) || !utf8.ValidString(err.Error()) {
			t.Fatalf("%q: %q is no refusal", raw, err)
		}
	})
}
