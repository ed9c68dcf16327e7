package coordinator

import (
	"context"
	"fmt"
	"strconv"

	"recalld/memory"
)

// PutProfile sets the profile of one user; an empty content removes it, and is
// [memory.ErrNotFound] when there was none.
func (c *Coordinator) PutProfile(ctx context.Context, r ProfileRequest) (*memory.Profile, error) {
	if err := c.writable(ctx, r.Agent); err != nil {
		return nil, err
	}
	if err := memory.CheckName("user_id", r.UserID); err != nil {
		return nil, err
	}
	if r.Content == "" {
		found, err := c.store.DeleteProfile(ctx, r.Agent, r.UserID)
		if err == nil && !found {
			err = fmt.Errorf("profile of %s: %w", strconv.Quote(r.UserID), memory.ErrNotFound)
		}
		return &memory.Profile{Agent: r.Agent, UserID: r.UserID}, err
	}
	if err := memory.CheckContent("content", r.Content, memory.MaxProfile); err != nil {
		return nil, err
	}
	p, err := c.store.PutProfile(ctx, memory.Profile{Agent: r.Agent, UserID: r.UserID, Content: r.Content})
	if err != nil {
		return nil, err
	}
	return &p, nil
}

// Profiles returns an agent's profiles, newest first; a nil userID means every
// user's.
func (c *Coordinator) Profiles(ctx context.Context, agent string, userID *string) ([]memory.Profile, error) {
	if err := checkAgent(agent); err != nil {
		return nil, err
	}
	if userID != nil {
		if err := memory.CheckName("user_id", *userID); err != nil {
			return nil, err
		}
	}
	view, err := c.store.ViewRecords(ctx)
	if err != nil {
		return nil, fmt.Errorf("profiles: %w", err)
	}
	defer view.Close()
	profiles, err := view.Profiles(agent, userID, maxProfiles)
	if err != nil {
		return nil, fmt.Errorf("profiles: %w", err)
	}
	return profiles, nil
}
