package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recalld/memory"
)

// failure is what every tool answers when it could not do as asked (RR-450).
type failure struct {
	OK    bool   `json:"ok" jsonschema:"false on failure"`
	Error string `json:"error,omitempty" jsonschema:"what went wrong and what to do"`
	Field string `json:"field,omitempty" jsonschema:"the argument at fault"`
	Limit string `json:"limit,omitempty" jsonschema:"what that argument may be"`
	Next  string `json:"next,omitempty" jsonschema:"what to do"`
}

// unknownArgument refuses a name that is no argument. The name stays as the
// caller wrote it.
type unknownArgument struct{ *memory.FieldError }

// Unwrap gives the refusal.
func (u unknownArgument) Unwrap() error { return u.FieldError }

// failed turns an error into a tool's result, in the caller's own words.
func failed(err error) *sdk.CallToolResult {
	f := failure{Error: strings.ToValidUTF8(err.Error(), "\uFFFD")}
	var refused *memory.FieldError
	if errors.As(err, &refused) {
		own := *refused
		if !errors.As(err, new(unknownArgument)) {
			own.Field = ownName(own.Field)
		}
		f = failure{Error: own.Error(), Field: own.Field, Limit: own.Limit, Next: own.Next}
	}
	return result(f, true)
}

// ownName turns a field of the service into the tool's argument.
func ownName(field string) string {
	field = strings.TrimPrefix(field, "items[0].")
	switch head, _, _ := strings.Cut(field, "."); head {
	case "agent":
		return "agent_id"
	case "project":
		return "project_id"
	case "count":
		return "limit"
	case "content", "metadata", "source":
		return "message." + field
	case "message_id":
		return "message.id"
	case "time":
		return "message.timestamp"
	}
	return field
}

// ownWords renames the field that a refusal begins with.
func ownWords(refusal string) string {
	field, rest, ok := strings.Cut(refusal, ": ")
	if !ok {
		return refusal
	}
	return ownName(field) + ": " + rest
}

// result carries a value as structured content and, for clients that read text
// alone, as the same JSON in a text block.
func result(value any, isError bool) *sdk.CallToolResult {
	text, err := json.Marshal(value)
	if err != nil {
		text, isError = fmt.Appendf(nil, `{"ok":false,"error":%q}`, "encode the answer: "+err.Error()), true
	}
	return &sdk.CallToolResult{
		Content:           []sdk.Content{&sdk.TextContent{Text: string(text)}},
		StructuredContent: json.RawMessage(text),
		IsError:           isError,
	}
}
