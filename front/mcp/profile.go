package mcp

import (
	"context"
	"errors"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recalld/coordinator"
	"recalld/memory"
)

const (
	getProfileText    = `Read what is known about the user for good: role, preferences, ways of working. Read it before you write it.`
	updateProfileText = `Replace that profile with a text that you wrote: read it, merge what is new, write the whole. An empty text removes it. At most 2,000 characters. Passing facts belong in store.`
)

type profileAnswer struct {
	Profile string `json:"profile" jsonschema:"empty: none yet"`
	Updated string `json:"updated_at,omitempty"`
}

type profileChange struct {
	OK      bool `json:"ok"`
	Updated int  `json:"profiles_updated"`
}

func profileTools() []tool {
	user := text("user_id", "One of several users; absent: the only one.")
	return []tool{{
		name: "get_profile", text: getProfileText, effect: reads,
		properties: []property{user},
		answer:     answers[profileAnswer],
		call:       (*server).getProfile,
	}, {
		name: "update_profile", text: updateProfileText, effect: changes,
		required:   []string{"profile"},
		properties: []property{text("profile", "The whole text."), user},
		answer:     answers[profileChange],
		call:       (*server).updateProfile,
	}}
}

func (s *server) getProfile(ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
	agent, user := s.agent(a), a.text("user_id", "")
	if err := a.end(); err != nil {
		return nil, err
	}
	profiles, err := s.service.Profiles(ctx, agent, &user)
	if err != nil {
		return nil, err
	}
	var answer profileAnswer
	for _, p := range profiles {
		answer = profileAnswer{p.Content, p.Updated.String()}
	}
	return result(answer, false), nil
}

func (s *server) updateProfile(ctx context.Context, a *arguments) (*sdk.CallToolResult, error) {
	request := coordinator.ProfileRequest{Agent: s.agent(a), UserID: a.text("user_id", "")}
	request.Content = a.requiredText("profile", "", "give the whole new text")
	a.names["content"] = "profile"
	if err := a.end(); err != nil {
		return nil, err
	}
	_, err := s.service.PutProfile(ctx, request)
	if request.Content == "" && errors.Is(err, memory.ErrNotFound) {
		return result(profileChange{OK: true}, false), nil
	}
	if err != nil {
		return nil, err
	}
	return result(profileChange{true, 1}, false), nil
}
