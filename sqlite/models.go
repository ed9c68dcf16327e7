package sqlite

import (
	"context"
	"fmt"

	"recalld/memory"
)

// States of a model (DECISIONS 10).
const (
	ModelActive   = "active"   // answers every agent that was not cut over to another
	ModelBuilding = "building" // being embedded beside the active one
	ModelKept     = "kept"     // replaced, its vectors kept until confirmed
	ModelDrifted  = "drifted"  // its server answers the probes differently by now
	ModelRetired  = "retired"  // its vectors are gone
)

// Model is one embedding model as the file knows it.
type Model struct {
	ID           int64
	Backend      string
	Name         string
	Dims         int
	PromptPolicy string
	Probes       [][]float32 // unit vectors of the fixed probe sentences
	State        string
	Created      memory.Time
}

const modelColumns = "id, backend, name, dims, prompt_policy, probes, state, created, created_offset"

func decodeModel(r row) Model {
	m := Model{ID: r.int(0), Backend: r.text(1), Name: r.text(2), Dims: int(r.int(3)), PromptPolicy: r.text(4), State: r.text(6), Created: timeAt(r, 7)}
	flat := decodeVector(nil, r.blob(5))
	for m.Dims > 0 && len(flat) >= m.Dims {
		m.Probes = append(m.Probes, flat[:m.Dims:m.Dims])
		flat = flat[m.Dims:]
	}
	return m
}

// PutModel adds a model and returns its id. Whether a server's model is one that
// the file already knows is the caller's to decide by its probes.
func (s *Store) PutModel(ctx context.Context, m Model) (id int64, err error) {
	if m.Dims < 1 || m.Dims > 65_536 {
		return 0, &memory.FieldError{Field: "dims", Problem: fmt.Sprintf("is %d", m.Dims), Limit: "1 to 65536", Next: "check the embedding server"}
	}
	if !knownState(m.State) {
		return 0, &memory.FieldError{Field: "state", Problem: memory.Shape(m.State) + " is unknown", Limit: "active, building, kept, drifted, retired"}
	}
	var flat []float32
	for i, p := range m.Probes {
		if len(p) != m.Dims {
			return 0, &memory.FieldError{Field: "probes", Problem: fmt.Sprintf("number %d has %d components", i, len(p)), Limit: fmt.Sprint(m.Dims), Next: "check the embedding server"}
		}
		flat = append(flat, p...)
	}
	err = s.write(ctx, func(t *tx) error {
		return t.item(func() (err error) {
			if m.State == ModelActive {
				if err := t.keepActive(); err != nil {
					return err
				}
			}
			now := t.w.store.stamp()
			_, id, err = t.exec("INSERT INTO model (backend, name, dims, prompt_policy, probes, state, created, created_offset) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
				m.Backend, m.Name, m.Dims, m.PromptPolicy, encodeVector(flat), m.State, now.Milli, now.Offset)
			return err
		})
	})
	if err != nil {
		return 0, fmt.Errorf("store the model: %w", err)
	}
	return id, nil
}

func knownState(state string) bool {
	switch state {
	case ModelActive, ModelBuilding, ModelKept, ModelDrifted, ModelRetired:
		return true
	}
	return false
}

// keepActive makes room for another active model: there is one at most.
func (t *tx) keepActive() error {
	_, _, err := t.exec("UPDATE model SET state = ? WHERE state = ?", ModelKept, ModelActive)
	return err
}

// SetModelState moves a model to a state. Making one active keeps the former;
// retiring one removes its vectors, block sets and queue entries.
func (s *Store) SetModelState(ctx context.Context, id int64, state string) error {
	if !knownState(state) {
		return &memory.FieldError{Field: "state", Problem: memory.Shape(state) + " is unknown", Limit: "active, building, kept, drifted, retired"}
	}
	err := s.submit(&job{ctx: ctx, erase: state == ModelRetired, run: func(t *tx) error {
		return t.item(func() error {
			if state == ModelActive {
				if err := t.keepActive(); err != nil {
					return err
				}
			}
			n, _, err := t.exec("UPDATE model SET state = ? WHERE id = ?", state, id)
			if err != nil {
				return err
			}
			if n == 0 {
				return memory.ErrNotFound
			}
			if state != ModelRetired {
				return nil
			}
			return t.dropModel(id)
		})
	}})
	if err != nil {
		return fmt.Errorf("set the state of model %d: %w", id, err)
	}
	return nil
}

