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
	OK    bool   `json:"ok"`
	Error string `json:"error"`           // what went wrong and what to do
	Field string `json:"field,omitempty"` // the argument at fault
	Limit string `json:"limit,omitempty"` // what that argument may be
	Next  string `json:"next,omitempty"`  // what to do
}

// unknownArgument refuses a name that is no argument. The name stays as the
// caller wrote it.
type unknownArgument struct{ *memory.FieldError }

// Unwrap gives the refusal.
func (u unknownArgument) Unwrap() error { return u.FieldError }

// failed turns an error into a tool's result, in the caller's own words; names
// are those of [arguments].
func failed(err error, names map[string]string) *sdk.CallToolResult {
	f := failure{Error: strings.ToValidUTF8(err.Error(), "\uFFFD")}
	var refused *memory.FieldError
	if errors.As(err, &refused) {
		own := *refused
		if !errors.As(err, new(unknownArgument)) {
			own.Field = callersName(own.Field, names)
		}
		f = failure{Error: own.Error(), Field: own.Field, Limit: own.Limit, Next: own.Next}
	} else if f.Next = nextStep(err); f.Next != "" {
		f.Error += "; " + f.Next
	}
	return result(f, true)
}

// nextStep is what a model can do about an error that blames no argument.
func nextStep(err error) string {
	switch {
	case errors.Is(err, memory.ErrNotFound):
		return "take ids from a recall or a list of this agent"
	case errors.Is(err, memory.ErrLocked):
		return "unlock it with unlock_memory if the user agrees, then call again"
	}
	return ""
}

// callersName is the argument that a field of the service came from.
func callersName(field string, names map[string]string) string {
	field = strings.TrimPrefix(field, "items[0].")
	head, rest, deeper := strings.Cut(field, ".")
	own, ok := names[head]
	if !ok {
		own = ownName(head)
	}
	if deeper {
		own += "." + rest
	}
	return own
}

// ownName turns a field of the service into the tools' argument.
func ownName(field string) string {
	switch field {
	case "agent":
		return "agent_id"
	case "project":
		return "project_id"
	case "count":
		return "limit"
	}
	return field
}

// ownWords renames the field that a refusal begins with.
func ownWords(refusal string, names map[string]string) string {
	field, rest, ok := strings.Cut(refusal, ": ")
	if !ok {
		return refusal
	}
	return callersName(field, names) + ": " + rest
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
