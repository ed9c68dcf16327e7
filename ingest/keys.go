package ingest

import (
	"bytes"
	"encoding/json"
	"strings"

	"recalld/memory"
)

// checkKeys refuses what a decoder would settle without a word: a key twice in
// one object, of which it takes the last, and a field's name in other letters,
// which it takes for the field. raw is one valid JSON value; in metadata, whose
// keys are the caller's, only the first is refused.
func checkKeys(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var open []level
	for {
		token, err := d.Token()
		if err != nil {
			return nil // the end
		}
		switch at := len(open) - 1; token {
		case json.Delim('{'), json.Delim('['):
			l := level{object: token == json.Delim('{')}
			if at >= 0 {
				l.free = open[at].free || at == 0 && open[at].key == "metadata"
				open[at].inValue = false
			}
			open = append(open, l)
		case json.Delim('}'), json.Delim(']'):
			open = open[:at]
		default:
			if at < 0 || !open[at].object {
				continue
			}
			if open[at].inValue {
				open[at].inValue = false
				continue
			}
			key := token.(string)
			switch l := &open[at]; {
			case !l.free && strings.Trim(key, "abcdefghijklmnopqrstuvwxyz_") != "":
				return &memory.FieldError{Field: pathOf(open, key), Problem: "is not a field", Limit: "names in small letters", Next: "see docs/formats.md"}
			case l.seen[key]:
				return &memory.FieldError{Field: pathOf(open, key), Problem: "is given twice", Limit: "one value for each key", Next: "keep one of them"}
			case l.seen == nil:
				l.seen = map[string]bool{key: true}
			default:
				l.seen[key] = true
			}
			open[at].key, open[at].inValue = key, true
		}
	}
}

// level is one object or array that is open.
type level struct {
	object  bool
	free    bool // its keys are the caller's
	inValue bool // a key was read, its value comes
	key     string
	seen    map[string]bool
}

// pathOf names a key of the innermost object, of a length that can be shown.
func pathOf(open []level, key string) string {
	var names []string
	for _, l := range open[:len(open)-1] {
		if l.object {
			names = append(names, l.key)
		}
	}
	path, cut := memory.Prefix(strings.Join(append(names, key), "."), memory.MaxName)
	if cut {
		path += "..."
	}
	return path
}
