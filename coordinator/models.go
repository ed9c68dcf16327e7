package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"recalld/coordinator/arm"
	"recalld/embed"
	"recalld/memory"
	"recalld/sqlite"
)

// How long a recall waits for the vector of its query.
const (
	queryWait       = 3 * time.Second        // RR-448
	queryWaitOutage = 500 * time.Millisecond // once the server is known to be away
)

// Reasons for a recall without its vector arm, or with less of it.
const (
	reasonNoModel          = "no_model"        // no backend is configured
	reasonUnavailable      = "unavailable"     // the server does not answer
	reasonBadResponse      = "bad_response"    // it answers, and not with vectors
	reasonModelDifferent   = "model_different" // it is another model than the stored vectors' (DECISIONS 10)
	reasonModelDrifted     = "model_drifted"   // it answers a little differently by now
	reasonModelUnopened    = "model_unopened"  // its settings do not fit together
	reasonUnembeddable     = "unembeddable_query"
	reasonOtherModelClosed = "other_model_closed" // vectors of a model that is not open
)

// models knows the models that are open and what the file knows of them: it
// turns texts into vectors under a stored model's id, and refuses to mix
// vectors of different models (DECISIONS 10).
type models struct {
	store    *sqlite.Store
	log      *slog.Logger
	advisory *embed.Advisory

	writer   *seat // the configured model; new vectors are its own
	previous *seat // the model being replaced; nil when none is configured

	importing sync.Mutex // one comparison of vectors that came along at a time
	judged    map[judgedKey]judged
}

// seat is one open model. Its identity is compared with the file's models once
// it first answers, and again after an operator's word.
type seat struct {
	clock func() time.Time
	open  func() (embed.Model, error) // nil: the model was given and cannot be opened again
	gate  chan struct{}               // one identification at a time

	mu    sync.Mutex
	model embed.Model
	cache *embed.QueryCache
	known standing
}

// standing is what the file says about the model in a seat.
type standing struct {
	id       int64 // the stored model; 0 until identified or when there is none
	identity embed.Identity
	verdict  embed.Verdict
	lowest   float64 // cosine of the probe that moved most
	halted   bool    // it answered as a model whose vectors must not be mixed
	was      string  // the active model's name, when halted
}

func newSeat(model embed.Model, open func() (embed.Model, error), clock func() time.Time) *seat {
	s := &seat{clock: clock, open: open, gate: make(chan struct{}, 1)}
	s.put(model)
	return s
}

func (s *seat) put(model embed.Model) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.model, s.cache, s.known = model, embed.NewQueryCache(model, s.clock), standing{}
}

func (s *seat) now() (embed.Model, *embed.QueryCache, standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.model, s.cache, s.known
}

func (s *seat) know(k standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = k
}

// different is the refusal to use a model.
type different struct {
	was, is string
	lowest  float64
}

// Error implements error.
func (d *different) Error() string {
	return fmt.Sprintf("the configured model answers as %q and the stored vectors are of %q (lowest probe cosine %.4f); bring the old model back, or run `recalld model accept` or `recalld model rebuild`", d.is, d.was, d.lowest)
}

// identify compares the model in a seat with the file's, once. The writer's
// model becomes the active one of a file that has none; it never replaces one.
func (m *models) identify(ctx context.Context, s *seat) (standing, error) {
	if _, _, k := s.now(); k.id != 0 || k.halted {
		return k, k.refusal()
	}
	select {
	case s.gate <- struct{}{}:
		defer func() { <-s.gate }()
	case <-ctx.Done():
		return standing{}, fmt.Errorf("%w: %w", embed.ErrUnavailable, ctx.Err())
	}
	model, _, k := s.now()
	if k.id != 0 || k.halted {
		return k, k.refusal()
	}
	identity, err := model.Identity(ctx)
	if err != nil {
		return standing{}, err
	}
	stored, err := m.store.Models(ctx)
	if err != nil {
		return standing{}, err
	}
	k = compare(identity, stored, s == m.writer)
	if k.id == 0 && !k.halted {
		if k.id, err = m.store.PutModel(ctx, modelOf(identity, sqlite.ModelActive)); err != nil {
			return standing{}, err
		}
		m.log.Info("embedding model registered", "model", k.id, "backend", identity.Backend, "name", identity.Name, "dims", identity.Dims)
	}
	s.know(k)
	if err := k.refusal(); err != nil {
		m.log.Error("vectors are not mixed", "error", err)
		return k, err
	}
	return k, nil
}

