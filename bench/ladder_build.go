package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"recalld/coordinator"
	"recalld/memory"
	"recalld/shards"
	"recalld/sqlite"
)

// ladderTrial is one rung at work.
type ladderTrial struct {
	ctx    context.Context
	o      LadderOptions
	plan   *ladderPlan
	n      int
	folder string
	state  ladderState

	store   *sqlite.Store
	service *coordinator.Coordinator
}

// ladderState is what a rung's folder says of itself, in the file rung.json.
type ladderState struct {
	Corpus  int    `json:"corpus_version"`
	Seed    uint64 `json:"seed"`
	Shape   string `json:"shape"`
	Records int    `json:"records"`
	Total   int    `json:"total"`

	Text    int64   `json:"text_bytes"` // of the first Counted records
	Counted int     `json:"counted"`
	Store   float64 `json:"store_s"`
	Block   float64 `json:"blocks_s"`
	Derive  float64 `json:"derived_s"`
	Codes   bool    `json:"codes"`   // what is derived holds the scanner's files
	Peak    float64 `json:"peak_mb"` // of memory while building

	Resumed bool `json:"resumed"`
	Built   bool `json:"built"`
}

const ladderStateName = "rung.json"

func newLadderTrial(ctx context.Context, o LadderOptions, c *corpus, n int) *ladderTrial {
	return &ladderTrial{ctx: ctx, o: o, n: n, plan: newLadderPlan(c, o.Shape, n, o.small), folder: ladderFolder(o.Folder, o.Shape, n)}
}

func (t *ladderTrial) run() (LadderRung, error) {
	if err := t.prepare(); err != nil {
		return LadderRung{}, err
	}
	return t.measure()
}

// prepare makes the rung ready to be measured.
func (t *ladderTrial) prepare() error {
	if err := t.begin(); err != nil {
		return err
	}
	switch {
	case !t.state.Built:
		return t.build()
	case t.state.Codes != t.scanned():
		return t.derive()
	}
	return nil
}

// alone is the small agent of the shape neighbour in a file of its own: the same
// records with the same numbers, one rung for neighbours of every size.
func (t *ladderTrial) alone() *ladderTrial {
	p := *t.plan
	p.total, p.starts = p.small, []int{0}
	return &ladderTrial{ctx: t.ctx, o: t.o, n: p.small, plan: &p, folder: ladderFolder(t.o.Folder, ShapeNeighbour+"-alone", p.small)}
}

// scanned reports whether a scanner's process takes part.
func (t *ladderTrial) scanned() bool { return !t.o.Scanner.Off && len(t.o.Scanner.Command) > 0 }

// begin reads what the folder says, or makes it. A rung of other records is
// refused: it would be measured as something that it is not.
func (t *ladderTrial) begin() error {
	fresh := ladderState{Corpus: corpusVersion, Seed: ladderSeed, Shape: t.o.Shape, Records: t.n, Total: t.plan.total}
	raw, err := os.ReadFile(filepath.Join(t.folder, ladderStateName))
	if errors.Is(err, fs.ErrNotExist) {
		t.state = fresh
		if err := os.MkdirAll(t.folder, 0o700); err != nil {
			return err
		}
		return t.save()
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &t.state); err != nil {
		return fmt.Errorf("read %s: %w", ladderStateName, err)
	}
	s := t.state
	if s.Corpus != fresh.Corpus || s.Seed != fresh.Seed || s.Shape != fresh.Shape || s.Records != fresh.Records || s.Total != fresh.Total {
		return &memory.FieldError{Field: "folder", Problem: "holds a rung of other records under this name", Limit: "one version of the generator", Next: "remove that rung's folder or name another one"}
	}
	t.state.Resumed = t.state.Resumed || !t.state.Built && t.state.Counted > 0
	return nil
}

