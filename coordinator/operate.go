package coordinator

import (
	"context"
	"fmt"
	"strconv"

	"recalld/embed"
	"recalld/memory"
	"recalld/sqlite"
)

// Settings returns every setting in the registry's order.
func (c *Coordinator) Settings(ctx context.Context) ([]Setting, error) {
	stored, err := c.store.Settings(ctx)
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	var all []Setting
	for _, s := range registry() {
		all = append(all, c.shown(s, stored))
	}
	return all, nil
}

func (c *Coordinator) shown(s setting, stored map[string]string) Setting {
	value, isStored := stored[s.name]
	if !isStored {
		value = s.initial
	}
	if v, ok := c.overrides[s.name]; ok {
		value = v
	}
	doc := s.doc
	if s.restart {
		doc += " (from the next start on)"
	}
	return Setting{Name: s.name, Value: value, Default: s.initial, Doc: doc, Range: s.limits, Stored: isStored}
}

// SetSetting stores a setting; an empty value returns it to the default. A
// value that does not fit, alone or beside the others, changes nothing.
func (c *Coordinator) SetSetting(ctx context.Context, name, value string) (Setting, error) {
	var found *setting
	for _, s := range registry() {
		if s.name == name {
			found = &s
			break
		}
	}
	if found == nil {
		return Setting{}, unknownSetting(name)
	}
	c.settings.Lock()
	defer c.settings.Unlock()
	stored, err := c.store.Settings(ctx)
	if err != nil {
		return Setting{}, fmt.Errorf("set %s: %w", name, err)
	}
	// Overrides last for this run alone; the next start has the stored values.
	before, unfit := policyOf(stored, nil)
	if value == "" {
		delete(stored, name)
	} else {
		stored[name] = value
	}
	p, err := policyOf(stored, c.overrides)
	if err != nil {
		return Setting{}, err
	}
	if after, err := policyOf(stored, nil); err == nil && unfit == nil {
		if err := checkOpens(name, before, after); err != nil {
			return Setting{}, err
		}
	}
	if err := c.store.SetSetting(ctx, name, value); err != nil {
		return Setting{}, err
	}
	c.inForce.Store(&p)
	return c.shown(*found, stored), nil
}

// Models returns every model that the file knows, by id.
func (c *Coordinator) Models(ctx context.Context) ([]ModelState, error) {
	view, err := c.store.ViewRecords(ctx)
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	defer view.Close()
	stored, err := view.Models()
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	embedded, err := view.EmbeddedByModel()
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	_, _, k := c.models.writer.now()
	all := []ModelState{}
	for _, m := range stored {
		state := ModelState{ID: m.ID, Backend: m.Backend, Name: m.Name, Dims: m.Dims, Prompts: m.PromptPolicy, State: m.State, Embedded: embedded[m.ID], Records: embedded[0]}
		if k.verdict != embed.Same && m.State == sqlite.ModelActive {
			state.State, state.Drift = sqlite.ModelDrifted, k.lowest
		}
		all = append(all, state)
	}
	return all, nil
}

// agentsOf lists the agents that have records, in name order.
func agentsOf(view *sqlite.View) (agents []string, err error) {
	err = view.AllCells(func(cell sqlite.CellStats) error {
		if cell.Memories+cell.Episodes > 0 && (len(agents) == 0 || agents[len(agents)-1] != cell.Cell.Agent) {
			agents = append(agents, cell.Cell.Agent)
		}
		return nil
	})
	return agents, err
}

// ChangeModel carries out an operator's word: accept the configured model as
// the active one, rebuild with it beside the active one, or retire a model that
// answers nobody any more (DECISIONS 10). Nothing of this ever happens by
// itself.
func (c *Coordinator) ChangeModel(ctx context.Context, r ModelRequest) (*ModelState, error) {
	action, err := checkWord("action", r.Action, "", "accept", "rebuild", "retire")
	if err != nil {
		return nil, err
	}
	if r.Agent != "" {
		return nil, &memory.FieldError{Field: "agent", Problem: "is given, and a model serves the whole file", Next: "leave it out; each agent is cut over by itself once all its records are embedded"}
	}
	var id int64
	switch action {
	case "accept":
		id, err = c.models.accept(ctx)
	case "rebuild":
		id, err = c.models.rebuild(ctx)
	case "retire":
		id, err = c.retire(ctx, r.Model)
	default:
		err = &memory.FieldError{Field: "action", Problem: "is empty", Limit: "accept, rebuild, retire", Next: "say what to do"}
	}
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", action, err)
	}
	c.worker.Wake()
	all, err := c.Models(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if m.ID == id {
			return &m, nil
		}
	}
	return nil, fmt.Errorf("model %d: %w", id, memory.ErrNotFound)
}