// compare finds the stored model that an identity is. For the writer a model in
// use is preferred to one that is kept; a kept one alone does not do, since
// changing back is the operator's word too.
func compare(identity embed.Identity, stored []sqlite.Model, writer bool) standing {
	k := standing{identity: identity, verdict: embed.Same, lowest: 1}
	usable := []string{sqlite.ModelBuilding, sqlite.ModelActive}
	if !writer {
		usable = append(usable, sqlite.ModelKept)
	}
	var active *sqlite.Model
	for _, state := range usable {
		for i := range stored {
			candidate := &stored[i]
			if candidate.State != state {
				continue
			}
			if state == sqlite.ModelActive {
				active = candidate
			}
			if embed.Compare(identityOf(*candidate), identity) == embed.Same {
				k.id, k.lowest = candidate.ID, lowestCosine(*candidate, identity)
				return k
			}
		}
	}
	if active == nil {
		k.halted, k.was = !writer, "no stored model"
		return k
	}
	k.was = active.Name
	k.verdict, k.lowest = embed.Compare(identityOf(*active), identity), lowestCosine(*active, identity)
	if k.verdict == embed.Drifted {
		k.id = active.ID
	} else {
		k.halted = true
		k.verdict = embed.Different
	}
	return k
}

func (k standing) refusal() error {
	if !k.halted {
		return nil
	}
	return &different{was: k.was, is: k.identity.Name, lowest: k.lowest}
}

// asked is a recall's query under every open model.
type asked struct {
	vectors        []arm.ModelVector
	reason, detail string // why there is none
	drifted        bool
}

func (a asked) usable() bool { return len(a.vectors) > 0 }