// save writes the state by one rename.
func (t *ladderTrial) save() error {
	raw, err := json.MarshalIndent(t.state, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(t.folder, ladderStateName)
	if err := os.WriteFile(path+".new", append(raw, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// open opens the file and a coordinator over it.
func (t *ladderTrial) open(settings map[string]string) (err error) {
	if t.store, err = sqlite.Open(t.ctx, filepath.Join(t.folder, "recall.db"), sqlite.Options{Clock: t.o.Clock}); err != nil {
		return err
	}
	all := map[string]string{}
	maps.Copy(all, t.o.Overrides)
	maps.Copy(all, settings)
	if t.service, err = coordinator.New(t.ctx, coordinator.Config{Store: t.store, Overrides: all, Scanner: t.o.Scanner, Clock: t.o.Clock}); err != nil {
		return errors.Join(err, t.store.Close())
	}
	return nil
}

func (t *ladderTrial) close() error {
	return errors.Join(t.service.Close(), t.store.Close())
}

// with opens, calls, and closes.
func (t *ladderTrial) with(settings map[string]string, call func() error) error {
	if err := t.open(settings); err != nil {
		return err
	}
	return errors.Join(call(), t.close())
}

// withoutBlocks are the settings of storing in bulk: blocks are built when
// everything is stored, by the same builder, and timed apart.
func withoutBlocks() map[string]string {
	return map[string]string{"blocks.build": "false", "blocks.retrieve": "false"}
}

func (t *ladderTrial) build() error {
	resetPeak()
	if err := t.with(withoutBlocks(), func() error { return t.fill(t.plan.total) }); err != nil {
		return err
	}
	if err := t.with(nil, t.makeBlocks); err != nil {
		return err
	}
	if err := t.derive(); err != nil {
		return err
	}
	t.state.Built, t.state.Peak = true, max(t.state.Peak, peakMemory())
	return t.save()
}

// The most records of one store, and how many are stored between two notes in the
// folder.
const (
	ladderBatch = 500
	ladderNotes = 20_000
)

// fill stores what is not there yet. A batch is there whole or not at all, so
// that the number of records says where to go on.
func (t *ladderTrial) fill(records int) error {
	status, err := t.service.Status(t.ctx)
	if err != nil {
		return err
	}
	next := int(status.Memories)
	progress, done := t.o.Phase(fmt.Sprintf("store %d", records))
	defer done()
	for ; t.state.Counted < min(next, records); t.state.Counted++ {
		t.state.Text += int64(len(t.plan.text(t.state.Counted)))
	}
	start := t.o.Clock()
	note := func() error {
		now := t.o.Clock()
		t.state.Store += now.Sub(start).Seconds()
		start = now
		return t.save()
	}
	for next < records {
		agent := t.plan.agent(next)
		last := min(next+ladderBatch, records, t.plan.end(agent))
		r := coordinator.StoreRequest{Agent: t.plan.scope(next).Agent}
		for i := next; i < last; i++ {
			r.Items = append(r.Items, t.plan.item(i))
		}
		answer, err := t.service.Store(t.ctx, r)
		if err != nil {
			return errors.Join(err, note())
		}
		for i, got := range answer.Results {
			want := memory.Ref{Kind: memory.KindMemory, ID: int64(next+i) + 1}
			if got.Outcome != coordinator.OutcomeStored || got.Ref != want.String() {
				return fmt.Errorf("record %d: %s %s %s", next+i, got.Outcome, got.Ref, got.Error)
			}
			t.state.Text += int64(len(r.Items[i].Content))
		}
		if next/ladderNotes != last/ladderNotes {
			t.state.Counted = last
			if err := note(); err != nil {
				return err
			}
		}
		next = last
		t.state.Counted = last
		progress(int64(next), int64(records))
	}
	return note()
}

// makeBlocks waits until every record has its vectors and blocks.
func (t *ladderTrial) makeBlocks() error {
	progress, done := t.o.Phase("blocks")
	defer done()
	start := t.o.Clock()
	finished := make(chan error, 1)
	go func() { finished <- t.service.Drain(t.ctx) }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var stopped error
	for drained := false; !drained; {
		select {
		case stopped = <-finished:
			drained = true
		case <-tick.C:
			if b, err := t.blocks(); err == nil {
				progress(b.Records, b.Records+b.Waiting)
			}
		}
	}
	t.state.Block += t.o.Clock().Sub(start).Seconds()
	if stopped != nil {
		return errors.Join(stopped, t.save())
	}
	b, err := t.blocks()
	if err == nil && (b.Waiting > 0 || b.Failed > 0 || b.Blocks == 0) {
		err = fmt.Errorf("%d blocks are built, %d records wait, %d failed: %s", b.Blocks, b.Waiting, b.Failed, b.LastError)
	}
	return errors.Join(err, t.save())
}

func (t *ladderTrial) blocks() (coordinator.BlockState, error) {
	status, err := t.service.Status(t.ctx)
	if err != nil {
		return coordinator.BlockState{}, err
	}
	return status.Blocks, nil
}

// derive deletes everything derived and builds it from the file: postings, then
// what the scanner scans.
func (t *ladderTrial) derive() error {
	folder := filepath.Join(t.folder, "derived")
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	start := t.o.Clock()
	if err := t.deriveWords(filepath.Join(folder, "lexical")); err != nil {
		return err
	}
	if err := t.with(nil, t.ready); err != nil {
		return err
	}
	t.state.Derive, t.state.Codes = t.o.Clock().Sub(start).Seconds(), t.scanned()
	return t.save()
}

func (t *ladderTrial) deriveWords(folder string) (err error) {
	_, done := t.o.Phase("words")
	defer done()
	if t.store, err = sqlite.Open(t.ctx, filepath.Join(t.folder, "recall.db"), sqlite.Options{Clock: t.o.Clock}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.store.Close()) }()
	index, err := shards.Open(t.ctx, t.store, shards.Options{Folder: folder})
	if err != nil {
		return err
	}
	for index.State().Building || index.MergeDue() {
		if err := wait(t.ctx); err != nil {
			return errors.Join(err, index.Close())
		}
	}
	return index.Close()
}

// readyPatience is how long the derived side may stand still before it is ready.
const readyPatience = 2 * time.Minute

// ready waits until every cell is answered out of derived files.
func (t *ladderTrial) ready() error {
	progress, done := t.o.Phase("derived")
	defer done()
	var last coordinator.IndexState
	since := t.o.Clock()
	for {
		state, err := t.service.Index(t.ctx, coordinator.IndexStateRequest{})
		if err != nil {
			return err
		}
		w, c := state.Words, state.Codes
		if w.Trouble+c.Trouble != "" {
			return fmt.Errorf("the derived files cannot be built: %s%s", w.Trouble, c.Trouble)
		}
		if !w.Building && (c.Scanner == coordinator.ScannerOff || !c.Building && c.Built == c.Total && c.Lag == 0) {
			return nil
		}
		switch now := t.o.Clock(); {
		case *state != last:
			last, since = *state, now
		case now.Sub(since) > readyPatience:
			return fmt.Errorf("the derived files stand still: %d of %d cells are built, %d changes behind", c.Built, c.Total, c.Lag)
		}
		progress(c.Built, c.Total)
		if err := wait(t.ctx); err != nil {
			return err
		}
	}
}

// resetPeak lets the peak of this process's memory begin anew, where the system
// can (Linux): what building took is not what recalls take.
func resetPeak() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // elsewhere the peak is that of the whole run
}
