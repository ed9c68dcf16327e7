package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"recalld/coordinator/arm"
	"recalld/embed"
	"recalld/ingest"
	"recalld/memory"
	"recalld/shards"
	"recalld/sqlite"
)

// Config is what a [Coordinator] is made of.
type Config struct {
	Store *sqlite.Store // required; the caller closes it after the coordinator
	// Model embeds. nil opens the one that the settings embedding.* name. The
	// coordinator closes it.
	Model embed.Model
	// Previous is the model being replaced; nil opens the one that the settings
	// previous.* name, if any.
	Previous  embed.Model
	Overrides map[string]string // settings that win over stored ones, such as flags
	Clock     func() time.Time  // nil: the system's
	Log       *slog.Logger      // nil: silent
	Version   string            // shown by Status
	Seed      uint64            // of the samples that Calibrate draws
	// Derived is the folder for everything that follows from the store; "" is the
	// folder derived beside the file.
	Derived string
	Scanner Scanner
}

// Coordinator implements [Service] in process. It owns the embedding queue's
// worker and the recall counters.
type Coordinator struct {
	store    *sqlite.Store
	models   *models
	arms     map[string]arm.Arm
	matrices *arm.Matrices
	blocks   *arm.Blocks
	words    *shards.Lexical
	codes    *shards.Codes // nil: there is no scanner
	// codesFolder has the files of codes, also those that an earlier run left.
	codesFolder string
	worker      *ingest.QueueWorker
	counters    *recalled
	clock       func() time.Time
	log         *slog.Logger
	version     string
	seed        uint64
	overrides   map[string]string

	asking   atomic.Int64 // recalls and stores under way
	settings sync.Mutex   // one change of settings at a time
	inForce  atomic.Pointer[Policy]
	held     atomic.Pointer[map[string]int64] // pauses of agents' writes, once read

	stop    context.CancelFunc
	running sync.WaitGroup
	closing sync.Once
}

var _ Service = (*Coordinator)(nil)

// housekeeping is how often counters are written and the change log is trimmed.
const housekeeping = 5 * time.Second

// keptChanges is how many changes stay in the log for caches that follow it.
const keptChanges = 100_000

