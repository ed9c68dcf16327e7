package access

import (
	"errors"
	"fmt"

	"recalld/memory"
)

// ErrDenied is what a refused call wraps. It says nothing about whether the
// agent exists.
var ErrDenied = errors.New("access denied")

// Denial is one refused call (RR-449): who asked for what, and what it needs. It
// is a function of the request and the grants alone, so that it is the same for
// an agent that does not exist.
type Denial struct {
	Client string // its name; "" when nobody is known
	Call   string // the method
	Agent  string // whose memory; "*" for the server and for everything
	Need   Level
}

// Error names the next step.
func (d *Denial) Error() string {
	if d.Client == "" {
		return fmt.Sprintf("%v: no client is known for this call; send a token", ErrDenied)
	}
	return fmt.Sprintf("%v: %s needs %s on agent %s, which client %s does not have; ask whoever keeps the file of grants",
		ErrDenied, d.Call, d.Need, memory.Shape(d.Agent), memory.Shape(d.Client))
}

// Unwrap makes every Denial an [ErrDenied].
func (d *Denial) Unwrap() error { return ErrDenied }

// Level is what a client may do with one agent's memory. Each level has what is
// below it.
type Level uint8

// The levels, in order.
const (
	None      Level = iota // nothing, and no hint that there is something
	Read                   // recall, read, list, export
	ReadWrite              // also store, change and delete
)

// String returns the word of a grants file.
func (l Level) String() string {
	switch l {
	case Read:
		return "read"
	case ReadWrite:
		return "read-write"
	}
	return "none"
}

// parseLevel reads a word of a grants file.
func parseLevel(field, word string) (Level, error) {
	for _, l := range []Level{None, Read, ReadWrite} {
		if word == l.String() {
			return l, nil
		}
	}
	return None, &memory.FieldError{Field: field, Problem: memory.Shape(word) + " is not a level", Limit: "none, read, read-write", Next: "choose one of them"}
}

// everyAgent is the entry of a grants file that stands for every agent without
// an entry, and for the server itself.
const everyAgent = "*"

// Client is one program that may enter, and what it may do. It does not change
// and is safe for concurrent use.
type Client struct {
	name   string
	agents map[string]Level // exact entries and everyAgent
}

// Name is the client's name in the grants file, for logs.
func (c *Client) Name() string { return c.name }

// Level is what the client may do with an agent's memory: the agent's own entry,
// else the entry "*", else [None].
func (c *Client) Level(agent string) Level {
	if level, ok := c.agents[agent]; ok {
		return level
	}
	return c.agents[everyAgent]
}

// Server is what the client may do with the server itself, its settings, models
// and checks: the entry "*", else [None].
func (c *Client) Server() Level { return c.agents[everyAgent] }

// Everything is what the client may do with all agents' memory at once, as a
// backup does: the entry "*", and no more than the lowest entry of any agent.
func (c *Client) Everything() Level {
	lowest := c.Server()
	for _, level := range c.agents {
		lowest = min(lowest, level)
	}
	return lowest
}

// NewClient returns a client that may do one thing with every agent's memory and
// the server: for a single token, and for a server that asks for none.
func NewClient(name string, level Level) *Client {
	return &Client{name: name, agents: map[string]Level{everyAgent: level}}
}