// ask embeds the query of a plan that has a vector arm. What cannot be done is
// in the answer, never an error.
func (m *models) ask(ctx context.Context, p plan) asked {
	if p.listing() || !slices.Contains(p.arms, arm.VectorName) {
		return asked{}
	}
	wait := queryWait
	if m.advisory.State() == embed.Fault {
		wait = queryWaitOutage
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()

	var a asked
	v, fresh, drifted, err := m.query(ctx, m.writer, p)
	if fresh || err != nil {
		m.observe(err)
	}
	switch {
	case err != nil:
		a.reason, a.detail = reasonOf(err)
	case v.Vector == nil:
		a.reason, a.detail = reasonUnembeddable, "the model has no vector for this text"
	default:
		a.vectors, a.drifted = append(a.vectors, v), drifted
	}
	if m.previous != nil {
		if v, _, _, err := m.query(ctx, m.previous, p); err == nil && v.Vector != nil {
			a.vectors = append(a.vectors, v)
		}
	}
	return a
}

// query embeds the text of a plan under one model; fresh says that the model was
// asked for it, and not the cache.
func (m *models) query(ctx context.Context, s *seat, p plan) (v arm.ModelVector, fresh, drifted bool, err error) {
	k, err := m.identify(ctx, s)
	if err != nil {
		return v, false, false, err
	}
	_, cache, _ := s.now()
	vector, hit, err := cache.Embed(ctx, p.question.Scope.Agent, p.question.Text)
	return arm.ModelVector{Model: k.id, Vector: vector}, !hit, k.verdict == embed.Drifted, err
}

// vectors are the query under the models that answer the agent: its active
// model and the one being built beside it.
func (m *models) vectors(view *sqlite.View, agent string, a asked) (use []arm.ModelVector, notes []Degradation, err error) {
	active, ok, err := view.ActiveModel(agent)
	if err != nil {
		return nil, nil, err
	}
	stored, err := view.Models()
	if err != nil {
		return nil, nil, err
	}
	serves := func(id int64) bool {
		if ok && id == active.ID {
			return true
		}
		return slices.ContainsFunc(stored, func(s sqlite.Model) bool { return s.ID == id && s.State == sqlite.ModelBuilding })
	}
	// Once an agent was cut over, its model alone answers.
	cutOver := ok && active.State != sqlite.ModelActive
	for _, v := range a.vectors {
		if serves(v.Model) && (!cutOver || v.Model == active.ID) && len(use) < 2 {
			use = append(use, v)
		}
	}
	if ok && !slices.ContainsFunc(use, func(v arm.ModelVector) bool { return v.Model == active.ID }) {
		notes = append(notes, Degradation{Arm: arm.VectorName, Reason: reasonOtherModelClosed,
			Detail: fmt.Sprintf("records that have a vector of model %d (%s) alone are not searched by meaning; open it with the settings previous.*, or wait for the rebuild", active.ID, active.Name)})
	}
	if a.drifted {
		notes = append(notes, Degradation{Arm: arm.VectorName, Reason: reasonModelDrifted, Detail: "the model answers its probes a little differently than when the vectors were made; run `recalld model accept` or `recalld model rebuild`"})
	}
	slices.SortFunc(use, func(a, b arm.ModelVector) int { return int(a.Model - b.Model) })
	return use, notes, nil
}

// made are the vectors of documents, or where they will be made.
type made struct {
	vectors [][]float32 // nil: by the queue
	model   int64       // 0: not known yet; the queue finds the records later
	off     bool
}

func (d made) of(i int) (vector []float32, model int64, queue []int64) {
	switch {
	case d.vectors != nil && d.vectors[i] != nil:
		return d.vectors[i], d.model, nil
	case d.model != 0:
		return nil, 0, []int64{d.model}
	}
	return nil, 0, nil
}

func (d made) word(i int) string {
	switch {
	case d.off:
		return EmbedOff
	case d.vectors != nil && d.vectors[i] != nil:
		return EmbedDone
	}
	return EmbedQueued
}

// documents makes vectors in the store path when the model is in process. What
// fails is left to the queue; only the context's end is an error.
func (m *models) documents(ctx context.Context, texts []string) (made, error) {
	model, _, known := m.writer.now()
	if m.advisory.State() == embed.Hint {
		return made{off: true}, nil
	}
	if !model.Local() {
		if known.halted {
			return made{}, nil
		}
		return made{model: known.id}, nil
	}
	k, err := m.identify(ctx, m.writer)
	if err == nil {
		var vectors [][]float32
		if vectors, err = model.Embed(ctx, embed.Document, texts); err == nil {
			m.observe(nil)
			return made{vectors: vectors, model: k.id}, nil
		}
	}
	if ctx.Err() != nil {
		return made{}, ctx.Err()
	}
	m.observe(err)
	return made{model: k.id}, nil
}

// embedder is the writer's model and its stored id, for the queue.
func (m *models) embedder(ctx context.Context) (embed.Model, int64, error) {
	k, err := m.identify(ctx, m.writer)
	model, _, _ := m.writer.now()
	return model, k.id, err
}

// observe tells the advisory how a call of the writer's model went.
func (m *models) observe(err error) {
	var d *different
	switch {
	case err == nil:
		m.advisory.Success()
	case errors.Is(err, embed.ErrNoModel), errors.Is(err, context.Canceled), errors.As(err, &d):
	default:
		m.advisory.Failure(err)
	}
}

// reasonOf puts an embedding error into a stable word.
func reasonOf(err error) (reason, detail string) {
	var d *different
	var refused *memory.FieldError
	switch {
	case errors.As(err, &refused):
		return reasonModelUnopened, refused.Error()
	case errors.Is(err, embed.ErrNoModel):
		return reasonNoModel, "no embedding backend is configured; words alone are searched"
	case errors.As(err, &d), errors.Is(err, embed.ErrChanged):
		return reasonModelDifferent, err.Error()
	case errors.Is(err, embed.ErrBadResponse):
		return reasonBadResponse, err.Error()
	}
	return reasonUnavailable, err.Error()
}

// notice is what the agent is to be told about the model, nil when all is well
// (RR-448). A model that is not the stored vectors' own is a fault by itself.
func (m *models) notice(agent string) *Advisory {
	if _, _, k := m.writer.now(); k.halted {
		return &Advisory{Severity: "fault", Reason: reasonModelDifferent, Evidence: k.refusal().Error(),
			Runbook: "Tell the user: the embedding model was changed, so memory search works on words alone. Bring the old model back, or run `recalld model accept` when it is the same model after all, or `recalld model rebuild` to embed everything again."}
	}
	for _, s := range []*seat{m.writer, m.previous} {
		if s == nil {
			continue
		}
		model, _, _ := s.now()
		if u, ok := model.(unopened); ok {
			return &Advisory{Severity: "fault", Reason: reasonModelUnopened, Evidence: u.cause.Error(),
				Runbook: "Tell the user: the settings of the embedding model do not fit together, so memory search works on words alone or misses older records by meaning. Correct the setting with `recalld config set`, or go back with `recalld config unset`, and restart."}
		}
	}
	n := m.advisory.Notice(agent)
	if n == nil {
		return nil
	}
	return &Advisory{Severity: n.Severity, Reason: n.Reason, Evidence: n.Evidence, Runbook: n.Runbook}
}

// close closes what is open.
func (m *models) close() error {
	model, _, _ := m.writer.now()
	err := model.Close()
	if m.previous != nil {
		model, _, _ := m.previous.now()
		err = errors.Join(err, model.Close())
	}
	return err
}

func modelOf(id embed.Identity, state string) sqlite.Model {
	return sqlite.Model{Backend: id.Backend, Name: id.Name, Dims: id.Dims, PromptPolicy: id.PromptPolicy, Probes: id.Probes, State: state}
}

// identityOf is a stored model's identity. Probes of another version of the
// sentences do not match and end as [embed.Different], which is the safe side.
func identityOf(m sqlite.Model) embed.Identity {
	return embed.Identity{Backend: m.Backend, Name: m.Name, Dims: m.Dims, PromptPolicy: m.PromptPolicy, ProbeVersion: embed.ProbeVersion, Probes: m.Probes}
}

// lowestCosine is the cosine of the probe that moved most, 0 when the two do
// not compare.
func lowestCosine(stored sqlite.Model, id embed.Identity) float64 {
	if stored.Dims != id.Dims || len(stored.Probes) != len(id.Probes) {
		return 0
	}
	lowest := 1.0
	for i := range id.Probes {
		lowest = min(lowest, float64(memory.Dot(stored.Probes[i], id.Probes[i])))
	}
	return rounded(lowest)
}

// accept records that the configured model is the active one all the same.
func (m *models) accept(ctx context.Context) (int64, error) {
	k, err := m.again(ctx)
	if err != nil {
		return 0, err
	}
	active, ok, err := m.active(ctx)
	switch {
	case err != nil:
		return 0, err
	case !ok:
		return 0, &memory.FieldError{Field: "action", Problem: "there is no stored model to accept it for", Next: "store something first"}
	case active.Dims != k.identity.Dims:
		return 0, &memory.FieldError{Field: "action", Problem: fmt.Sprintf("the configured model has %d dimensions, the stored vectors have %d", k.identity.Dims, active.Dims), Next: "run `recalld model rebuild`"}
	case active.PromptPolicy != k.identity.PromptPolicy:
		return 0, &memory.FieldError{Field: "action", Problem: "the configured prompts differ from those of the stored vectors", Next: "set the old prompts, or run `recalld model rebuild`"}
	}
	if err := m.store.SetProbes(ctx, active.ID, k.identity.Probes); err != nil {
		return 0, err
	}
	m.writer.know(standing{id: active.ID, identity: k.identity, verdict: embed.Same, lowest: 1})
	return active.ID, nil
}

// rebuild makes the configured model the one being built beside the active one.
// A kept model that it matches is taken up again with the vectors it has.
func (m *models) rebuild(ctx context.Context) (int64, error) {
	k, err := m.again(ctx)
	if err != nil {
		return 0, err
	}
	stored, err := m.store.Models(ctx)
	if err != nil {
		return 0, err
	}
	var id int64
	for _, s := range stored {
		same := s.State != sqlite.ModelRetired && embed.Compare(identityOf(s), k.identity) == embed.Same
		switch {
		case s.State == sqlite.ModelBuilding && !same:
			return 0, &memory.FieldError{Field: "action", Problem: fmt.Sprintf("model %d is still being built", s.ID), Next: "retire it first"}
		case same && s.State == sqlite.ModelActive:
			return 0, &memory.FieldError{Field: "action", Problem: "the configured model is the active one already", Next: "set embedding.* to the new model and restart, then rebuild"}
		case same:
			id = s.ID
		}
	}
	if id == 0 {
		id, err = m.store.PutModel(ctx, modelOf(k.identity, sqlite.ModelBuilding))
	} else {
		err = m.store.SetModelState(ctx, id, sqlite.ModelBuilding)
	}
	if err != nil {
		return 0, err
	}
	m.writer.know(standing{id: id, identity: k.identity, verdict: embed.Same, lowest: 1})
	return id, nil
}

// again asks the configured model who it is, anew.
func (m *models) again(ctx context.Context) (standing, error) {
	s := m.writer
	model, _, _ := s.now()
	verdict, err := embed.Recheck(ctx, model)
	if err == nil && verdict != embed.Same || errors.Is(err, embed.ErrChanged) {
		if s.open == nil {
			return standing{}, &memory.FieldError{Field: "action", Problem: "the model was changed while the server ran", Next: "restart the server, then try again"}
		}
		fresh, err := s.open()
		if err != nil {
			return standing{}, err
		}
		s.put(fresh)
		if err := model.Close(); err != nil {
			m.log.Warn("close the model", "error", err)
		}
	} else if err != nil {
		return standing{}, err
	}
	if _, _, k := s.now(); k.id != 0 || k.halted {
		return k, nil
	}
	k, err := m.identify(ctx, s)
	var d *different
	if errors.As(err, &d) {
		return k, nil
	}
	return k, err
}

// active is the file's active model.
func (m *models) active(ctx context.Context) (sqlite.Model, bool, error) {
	stored, err := m.store.Models(ctx)
	for _, s := range stored {
		if s.State == sqlite.ModelActive {
			return s, true, err
		}
	}
	return sqlite.Model{}, false, err
}