// New starts a coordinator over an open store: it reads the settings, opens the
// embedding model, and starts the queue worker. A model that cannot be reached,
// or that the stored settings cannot open, is no error: words are searched, and
// the advisory says so. Overrides that do not fit are a [*memory.FieldError].
func New(ctx context.Context, cfg Config) (*Coordinator, error) {
	c := &Coordinator{store: cfg.Store, clock: cfg.Clock, log: cfg.Log, version: cfg.Version, seed: cfg.Seed, overrides: cfg.Overrides}
	if c.clock == nil {
		c.clock = time.Now
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	p, err := LoadPolicy(ctx, c.store, c.overrides)
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	c.inForce.Store(&p)
	if c.models, err = openModels(cfg, c, p); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	if err := c.openDerived(ctx, cfg, p); err != nil {
		return nil, fmt.Errorf("start: %w", errors.Join(err, c.models.close()))
	}
	c.matrices = arm.NewMatrices(int64(p.VectorCacheMiB) << 20)
	c.arms = make(map[string]arm.Arm)
	for _, a := range []arm.Arm{
		c.searchThrough(c.codes),
		arm.NewLexical(memory.KindMemory, c.words), arm.NewLexical(memory.KindEpisode, c.words),
		arm.NewFTS(memory.KindMemory), arm.NewFTS(memory.KindEpisode),
	} {
		c.arms[a.Name()] = a
	}
	c.counters = &recalled{write: c.store.AddRecalls}
	c.worker = ingest.NewQueueWorker(ingest.QueueOptions{
		Queue: c.store, Model: c.models.embedder, Observe: c.models.observe, Drained: c.drained, Clock: c.clock, Log: c.log,
		Blocks: c.store, BuildBlocks: func() bool { return c.policy().BlockBuild }, GiveWay: c.giveWay,
	})
	if model, _, _ := c.models.writer.now(); model.Local() {
		if _, err := c.models.identify(ctx, c.models.writer); err != nil {
			c.log.Warn("embedding model", "error", err)
		}
	}
	c.start()
	return c, nil
}

// openWords opens the lexical index, which the scanner's process has a copy of where
// there is one. Beside a store that cannot be written it is kept in memory.
func openWords(ctx context.Context, cfg Config, codes *shards.Codes, log *slog.Logger) (*shards.Lexical, error) {
	folder := filepath.Join(cfg.derivedFolder(), "lexical")
	if cfg.Store.ReadOnly() {
		folder = ""
	}
	o := shards.Options{Folder: folder, Log: log}
	if codes != nil && codes.Client() != nil {
		o.Remote = codes.Client()
	}
	return shards.Open(ctx, cfg.Store, o)
}

// openModels opens what the settings name and was not given.
func openModels(cfg Config, c *Coordinator, p Policy) (*models, error) {
	m := &models{store: c.store, log: c.log}
	open := func() (embed.Model, error) { return openGroup("embedding", c.policy().Embedding) }
	model := cfg.Model
	backend := "given"
	if model == nil {
		var err error
		if model, err = openOrDegrade("embedding", p.Embedding, cfg.Overrides); err != nil {
			return nil, err
		}
		backend = p.Embedding.Backend
	} else {
		open = nil
		if errors.Is(noModel(model), embed.ErrNoModel) {
			backend = "none"
		}
	}
	m.writer = newSeat(model, open, c.clock)
	m.advisory = embed.NewAdvisory(backend, p.DegradedAdvisory, c.clock)
	switch {
	case cfg.Previous != nil:
		m.previous = newSeat(cfg.Previous, nil, c.clock)
	case p.Previous.Backend != "none":
		previous, err := openOrDegrade("previous", p.Previous, cfg.Overrides)
		if err != nil {
			return nil, errors.Join(err, model.Close())
		}
		m.previous = newSeat(previous, nil, c.clock)
	}
	return m, nil
}

// noModel asks a given model for nothing, which only the backend none refuses.
func noModel(m embed.Model) error {
	if !m.Local() {
		return nil
	}
	_, err := m.Embed(context.Background(), embed.Document, nil)
	return err
}

// start runs the worker and the housekeeping until Close.
func (c *Coordinator) start() {
	if c.store.ReadOnly() {
		c.stop = func() {}
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.running.Go(func() { c.worker.Run(ctx) })
	c.running.Go(func() { c.keepHouse(ctx) })
}

func (c *Coordinator) keepHouse(ctx context.Context) {
	tick := time.NewTicker(housekeeping)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := c.tidy(ctx); err != nil && ctx.Err() == nil {
				c.log.Warn("housekeeping", "error", err)
			}
		}
	}
}

// tidy writes the recall counters and trims the change log.
func (c *Coordinator) tidy(ctx context.Context) error {
	if err := c.counters.flush(ctx); err != nil {
		return err
	}
	oldest, last, err := c.changes(ctx)
	if err != nil {
		return err
	}
	if keep := min(last-keptChanges, c.sealed()-1); oldest > 0 && oldest <= keep-keptChanges {
		return c.store.TrimChanges(ctx, keep)
	}
	return nil
}

// changes are the first and the last one in the log.
func (c *Coordinator) changes(ctx context.Context) (oldest, last int64, err error) {
	view, err := c.store.ViewRecords(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer view.Close()
	oldest, err = view.OldestChange()
	return oldest, view.Seq(), err
}

// Close stops the worker after the batch in hand, writes the counters and
// closes the models. The store stays open.
func (c *Coordinator) Close() error {
	var err error
	c.closing.Do(func() {
		c.stop()
		c.running.Wait()
		if !c.store.ReadOnly() {
			err = c.counters.flush(context.Background())
		}
		err = errors.Join(err, c.closeDerived(), c.models.close())
	})
	return err
}

// Drain embeds everything that waits and returns when every record has a
// vector, waits for a retry, or is unembeddable. It serves imports and benches
// that want the whole index before they ask.
func (c *Coordinator) Drain(ctx context.Context) error {
	return c.worker.Drain(ctx)
}

// policy is the policy in force.
func (c *Coordinator) policy() Policy { return *c.inForce.Load() }
