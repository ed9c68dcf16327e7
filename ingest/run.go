package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"recalld/memory"
)

// Outcome is what a sink says of one item.
type Outcome struct {
	Word  string // stored, versioned, skipped, rejected
	Err   string // rejected only
	Ref   string // of the record: the new one, or the one that was there already
	Embed string // what became of its vector: kept, or another word
}

// EmbedKept is the word for a vector that was taken over.
const EmbedKept = "kept"

// Sink stores items of one agent durably and answers one outcome per item, in
// order. In a dry run it stores nothing and answers what would become of them.
type Sink func(ctx context.Context, agent string, items []Item) ([]Outcome, error)

// Options of [Run].
type Options struct {
	Agent    string       // of items that name none; required when an item names none
	Project  string       // of items that name none; empty: the global pool
	Batch    int          // items that the sink is asked to store before the cursor moves; 0 for 256
	DryRun   bool         // the sink stores nothing
	Dims     int          // of the configured model's vectors, for a dry run's estimate; 0 for not known
	Cursor   *Cursor      // where an interrupted run goes on; nil for none
	Progress func(Report) // after every batch; may be nil
	// Renumbered is told of every record that has another number here than it
	// brought along; it may be nil.
	Renumbered func(from, to string) error
}

// Report counts what a run did. Read = Stored + Versioned + Skipped + Rejected.
type Report struct {
	Read      int         `json:"read"`
	Stored    int         `json:"stored"`
	Versioned int         `json:"versioned"`
	Skipped   int         `json:"skipped"`       // already there
	Rejected  int         `json:"rejected"`      // bad lines
	Bad       []LineError `json:"bad,omitempty"` // the first MaxBadListed of them, in the input's order
	DryRun    bool        `json:"dry_run,omitempty"`
	Resumed   int         `json:"resumed_after_line,omitempty"` // lines that an interrupted run had finished
	Bytes     int64       `json:"bytes"`
	Size      int64       `json:"size"`
	IDs       *IDs        `json:"ids,omitempty"`      // of records that brought a number along
	Vectors   []Vectors   `json:"vectors,omitempty"`  // of records that brought a vector along, by model and dimension
	Left      []Left      `json:"left,omitempty"`     // what the input has beside records
	Estimate  *Estimate   `json:"estimate,omitempty"` // of a dry run
}

// Estimate says what storing would take.
type Estimate struct {
	Texts     int     `json:"texts"`      // that the model would embed
	DiskBytes int64   `json:"disk_bytes"` // about
	Minutes   float64 `json:"minutes"`    // until everything is embedded, about
}

// What a record takes on disk beside its text and its vector, and how many times
// its text is there with the indexes of words and trigrams: about, and rather too
// much than too little.
const (
	recordBytes = 700
	textTimes   = 4
)

// add counts an item that would be stored.
func (e *Estimate) add(item *Item, embedded bool, dims int) {
	if embedded {
		e.Texts++
	} else {
		dims = item.Kept.dims()
	}
	e.DiskBytes += int64(recordBytes + textTimes*(len(item.Content)+len(item.Summary)) + len(item.Metadata) + 4*dims)
}

// IDs counts the records that brought a number along: Kept have it here too, the
// others have another one.
type IDs struct {
	Kept       int `json:"kept"`
	Renumbered int `json:"renumbered"`
}

// Vectors counts the records that came with a vector of one model.
type Vectors struct {
	Model   string `json:"model"` // as its writer said; "" for not known
	Dims    int    `json:"dims"`
	Records int    `json:"records"` // stored or versioned
	Kept    int    `json:"kept"`    // the others are embedded anew
}

// MaxBadListed bounds the list of bad lines; the count goes on.
const MaxBadListed = 100

// reject counts a refused line. One with the error of the line listed before it
// is counted there.
func (r *Report) reject(at Position, problem string) {
	r.Rejected++
	if n := len(r.Bad); n > 0 && r.Bad[n-1].Err == problem && r.Bad[n-1].Where == at.Where {
		last := &r.Bad[n-1]
		last.Last, last.Count = at.Line, max(last.Count, 1)+1
		return
	}
	if len(r.Bad) < MaxBadListed {
		r.Bad = append(r.Bad, LineError{Line: at.Line, Where: at.Where, Err: problem})
	}
}

// maxBatchBytes is how many bytes of items one call of the sink gets, unless one
// item alone is longer.
const maxBatchBytes = 8 << 20

// Run moves a whole input into the sink. Storing the same input twice skips
// everything; an interrupted run with a cursor goes on after its last batch.
func Run(ctx context.Context, in *Reader, sink Sink, o Options) (Report, error) {
	if o.Batch == 0 {
		o.Batch = 256
	}
	if o.DryRun {
		o.Cursor = nil
	}
	r := run{in: in, sink: sink, o: o, report: Report{DryRun: o.DryRun, Size: in.Size()}}
	if o.DryRun {
		r.seen, r.report.Estimate = repeats{}, &Estimate{}
	}
	if err := r.resume(); err != nil {
		return r.report, err
	}
	err := r.all(ctx)
	r.report.Left = in.Left()
	return r.report, err
}

// run is one run under way.
type run struct {
	in     *Reader
	sink   Sink
	o      Options
	report Report
	seen   repeats // of a dry run
	batch  []placed
	size   int      // bytes of the batch's items
	last   Position // of the item read before
}

// placed is an item, or the reason why there is none, and where it stands.
type placed struct {
	item    Item
	at      Position
	refused string
	outcome Outcome
}

