package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"

	"recalld/memory"
)

// pausesKey is where the pauses are kept beside the settings: an object of agent
// and the end of its pause in UTC milliseconds. It is no setting, and no list of
// settings shows it.
const pausesKey = "state.pauses"

// Pause refuses every write of an agent's memory for a time: records, profiles,
// locks, deletions and calibrations. It is durable, because a user who was told
// that nothing is kept was told so whatever happens to the server.
func (c *Coordinator) Pause(ctx context.Context, r PauseRequest) (*PauseState, error) {
	if err := checkAgent(r.Agent); err != nil {
		return nil, err
	}
	if err := checkCount("seconds", r.Seconds, 0, MaxPause); err != nil {
		return nil, err
	}
	c.settings.Lock()
	defer c.settings.Unlock()
	pauses, err := c.pauses(ctx)
	if err != nil {
		return nil, fmt.Errorf("pause: %w", err)
	}
	_, was := pauses[r.Agent]
	delete(pauses, r.Agent)
	if r.Seconds > 0 {
		pauses[r.Agent] = c.clock().Add(time.Duration(r.Seconds) * time.Second).UnixMilli()
	}
	if err := c.keepPauses(ctx, pauses); err != nil {
		return nil, fmt.Errorf("pause: %w", err)
	}
	state := c.pauseState(pauses[r.Agent])
	state.WasPaused = was
	return state, nil
}

// Paused says whether an agent's writes are paused.
func (c *Coordinator) Paused(ctx context.Context, agent string) (*PauseState, error) {
	if err := checkAgent(agent); err != nil {
		return nil, err
	}
	pauses, err := c.pauses(ctx)
	if err != nil {
		return nil, fmt.Errorf("paused: %w", err)
	}
	return c.pauseState(pauses[agent]), nil
}

// writable refuses a write of an agent whose writes are paused with
// [memory.ErrPaused].
func (c *Coordinator) writable(ctx context.Context, agent string) error {
	if err := checkAgent(agent); err != nil {
		return err
	}
	state, err := c.Paused(ctx, agent)
	if err != nil {
		return err
	}
	if state.Paused {
		return fmt.Errorf("nothing was changed: agent %s has paused its memory until %s; resume it (resume_persistence) or wait: %w", strconv.Quote(agent), state.Until, memory.ErrPaused)
	}
	return nil
}

// forgetPause removes the name of an agent whose data is deleted.
func (c *Coordinator) forgetPause(ctx context.Context, agent string) error {
	c.settings.Lock()
	defer c.settings.Unlock()
	pauses, err := c.pauses(ctx)
	if err != nil {
		return err
	}
	if _, named := (*c.held.Load())[agent]; !named {
		return nil
	}
	delete(pauses, agent)
	return c.keepPauses(ctx, pauses)
}

// pauses are the ends of the pauses that still last, in UTC milliseconds. They
// are read from the file once: nobody else writes it.
func (c *Coordinator) pauses(ctx context.Context) (map[string]int64, error) {
	held := c.held.Load()
	if held == nil {
		stored, err := c.store.Settings(ctx)
		if err != nil {
			return nil, err
		}
		read := make(map[string]int64)
		if text := stored[pausesKey]; text != "" {
			if err := json.Unmarshal([]byte(text), &read); err != nil {
				return nil, fmt.Errorf("the stored pauses cannot be read: %w", memory.ErrCorrupt)
			}
		}
		c.held.CompareAndSwap(nil, &read)
		held = c.held.Load()
	}
	now := c.clock().UnixMilli()
	lasting := maps.Clone(*held)
	maps.DeleteFunc(lasting, func(_ string, until int64) bool { return until <= now })
	return lasting, nil
}

// keepPauses stores the pauses; the caller holds c.settings.
func (c *Coordinator) keepPauses(ctx context.Context, pauses map[string]int64) error {
	text := ""
	if len(pauses) > 0 {
		encoded, err := json.Marshal(pauses)
		if err != nil {
			return err
		}
		text = string(encoded)
	}
	if err := c.store.SetSetting(ctx, pausesKey, text); err != nil {
		return err
	}
	c.held.Store(&pauses)
	return nil
}

// pauseState is what a pause looks like; until is 0 when there is none.
func (c *Coordinator) pauseState(until int64) *PauseState {
	if until == 0 {
		return &PauseState{}
	}
	left := max(until-c.clock().UnixMilli(), 1)
	return &PauseState{Paused: true, Until: time.UnixMilli(until).UTC().Format(time.RFC3339), Seconds: int((left + 999) / 1000)}
}