// dropModel removes what belongs to a model, but not the model itself: its id
// stays taken.
func (t *tx) dropModel(id int64) error {
	if _, _, err := t.exec("DELETE FROM vector WHERE key >= ? AND key < ?", id<<41, (id+1)<<41); err != nil {
		return err
	}
	if _, _, err := t.exec("DELETE FROM queue WHERE model = ?", id); err != nil {
		return err
	}
	for _, table := range []string{"block_set", "block_task"} {
		if _, _, err := t.exec("DELETE FROM "+table+" WHERE key >= ? AND key < ?", id<<41, (id+1)<<41); err != nil {
			return err
		}
	}
	for _, table := range []string{"block_mark", "block_stats", "agent_model"} {
		if _, _, err := t.exec("DELETE FROM "+table+" WHERE model = ?", id); err != nil {
			return err
		}
	}
	return nil
}

// SetProbes replaces a model's probe vectors, after the operator accepted that
// its server answers differently.
func (s *Store) SetProbes(ctx context.Context, id int64, probes [][]float32) error {
	err := s.write(ctx, func(t *tx) error {
		return t.item(func() error {
			var flat []float32
			for _, p := range probes {
				if err := t.checkVector(id, p); err != nil {
					return err
				}
				flat = append(flat, p...)
			}
			n, _, err := t.exec("UPDATE model SET probes = ? WHERE id = ?", encodeVector(flat), id)
			if err == nil && n == 0 {
				err = memory.ErrNotFound
			}
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("set the probes of model %d: %w", id, err)
	}
	return nil
}

// CutOver makes a model the one that answers an agent; 0 returns the agent to
// the active one.
func (s *Store) CutOver(ctx context.Context, agent string, model int64) error {
	err := s.write(ctx, func(t *tx) error {
		return t.item(func() error {
			if model == 0 {
				_, _, err := t.exec("DELETE FROM agent_model WHERE agent = ?", agent)
				return err
			}
			n, _, err := t.exec("INSERT INTO agent_model (agent, model) SELECT ?, id FROM model WHERE id = ? ON CONFLICT DO UPDATE SET model = excluded.model", agent, model)
			if err == nil && n == 0 {
				err = memory.ErrNotFound
			}
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("cut the agent over to model %d: %w", model, err)
	}
	return nil
}

// Models returns every model by id.
func (v *View) Models() ([]Model, error) {
	var models []Model
	err := v.query("SELECT "+modelColumns+" FROM model ORDER BY id", nil, func(r row) error {
		models = append(models, decodeModel(r))
		return nil
	})
	return models, err
}

// ActiveModel returns the model that answers an agent: its own after a cut-over,
// else the active one. ok is false when there is none.
func (v *View) ActiveModel(agent string) (m Model, ok bool, err error) {
	err = v.query("SELECT "+modelColumns+` FROM model WHERE id = coalesce(
		(SELECT model FROM agent_model WHERE agent = ?), (SELECT id FROM model WHERE state = 'active'))`, []any{agent}, func(r row) error {
		m, ok = decodeModel(r), true
		return nil
	})
	return m, ok, err
}

// Models returns every model by id.
func (s *Store) Models(ctx context.Context) ([]Model, error) {
	return read(ctx, s, (*View).Models)
}

// ActiveModel is [View.ActiveModel] in a snapshot of its own.
func (s *Store) ActiveModel(ctx context.Context, agent string) (m Model, ok bool, err error) {
	m, err = read(ctx, s, func(v *View) (m Model, err error) {
		m, ok, err = v.ActiveModel(agent)
		return m, err
	})
	return m, ok, err
}

// read runs one read in a snapshot of its own.
func read[T any](ctx context.Context, s *Store, f func(*View) (T, error)) (result T, err error) {
	v, err := s.ViewRecords(ctx)
	if err != nil {
		return result, err
	}
	defer v.Close()
	return f(v)
}