// retire removes the vectors of a model that is kept or being built.
func (c *Coordinator) retire(ctx context.Context, name string) (int64, error) {
	stored, err := c.store.Models(ctx)
	if err != nil {
		return 0, err
	}
	for _, m := range stored {
		if strconv.FormatInt(m.ID, 10) != name {
			continue
		}
		if m.State == sqlite.ModelActive {
			return 0, &memory.FieldError{Field: "model", Problem: "is the active one", Next: "build another one first"}
		}
		if err := c.store.SetModelState(ctx, m.ID, sqlite.ModelRetired); err != nil {
			return 0, err
		}
		if m.State == sqlite.ModelBuilding {
			c.models.writer.know(standing{})
		}
		c.matrices.Forget()
		if c.codes != nil {
			c.codes.Wake()
		}
		return m.ID, nil
	}
	return 0, &memory.FieldError{Field: "model", Problem: memory.Shape(name) + " is not the number of a model", Next: "run `recalld model` to see them"}
}

// drained is called by the worker when nothing is left to embed: it cuts agents
// over to a model that was being built, each once it covers them fully, and
// makes it the active one when it answers all (DECISIONS 10).
func (c *Coordinator) drained(ctx context.Context, model int64) error {
	waiting, agents, err := c.waitingAgents(ctx, model)
	if err != nil || agents == nil {
		return err
	}
	for _, agent := range agents {
		if waiting[agent] {
			continue
		}
		if err := c.store.CutOver(ctx, agent, model); err != nil {
			return err
		}
	}
	if len(waiting) > 0 {
		return nil
	}
	if err := c.store.SetModelState(ctx, model, sqlite.ModelActive); err != nil {
		return err
	}
	for _, agent := range agents {
		if err := c.store.CutOver(ctx, agent, 0); err != nil {
			return err
		}
	}
	c.log.Info("embedding model is active", "model", model)
	return nil
}

// waitingAgents returns every agent, and those with records that still wait for
// the model; nil when the model is not being built.
func (c *Coordinator) waitingAgents(ctx context.Context, model int64) (waiting map[string]bool, agents []string, err error) {
	view, err := c.store.ViewRecords(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer view.Close()
	stored, err := view.Models()
	if err != nil {
		return nil, nil, err
	}
	building := false
	for _, m := range stored {
		building = building || m.ID == model && m.State == sqlite.ModelBuilding
	}
	if !building {
		return nil, nil, nil
	}
	if agents, err = agentsOf(view); err != nil {
		return nil, nil, err
	}
	still, err := view.WaitingAgents(model)
	if err != nil {
		return nil, nil, err
	}
	waiting = make(map[string]bool)
	for _, agent := range still {
		waiting[agent] = true
	}
	if agents == nil {
		agents = []string{}
	}
	return waiting, agents, nil
}

// Status is the server's view of itself.
func (c *Coordinator) Status(ctx context.Context) (*Status, error) {
	stats, err := c.store.Stats(ctx)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	queue, err := c.store.QueueStats(ctx)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	all, err := c.Models(ctx)
	if err != nil {
		return nil, err
	}
	s := &Status{
		Version: c.version, TruthID: c.store.TruthID(), Schema: c.store.SchemaVersion(), Path: c.store.Path(), Ready: true,
		Memories: stats.Memories, Episodes: stats.Episodes, Agents: stats.Agents, WALBytes: stats.WALBytes, OldestReaderSeconds: int64(stats.OldestReader.Seconds()),
		Queue:    QueueState{Pending: queue.Pending, Failed: queue.Failed, Unembeddable: queue.Unembeddable, LastError: queue.LastError},
		Advisory: c.models.notice(operator), ErasePending: stats.ErasePending, LastMemory: stats.LastMemory, LastEpisode: stats.LastEpisode,
	}
	for _, m := range all {
		if m.State == sqlite.ModelActive || m.State == sqlite.ModelDrifted {
			s.Model = m
		}
	}
	if s.Blocks, err = c.blockState(ctx); err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	return s, nil
}

// operator is whom Status speaks to, which is no agent.
const operator = ""

// Backup copies the file as one snapshot while work goes on; progress counts
// pages.
func (c *Coordinator) Backup(ctx context.Context, path string, progress Progress) error {
	if path == "" {
		return &memory.FieldError{Field: "path", Problem: "is empty", Next: "name the file to write"}
	}
	return c.store.Backup(ctx, path, progress)
}

// Vacuum rewrites the file without its free pages; progress counts pages.
func (c *Coordinator) Vacuum(ctx context.Context, progress Progress) error {
	return c.store.Vacuum(ctx, progress)
}
