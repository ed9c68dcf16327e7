package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recalld/coordinator"
	"recalld/memory"
)

const (
	updateText = `Correct a mistake in one memory's text, in place: id, time, source and locks stay, the former text goes. When the world changed, store the new fact instead: both stay known.`
	deleteText = `Delete one memory for good, when the user asks for it or it is plainly wrong. A locked one is refused. What is merely old needs no deleting.`
	lockText   = `Protect a memory against update_memory and delete_memory. It ranks no higher for that.`
	unlockText = `Lift the protection of lock_memory, when the user agrees.`

	deleteEpisodeText = `Delete one episode for good, when the user asks for it. The memories of its time stay.`
	deleteAgentText   = `Delete everything of one agent for good: memories, episodes, profiles. Locked records stay and are named. Only on the user's explicit word.`
)

type updateAnswer struct {
	OK        bool   `json:"ok"`
	UpdatedID int64  `json:"updated_id,omitempty"`
	Ref       string `json:"ref,omitempty"`
	Revision  string `json:"revision,omitempty"`

	ErasePending bool `json:"erase_pending,omitempty"` // as in [deleteAnswer], of the former text
}

func updateTool() tool {
	return tool{
		name: "update_memory", text: updateText, effect: changes,
		required:   []string{"memory_id", "content"},
		properties: []property{id("memory_id", "12 for mem:12."), text("content", "The whole new text.")},
		answer:     answers[updateAnswer],
		call: func(s *server, ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
			request := coordinator.UpdateRequest{Agent: s.agent(a)}
			ref, number := a.ref("memory_id", "mem")
			content := a.requiredText("content", "", "give the whole new text")
			request.Ref, request.Content = ref, &content
			if err := a.end(); err != nil {
				return nil, err
			}
			row, err := s.service.Update(ctx, request)
			if err != nil {
				return nil, err
			}
			return result(updateAnswer{OK: true, UpdatedID: number, Ref: row.Ref, Revision: row.Revision, ErasePending: row.ErasePending}, false), nil
		},
	}
}

type deleteAnswer struct {
	OK           bool  `json:"ok"`
	DeletedID    int64 `json:"deleted_id,omitempty"`
	ErasePending bool  `json:"erase_pending,omitempty" jsonschema:"the bytes go when an open snapshot closes"`
}

func deleteTools() []tool {
	return []tool{{
		name: "delete_memory", text: deleteText, effect: destroys,
		required:   []string{"memory_id"},
		properties: []property{id("memory_id", "12 for mem:12.")},
		answer:     answers[deleteAnswer],
		call: func(s *server, ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
			return s.deleteOne(ctx, a, "memory_id", "mem")
		},
	}}
}

func (s *server) deleteOne(ctx context.Context, a *arguments, name, kind string) (*sdk.CallToolResult, error) {
	agent := s.agent(a)
	ref, number := a.ref(name, kind)
	if err := a.end(); err != nil {
		return nil, err
	}
	answer, err := s.service.Delete(ctx, coordinator.DeleteRequest{Agent: agent, Refs: []string{ref}})
	switch {
	case err != nil:
		return nil, err
	case len(answer.Locked) > 0:
		return nil, &memory.FieldError{Field: name, Problem: "names a locked record", Limit: "a record that is not locked", Next: "unlock it with unlock_memory if the user agrees"}
	case len(answer.Deleted) == 0:
		return nil, unknownRecord(name)
	}
	return result(deleteAnswer{OK: true, DeletedID: number, ErasePending: answer.ErasePending}, false), nil
}

// unknownRecord is the same for a record that never was and for another agent's.
func unknownRecord(name string) error {
	return &memory.FieldError{Field: name, Problem: "names no record of this agent", Limit: "a record of the agent", Next: "take the id from a recall or a list"}
}

type lockAnswer struct {
	OK         bool  `json:"ok"`
	LockedID   int64 `json:"locked_id,omitempty"`
	UnlockedID int64 `json:"unlocked_id,omitempty"`
}

func lockTools() []tool {
	of := func(name, description string, locked bool) tool {
		return tool{
			name: name, text: description, effect: changes,
			required:   []string{"memory_id"},
			properties: []property{id("memory_id", "12 for mem:12.")},
			answer:     answers[lockAnswer],
			call: func(s *server, ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
				return s.lock(ctx, a, locked)
			},
		}
	}
	return []tool{of("lock_memory", lockText, true), of("unlock_memory", unlockText, false)}
}

func (s *server) lock(ctx context.Context, a *arguments, locked bool) (*sdk.CallToolResult, error) {
	agent := s.agent(a)
	ref, number := a.ref("memory_id", "mem")
	if err := a.end(); err != nil {
		return nil, err
	}
	response, err := s.service.Lock(ctx, coordinator.LockRequest{Agent: agent, Refs: []string{ref}, Locked: locked})
	if err != nil {
		return nil, err
	}
	if len(response.Done) == 0 {
		return nil, unknownRecord("memory_id")
	}
	answer := lockAnswer{OK: true, UnlockedID: number}
	if locked {
		answer = lockAnswer{OK: true, LockedID: number}
	}
	return result(answer, false), nil
}

type deleteAgentAnswer struct {
	OK           bool     `json:"ok"`
	AgentID      string   `json:"agent_id"`
	Memories     int64    `json:"deleted_memories"`
	Episodes     int64    `json:"deleted_episodes"`
	Profiles     int64    `json:"deleted_profiles"`
	Locked       []string `json:"locked,omitempty"`
	ErasePending bool     `json:"erase_pending,omitempty"`
}

func deleteAllTools() []tool {
	return []tool{{
		name: "delete_episode", text: deleteEpisodeText, effect: destroys,
		required:   []string{"episode_id"},
		properties: []property{id("episode_id", "3 for ep:3.")},
		answer:     answers[deleteAnswer],
		call: func(s *server, ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
			return s.deleteOne(ctx, a, "episode_id", "ep")
		},
	}, {
		name: "delete_agent_data", text: deleteAgentText, effect: destroys,
		answer: answers[deleteAgentAnswer],
		call: func(s *server, ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
			agent := s.agent(a)
			if err := a.end(); err != nil {
				return nil, err
			}
			d, err := s.service.Delete(ctx, coordinator.DeleteRequest{Agent: agent, All: true})
			if err != nil {
				return nil, err
			}
			return result(deleteAgentAnswer{true, agent, d.Memories, d.Episodes, d.Profiles, d.Locked, d.ErasePending}, false), nil
		},
	}}
}