func (r *run) resume() error {
	if r.o.Cursor == nil {
		return nil
	}
	at := r.o.Cursor.load()
	if at == (Position{}) {
		return nil
	}
	if err := r.in.SkipTo(at); err != nil {
		return err
	}
	r.report.Resumed, r.report.Bytes, r.last = at.Line, at.Offset, at
	return nil
}

func (r *run) all(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		item, at, err := r.in.Next()
		var refused *LineError
		next := placed{item: item, at: at}
		switch {
		case errors.Is(err, io.EOF):
			if err := r.flush(ctx, at); err != nil || r.o.Cursor == nil {
				return err
			}
			return r.o.Cursor.remove()
		case errors.As(err, &refused):
			next.refused = refused.Err
		case err != nil:
			return fmt.Errorf("read line %d: %w", at.Line, err)
		default:
			if err := r.settle(&next.item); err != nil {
				next.refused = err.Error()
			}
		}
		if len(r.batch) > 0 && (len(r.batch) >= r.o.Batch || r.size+next.item.size() > maxBatchBytes) {
			if err := r.flush(ctx, r.last); err != nil {
				return err
			}
		}
		r.batch, r.size, r.last = append(r.batch, next), r.size+next.item.size(), at
	}
}

// flush hands the batch to the sink, agent by agent, and counts what became of
// it in the input's order. Nothing is counted of a batch that failed.
func (r *run) flush(ctx context.Context, at Position) error {
	var agents []string
	of := map[string][]*placed{}
	for i := range r.batch {
		p := &r.batch[i]
		switch {
		case p.refused != "":
			p.outcome = Outcome{Word: "rejected", Err: p.refused}
			continue
		case r.seen != nil && r.seen.repeated(&p.item):
			p.outcome = Outcome{Word: "skipped"}
			continue
		case of[p.item.Agent] == nil:
			agents = append(agents, p.item.Agent)
		}
		of[p.item.Agent] = append(of[p.item.Agent], p)
	}
	for _, agent := range agents {
		items := make([]Item, len(of[agent]))
		for i, p := range of[agent] {
			items[i] = p.item
		}
		outcomes, err := r.sink(ctx, agent, items)
		if err == nil && len(outcomes) != len(items) {
			err = fmt.Errorf("%d outcomes for %d items", len(outcomes), len(items))
		}
		if err != nil {
			return fmt.Errorf("store lines %d to %d: %w", of[agent][0].at.Line, of[agent][len(items)-1].at.Line, err)
		}
		for i, p := range of[agent] {
			p.outcome = outcomes[i]
		}
	}
	for i := range r.batch {
		if err := r.count(&r.batch[i]); err != nil {
			return err
		}
	}
	r.report.Bytes = max(r.report.Bytes, at.Offset)
	if r.o.Cursor != nil && len(r.batch) > 0 {
		if err := r.o.Cursor.save(at); err != nil {
			return err
		}
	}
	r.batch, r.size = r.batch[:0], 0
	if r.o.Progress != nil {
		r.o.Progress(r.report)
	}
	return nil
}

func (r *run) count(p *placed) error {
	r.report.Read++
	switch p.outcome.Word {
	case "stored":
		r.report.Stored++
	case "versioned":
		r.report.Versioned++
	case "skipped":
		r.report.Skipped++
	default:
		r.report.reject(p.at, p.outcome.Err)
		return nil
	}
	if e := r.report.Estimate; e != nil && p.outcome.Word != "skipped" && p.item.Type != TypeProfile {
		e.add(&p.item, p.outcome.Embed != EmbedKept, r.o.Dims)
	}
	return r.countKept(p)
}

// countKept counts what became of the number and the vector that an item brought
// along.
func (r *run) countKept(p *placed) error {
	kept := p.item.Kept
	if kept == nil {
		return nil
	}
	if kept.Vector != "" && p.outcome.Word != "skipped" {
		v := r.report.vectors(kept.Model, kept.dims())
		v.Records++
		if p.outcome.Embed == EmbedKept {
			v.Kept++
		}
	}
	if kept.ID == 0 || p.outcome.Ref == "" {
		return nil
	}
	if r.report.IDs == nil {
		r.report.IDs = &IDs{}
	}
	kind := memory.KindMemory
	if p.item.Type == TypeEpisode {
		kind = memory.KindEpisode
	}
	from := memory.Ref{Kind: kind, ID: kept.ID}.String()
	if from == p.outcome.Ref {
		r.report.IDs.Kept++
		return nil
	}
	r.report.IDs.Renumbered++
	if r.o.Renumbered == nil {
		return nil
	}
	return r.o.Renumbered(from, p.outcome.Ref)
}

// vectors returns the counts of one model, in the order in which they came up.
func (r *Report) vectors(model string, dims int) *Vectors {
	for i := range r.Vectors {
		if r.Vectors[i].Model == model && r.Vectors[i].Dims == dims {
			return &r.Vectors[i]
		}
	}
	r.Vectors = append(r.Vectors, Vectors{Model: model, Dims: dims})
	return &r.Vectors[len(r.Vectors)-1]
}

// settle fills in the run's agent and project, and refuses an item of another
// agent.
func (r *run) settle(item *Item) error {
	if item.Project == "" && item.Type != TypeProfile {
		item.Project = r.o.Project
	}
	switch agent := r.o.Agent; {
	case item.Agent == "" && agent == "":
		return &memory.FieldError{Field: "agent", Problem: "is not given", Next: "name it with --agent or in the line"}
	case item.Agent == "":
		item.Agent = agent
	case agent != "" && item.Agent != agent:
		return &memory.FieldError{Field: "agent", Problem: memory.Shape(item.Agent) + " is not the agent of this import", Next: "leave --agent out to keep the agents of the file"}
	}
	return nil
}
