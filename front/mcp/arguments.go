package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"recalld/front/strictjson"
	"recalld/memory"
)

// arguments reads a tool call's JSON object by exact names. The first refusal is
// kept and returned by end; null is absent.
type arguments struct {
	path   string // of this object, "" for the outermost
	fields map[string]json.RawMessage
	known  []string
	inner  []*arguments
	err    error
	// names are the arguments that the service's fields came from, where that is
	// not what [ownName] says.
	names map[string]string
}

// readArguments checks the raw text before anything decodes it.
func readArguments(raw json.RawMessage) (*arguments, error) {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	if err := strictjson.Check("arguments", raw); err != nil {
		return nil, err
	}
	a := &arguments{names: map[string]string{}}
	if !a.decode("arguments", raw, &a.fields, "an object") {
		return nil, a.err
	}
	return a, nil
}

// end returns the first refusal, of a value or of a name nobody asked for.
func (a *arguments) end() error {
	if a.err != nil {
		return a.err
	}
	for _, inner := range a.inner {
		if err := inner.end(); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.fields)) {
		if !slices.Contains(a.known, name) {
			next := "leave it out"
			if own := ownName(name); slices.Contains(a.known, own) {
				next = "write " + own
			}
			return unknownArgument{&memory.FieldError{Field: a.at(shortName(name)), Problem: "is not an argument", Limit: strings.Join(a.known, ", "), Next: next}}
		}
	}
	return nil
}

// shortName keeps a name of any length fit for a message.
func shortName(name string) string {
	short, _ := memory.Prefix(name, 80)
	return short
}

// text returns a string, or the fallback when it is absent.
func (a *arguments) text(name, fallback string) string {
	if s := a.optionalText(name); s != nil {
		return *s
	}
	return fallback
}

// requiredText is [arguments.text] for an argument that must be there.
func (a *arguments) requiredText(name, fallback, next string) string {
	s := a.optionalText(name)
	if s == nil && fallback == "" {
		a.missing(name, "a string", next)
	}
	if s == nil {
		return fallback
	}
	return *s
}

func (a *arguments) missing(name, shape, next string) {
	a.refuse(&memory.FieldError{Field: a.at(name), Problem: "is missing", Limit: shape, Next: next})
}

func (a *arguments) optionalText(name string) *string {
	var s *string
	a.read(name, &s, "a string")
	return s
}

func (a *arguments) texts(name string) []string {
	var list []string
	a.read(name, &list, "a list of strings")
	return list
}

func (a *arguments) flag(name string) bool {
	var b bool
	a.read(name, &b, "true or false")
	return b
}

// number returns a number, or 0 when it is absent.
func (a *arguments) number(name string) float64 {
	var x float64
	a.read(name, &x, "a number")
	return x
}

// count returns a whole number from low to high, or 0 when it is absent.
func (a *arguments) count(name string, low, high int) int {
	limit := fmt.Sprintf("a whole number from %d to %d", low, high)
	var n *int
	if !a.read(name, &n, limit) || n == nil {
		return 0
	}
	if *n < low || *n > high {
		a.refuse(&memory.FieldError{Field: a.at(name), Problem: "is out of range", Limit: limit, Next: "choose one in range, or leave it out"})
	}
	return *n
}

// ref returns the reference of the record that a number names, or a reference
// itself, which models write as often.
func (a *arguments) ref(name, kind string) (ref string, id int64) {
	shape := "a whole number, 12 for " + kind + ":12"
	var raw json.RawMessage
	a.read(name, &raw, shape)
	if len(raw) == 0 || string(raw) == "null" {
		a.missing(name, shape, "take it from the ref or the id of an answer")
		return "", 0
	}
	digits := string(raw)
	var written string
	if json.Unmarshal(raw, &written) == nil {
		digits = strings.TrimPrefix(written, kind+":")
	}
	id, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || id < 1 || strconv.FormatInt(id, 10) != digits {
		a.refuse(&memory.FieldError{Field: a.at(name), Problem: "is not the number of a record", Limit: shape, Next: "take it from the ref or the id of an answer"})
		return "", 0
	}
	return kind + ":" + digits, id
}

// object returns the arguments inside an object, empty when it is absent.
func (a *arguments) object(name string) *arguments {
	inner := &arguments{path: a.at(name)}
	a.read(name, &inner.fields, "an object")
	a.inner = append(a.inner, inner)
	return inner
}

// objects returns the arguments inside each object of a list.
func (a *arguments) objects(name string) (all []*arguments) {
	var list []map[string]json.RawMessage
	a.read(name, &list, "a list of objects")
	for i, fields := range list {
		inner := &arguments{path: fmt.Sprintf("%s[%d]", a.at(name), i), fields: fields}
		a.inner = append(a.inner, inner)
		all = append(all, inner)
	}
	return all
}

// rawObject returns the text of an object, nil when it is absent.
func (a *arguments) rawObject(name string) json.RawMessage {
	var fields map[string]json.RawMessage
	if !a.read(name, &fields, "an object") || fields == nil {
		return nil
	}
	return a.fields[name]
}

// rest takes whatever else the object has, unread.
func (a *arguments) rest() { a.known = append(a.known, slices.Sorted(maps.Keys(a.fields))...) }

func (a *arguments) has(name string) bool {
	raw, ok := a.fields[name]
	return ok && string(raw) != "null"
}

// read decodes one argument and reports whether it could.
func (a *arguments) read(name string, into any, shape string) bool {
	a.known = append(a.known, name)
	raw, ok := a.fields[name]
	if !ok {
		return true
	}
	return a.decode(a.at(name), raw, into, shape)
}

func (a *arguments) decode(field string, raw json.RawMessage, into any, shape string) bool {
	if err := json.Unmarshal(raw, into); err != nil {
		problem := "is not " + shape
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			problem = "is or holds a JSON " + wrong.Value
		}
		a.refuse(&memory.FieldError{Field: field, Problem: problem, Limit: shape, Next: "send it in that shape"})
		return false
	}
	return true
}

func (a *arguments) refuse(err error) {
	if a.err == nil {
		a.err = err
	}
}

func (a *arguments) at(name string) string {
	if a.path == "" {
		return name
	}
	return a.path + "." + name
}
