package coordinator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"recalld/memory"
)

// checkMetadata returns metadata as a compact JSON object, nil for none. A
// value that is no object, is too long, or holds what no UTF-8 text can (lone
// surrogates, NUL) is refused.
func checkMetadata(raw json.RawMessage) (json.RawMessage, error) {
	trimmed := bytes.TrimSpace(raw)
	if len(trimmed) == 0 || string(trimmed) == "null" {
		return nil, nil
	}
	refuse := func(problem, next string) error {
		return &memory.FieldError{Field: "metadata", Problem: problem, Limit: fmt.Sprintf("a JSON object of at most %d code points", memory.MaxMetadata), Next: next}
	}
	if trimmed[0] != '{' {
		return nil, refuse("is not a JSON object", `write it as {"key": "value"}`)
	}
	if err := memory.CheckText("metadata", string(trimmed), memory.MaxMetadata); err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, trimmed); err != nil {
		return nil, refuse("is not valid JSON", "check its quotes and commas")
	}
	if err := memory.CheckJSON("metadata", compact.Bytes()); err != nil {
		return nil, err
	}
	return compact.Bytes(), nil
}

// checkSource refuses a source whose parts are no texts or too long together
// (RR-445).
func checkSource(s memory.Source) error {
	for _, part := range []struct{ field, text string }{{"source.type", s.Type}, {"source.id", s.ID}, {"source.name", s.Name}} {
		if err := memory.CheckText(part.field, part.text, memory.MaxSource); err != nil {
			return err
		}
	}
	return memory.CheckText("source", s.Type+s.ID+s.Name, memory.MaxSource)
}

func checkKeywords(words []string) error {
	if len(words) > memory.MaxKeywords {
		return &memory.FieldError{Field: "keywords", Problem: fmt.Sprintf("has %d entries", len(words)), Limit: fmt.Sprintf("%d keywords", memory.MaxKeywords), Next: "keep the most telling ones"}
	}
	for i, w := range words {
		field := fmt.Sprintf("keywords[%d]", i)
		if w == "" {
			return &memory.FieldError{Field: field, Problem: "is empty", Limit: fmt.Sprintf("1 to %d code points", memory.MaxName), Next: "remove it"}
		}
		if err := memory.CheckName(field, w); err != nil {
			return err
		}
	}
	return nil
}

// checkTimes reads an episode's start and end; start is not after end.
func checkTimes(startText, endText string) (start, end memory.Time, err error) {
	if start, err = memory.ParseTime("start", startText); err != nil {
		return start, end, err
	}
	if end, err = memory.ParseTime("end", endText); err != nil {
		return start, end, err
	}
	if start.Known && end.Known && start.Milli > end.Milli {
		err = &memory.FieldError{Field: "end", Problem: "is before start", Limit: "start ≤ end", Next: "exchange them"}
	}
	return start, end, err
}

// checkAgent refuses a missing or malformed agent.
func checkAgent(agent string) error { return memory.Scope{Agent: agent}.Check() }

// checkCount refuses a number outside lo..hi.
func checkCount(field string, n, lo, hi int) error {
	if n < lo || n > hi {
		return &memory.FieldError{Field: field, Problem: fmt.Sprintf("is %d", n), Limit: fmt.Sprintf("%d to %d", lo, hi), Next: "ask for a number inside the limit"}
	}
	return nil
}

// checkWord refuses a word that is not one of those listed; "" stands for the
// first of them.
func checkWord(field, word string, words ...string) (string, error) {
	if word == "" {
		return words[0], nil
	}
	for _, w := range words {
		if w == word {
			return w, nil
		}
	}
	return "", &memory.FieldError{Field: field, Problem: memory.Shape(word) + " is unknown", Limit: strings.Join(words, ", "), Next: "use one of the words"}
}
