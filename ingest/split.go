package ingest

import (
	"encoding/json"
	"fmt"
	"strings"

	"recalld/memory"
)

// parts divides a text that is longer than a record may be by default, behind a
// blank line where there is one, else behind a line, else behind a space, else
// anywhere. The parts joined are the text.
func parts(text string, limit int) []string {
	var all []string
	for {
		head, cut := memory.Prefix(text, limit)
		if !cut {
			return append(all, text)
		}
		at := len(head)
		for _, mark := range []string{"\n\n", "\n", " "} {
			if i := strings.LastIndex(head, mark); i > len(head)/2 {
				at = i + len(mark)
				break
			}
		}
		all = append(all, text[:at])
		text = text[at:]
	}
}

// split makes one item of a text, or as many as it takes; each part knows which
// one of how many it is.
func split(item Item) []Item {
	all := parts(item.Content, memory.DefaultMaxContent)
	if len(all) == 1 {
		return []Item{item}
	}
	var items []Item
	for i, text := range all {
		if strings.TrimSpace(text) == "" {
			continue
		}
		part := item
		part.Content = text
		if part.MessageID != "" {
			part.MessageID = fmt.Sprintf("%s#part-%d", item.MessageID, i+1)
		}
		part.Metadata = withMetadata(item.Metadata, map[string]any{"part": i + 1, "parts": len(all)})
		items = append(items, part)
	}
	return items
}

// withMetadata adds keys to a JSON object, or makes one.
func withMetadata(object json.RawMessage, more map[string]any) json.RawMessage {
	all := map[string]any{}
	if len(object) > 0 {
		var held map[string]json.RawMessage
		if json.Unmarshal(object, &held) == nil {
			for key, value := range held {
				all[key] = value
			}
		}
	}
	for key, value := range more {
		all[key] = value
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return object
	}
	return raw
}
