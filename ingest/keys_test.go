package ingest

import (
	"strings"
	"testing"
)

// A line that says a thing twice, or a field in other letters, is refused by its
// path; a decoder would keep the last one and lose the other.
// RR-450
func TestKeysAreTakenByTheLetter(t *testing.T) {
	for line, want := range map[string]string{
		`{"content":"a","content":"b"}`:                                         "content: is given twice",
		`{"content":"a","\u0063ontent":"b"}`:                                    "content: is given twice",
		`{"Content":"x"}`:                                                       "Content: is not a field",
		`{"CONTENT":"y","content":"z"}`:                                         "CONTENT: is not a field",
		`{"content":"a","\u017fource":{"id":"x"}}`:                              "is not a field",
		`{"content":"a","source":{"id":"x","ID":"y"}}`:                          "source.ID: is not a field",
		`{"content":"a","source":{"id":"x","id":"y"}}`:                          "source.id: is given twice",
		`{"content":"会議","metadata":{"部屋":"青","部屋":"赤"}}`:                       "metadata.部屋: is given twice",
		`{"content":"a","metadata":{"list":[1,{"k":[],"j":"k","k":{}}]}}`:       "k: is given twice",
		`{"content":"a","metadata":{"source":{"x":{}},"k":1},"metadata":{}}`:    "metadata: is given twice",
		`{"content":"a","keywords":["content","content"],"type":"x","type":""}`: "type: is given twice",
	} {
		items, bad := readAll(t, NewReader(strings.NewReader(line)))
		if len(items) != 0 || len(bad) != 1 || !strings.Contains(bad[0].Err, want) {
			t.Errorf("%s: %v, %v, want %q", line, items, bad, want)
		}
	}
	for _, line := range []string{
		`{"content":"a","metadata":{"Content":"x","content":"y","部屋":{"content":1},"source":{"ID":[{"a":1},{"a":1},"a","a"]},"metadata":{"B":null}},"source":{"id":"content","name":"id"}}`,
		`{"type":"episode","summary":"会议","keywords":["type","type"],"on_conflict":""}`,
		`{}`,
	} {
		if items, bad := readAll(t, NewReader(strings.NewReader(line))); len(items) != 1 {
			t.Errorf("%s: %v", line, bad)
		}
	}
	if _, err := decodeTurn([]byte(`{"conversation":"c","dia_id":"D1:1","text":"a","Text":"b"}`)); err == nil || !strings.Contains(err.Error(), "Text: is not a field") {
		t.Errorf("a turn: %v", err)
	}
}
