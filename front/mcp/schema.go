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

// object is a schema of exactly these properties.
func object(description string, required []string, properties ...property) *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type:                 "object",
		Description:          description,
		Required:             required,
		Properties:           map[string]*jsonschema.Schema{},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
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
	return property{name, &jsonschema.Schema{Type: "boolean", Description: description, Default: json.RawMessage("false")}}
}

func choice(name, description string, values ...any) property {
	return property{name, &jsonschema.Schema{Type: "string", Description: description, Enum: values}}
}

func count(name, description string, low, high, usual int) property {
	minimum, maximum := float64(low), float64(high)
	return property{name, &jsonschema.Schema{Type: "integer", Description: description, Minimum: &minimum, Maximum: &maximum, Default: fmt.Append(nil, usual)}}
}

func texts(name, description string, most int) property {
	return property{name, &jsonschema.Schema{Type: "array", Description: description, Items: &jsonschema.Schema{Type: "string"}, MaxItems: &most}}
}

// scope are the arguments that say whose memory is meant. The agent is required
// unless the server was started for one.
func scope(agent string) (required []string, properties []property) {
	who := text("agent_id", "Leave it out: this server is of one agent.")
	if agent == "" {
		required = []string{"agent_id"}
		who = text("agent_id", "Whose memory; agents never see each other's.")
	}
	return required, []property{who}
}

// answers is the schema of what a tool answers: the fields of T, or a failure's.
func answers[T any]() (*jsonschema.Schema, error) {
	options := &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage](): {Type: "object"},
		reflect.TypeFor[memory.Time]():     {Type: "string"},
	}}
	s, err := jsonschema.For[T](options)
	if err != nil {
		return nil, err
	}
	f, err := jsonschema.For[failure](options)
	if err != nil {
		return nil, err
	}
	for _, name := range f.PropertyOrder {
		if s.Properties[name] == nil {
			s.Properties[name] = f.Properties[name]
			s.PropertyOrder = append(s.PropertyOrder, name)
		}
	}
	loosen(s)
	return s, nil
}

// loosen leaves what helps to read an answer and drops what would make a later
// field a breach: closed objects, required fields, and the null that Go's nil
// could be, but an answer leaves out.
func loosen(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	s.Required, s.AdditionalProperties = nil, nil
	s.Types = slices.DeleteFunc(s.Types, func(name string) bool { return name == "null" })
	if len(s.Types) == 1 {
		s.Type, s.Types = s.Types[0], nil
	}
	loosen(s.Items)
	for _, property := range s.Properties {
		loosen(property)
	}
}
