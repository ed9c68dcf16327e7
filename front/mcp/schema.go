package mcp

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"recalld/memory"
)

// property is one named argument in a schema.
type property struct {
	name   string
	schema *jsonschema.Schema
}

// object is a schema of these properties. It is not closed, for that would cost
// every client bytes: a call with any other is refused by name all the same.
func object(description string, required []string, properties ...property) *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type:        "object",
		Description: description,
		Required:    required,
		Properties:  map[string]*jsonschema.Schema{},
	}
	for _, p := range properties {
		s.Properties[p.name] = p.schema
		s.PropertyOrder = append(s.PropertyOrder, p.name)
	}
	return s
}

func text(name, description string) property {
	return property{name, &jsonschema.Schema{Type: "string", Description: description}}
}

func boolean(name, description string) property {
	return property{name, &jsonschema.Schema{Type: "boolean", Description: description}}
}

func choice(name, description string, values ...any) property {
	return property{name, &jsonschema.Schema{Type: "string", Description: description, Enum: values}}
}

func count(name, description string, low, high, usual int) property {
	minimum, maximum := float64(low), float64(high)
	return property{name, &jsonschema.Schema{Type: "integer", Description: description, Minimum: &minimum, Maximum: &maximum, Default: fmt.Append(nil, usual)}}
}

// id is the number of a record.
func id(name, description string) property {
	minimum := float64(1)
	return property{name, &jsonschema.Schema{Type: "integer", Description: description, Minimum: &minimum}}
}

func number(name, description string) property {
	return property{name, &jsonschema.Schema{Type: "number", Description: description}}
}

func texts(name, description string, most int) property {
	return property{name, &jsonschema.Schema{Type: "array", Description: description, Items: &jsonschema.Schema{Type: "string"}, MaxItems: &most}}
}

func anObject(name, description string) property {
	return property{name, &jsonschema.Schema{Type: "object", Description: description}}
}

// answers is the schema of what a tool answers: the fields of T, or a failure's.
func answers[T any]() (*jsonschema.Schema, error) {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage](): {Type: "object"},
		reflect.TypeFor[memory.Time]():     {Type: "string"},
	}})
	if err != nil {
		return nil, err
	}
	// Of a failure's fields, which the schema does not forbid, this one tells it.
	s.Properties["error"] = &jsonschema.Schema{Type: "string"}
	s.PropertyOrder = append(s.PropertyOrder, "error")
	loosen(s, answerDepth)
	return s, nil
}

// answerDepth is how deep an answer is described: its keys and their types. What
// lies deeper is there to be read; docs/spec/tools.md has every key, and here it
// would cost every client more than it tells.
const answerDepth = 1

// loosen leaves what helps to read an answer and drops what would make a later
// field a breach: closed objects, required fields, and the null that Go's nil
// could be, but an answer leaves out.
func loosen(s *jsonschema.Schema, depth int) {
	if s == nil {
		return
	}
	s.Required, s.AdditionalProperties = nil, nil
	s.Types = slices.DeleteFunc(s.Types, func(name string) bool { return name == "null" })
	if len(s.Types) == 1 {
		s.Type, s.Types = s.Types[0], nil
	}
	if depth == 0 {
		s.Properties, s.PropertyOrder = nil, nil
	}
	loosen(s.Items, depth)
	for _, property := range s.Properties {
		loosen(property, depth-1)
	}
}

// turnsOf is a list of messages of a conversation.
func turnsOf(turn *jsonschema.Schema, most int) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "array", Items: turn, MaxItems: &most}
}
