package mcp

import (
	"context"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// tool is one entry of the list that clients see, and the call behind it.
type tool struct {
	name, text string
	effect     effect
	// whole is set for a tool that names no agent in agent_id.
	whole      bool
	required   []string
	properties []property
	answer     func() (*jsonschema.Schema, error)
	call       func(*server, context.Context, *arguments) (*sdk.CallToolResult, error)
}

// effect is what a call does, as the annotations say it.
type effect uint8

const (
	reads    effect = iota // nothing changes
	adds                   // something is added, once: the same call again adds nothing
	appends                // something is added by every call
	changes                // something is set; the same call again changes nothing
	destroys               // something is lost for good
)

func (e effect) annotations() *sdk.ToolAnnotations {
	return &sdk.ToolAnnotations{
		ReadOnlyHint:    e == reads,
		IdempotentHint:  e != appends,
		DestructiveHint: new(e == destroys),
		OpenWorldHint:   new(false),
	}
}

// usual are the tools of an agent at work.
func usual() []tool {
	return slices.Concat(
		[]tool{storeTool(), recallTool(), recallWithContextTool(), contentsTool(), archiveTool(), updateTool()},
		profileTools(), listTools(), deleteTools(), lockTools(),
	)
}

// further are the tools of who looks after a memory; Options.All adds them.
func further() []tool {
	return slices.Concat(
		deleteAllTools(), transferTools(), precisionTools(), healthTools(), contextTools(), pauseTools(),
	)
}

// describe is the tool as clients see it. The agent is required unless the front
// was started for one.
func (t tool) describe(agent string) (*sdk.Tool, error) {
	output, err := t.answer()
	if err != nil {
		return nil, err
	}
	required, properties := t.required, t.properties
	if !t.whole {
		who := text("agent_id", "Leave it out: this server is of one agent.")
		if agent == "" {
			required = append([]string{"agent_id"}, required...)
			who = text("agent_id", "")
		}
		properties = append([]property{who}, properties...)
	}
	return &sdk.Tool{
		Name:         t.name,
		Description:  t.text,
		Annotations:  t.effect.annotations(),
		InputSchema:  object("", required, properties...),
		OutputSchema: output,
	}, nil
}
