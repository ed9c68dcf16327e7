package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"recalld/memory"
)

// Outcome is what a sink says of one item.
type Outcome struct {
	Word string // stored, versioned, skipped, rejected
	Err  string // rejected only
}

// Sink stores items of one agent durably and answers one outcome per item, in
// order.
type Sink func(ctx context.Context, agent string, items []Item) ([]Outcome, error)

// Options of [Run].
type Options struct {
	Agent    string       // of items that name none; required when an item names none
	Batch    int          // items per call of the sink; 0 for 256
	DryRun   bool         // read and check, store nothing
	Cursor   *Cursor      // where an interrupted run goes on; nil for none
	Progress func(Report) // after every batch; may be nil
}

// Report counts what a run did. Read = Stored + Versioned + Skipped + Rejected.
type Report struct {
	Read      int         `json:"read"`
	Stored    int         `json:"stored"`
	Versioned int         `json:"versioned"`
	Skipped   int         `json:"skipped"`       // already there
	Rejected  int         `json:"rejected"`      // bad lines
	Bad       []LineError `json:"bad,omitempty"` // the first MaxBadListed of them
	DryRun    bool        `json:"dry_run,omitempty"`
	Resumed   int         `json:"resumed_after_line,omitempty"` // lines that an interrupted run had finished
	Bytes     int64       `json:"bytes"`
	Size      int64       `json:"size"`
}

// MaxBadListed bounds the list of bad lines; the count goes on.
const MaxBadListed = 100

func (r *Report) reject(line int, problem string) {
	r.Rejected++
	if len(r.Bad) < MaxBadListed {
		r.Bad = append(r.Bad, LineError{Line: line, Err: problem})
	}
}

func (r *Report) count(o Outcome, line int) {
	switch o.Word {
	case "stored":
		r.Stored++
	case "versioned":
		r.Versioned++
	case "skipped":
		r.Skipped++
	default:
		r.reject(line, o.Err)
	}
}

// maxBatchBytes is how many bytes of lines one call of the sink gets, unless one
// line alone is longer.
const maxBatchBytes = 8 << 20

// Run moves a whole input into the sink. Storing the same input twice skips
// everything; an interrupted run with a cursor goes on after its last batch.
func Run(ctx context.Context, in *Reader, sink Sink, o Options) (Report, error) {
	report := Report{DryRun: o.DryRun, Size: in.Size()}
	if o.Batch == 0 {
		o.Batch = 256
	}
	if o.Cursor != nil && !o.DryRun {
		at, err := o.Cursor.load()
		if err != nil {
			return report, err
		}
		if err := in.SkipTo(at); err != nil {
			return report, err
		}
		report.Resumed, report.Bytes = at.Line, at.Offset
	}
	var batch []Item
	var lines []int
	var size int64 // bytes of the batch's lines
	flush := func(at Position) error {
		report.Bytes = at.Offset
		if len(batch) > 0 && !o.DryRun {
			outcomes, err := sink(ctx, batch[0].Agent, batch)
			if err != nil {
				return fmt.Errorf("store lines %d to %d: %w", lines[0], lines[len(lines)-1], err)
			}
			for i, outcome := range outcomes {
				report.count(outcome, lines[i])
			}
			if o.Cursor != nil {
				if err := o.Cursor.save(at); err != nil {
					return err
				}
			}
		}
		batch, lines, size = batch[:0], lines[:0], 0
		if o.Progress != nil {
			o.Progress(report)
		}
		return nil
	}
	last := in.at
	for {
		if err := ctx.Err(); err != nil {
			return report, err
		}
		item, at, err := in.Next()
		var refused *LineError
		switch {
		case errors.Is(err, io.EOF):
			if err := flush(at); err != nil {
				return report, err
			}
			if o.Cursor != nil && !o.DryRun {
				return report, o.Cursor.remove()
			}
			return report, nil
		case errors.As(err, &refused):
			report.Read++
			report.reject(refused.Line, refused.Err)
			last = at
			continue
		case err != nil:
			return report, fmt.Errorf("read line %d: %w", at.Line, err)
		}
		report.Read++
		if err := settleAgent(&item, o.Agent); err != nil {
			report.reject(at.Line, err.Error())
			last = at
			continue
		}
		if len(batch) > 0 && (len(batch) >= o.Batch || size+at.Offset-last.Offset > maxBatchBytes || batch[0].Agent != item.Agent) {
			if err := flush(last); err != nil {
				return report, err
			}
		}
		size += at.Offset - last.Offset
		batch, lines, last = append(batch, item), append(lines, at.Line), at
	}
}

// settleAgent fills in the run's agent, and refuses an item of another one.
func settleAgent(item *Item, agent string) error {
	switch {
	case item.Agent == "" && agent == "":
		return &memory.FieldError{Field: "agent", Problem: "is not given", Next: "name it with --agent or in the line"}
	case item.Agent == "":
		item.Agent = agent
	case agent != "" && item.Agent != agent:
		return &memory.FieldError{Field: "agent", Problem: memory.Shape(item.Agent) + " is not the agent of this import", Next: "leave --agent out to keep the agents of the file"}
	}
	return nil
}

// Cursor remembers in a file how far an interrupted run came. It is bound to
// one input as it was and to one store.
type Cursor struct {
	path  string
	state cursorState
}

type cursorState struct {
	Input   string `json:"input"`
	Size    int64  `json:"size"`
	ModTime int64  `json:"mod_time_ns"`
	Store   string `json:"store"`
	Line    int    `json:"line"`
	Offset  int64  `json:"offset"`
}

// NewCursor names the cursor of an input inside the folder, for a run that
// stores as agent into the store of that truth id.
func NewCursor(folder, truthID, agent, format, path string) (*Cursor, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("import cursor: %w", err)
	}
	info, err := os.Stat(absolute)
	if err != nil {
		return nil, fmt.Errorf("import cursor: %w", err)
	}
	input := format + " " + agent + " " + absolute
	return &Cursor{
		path:  filepath.Join(folder, "import-"+memory.Revision(input)[:16]+".json"),
		state: cursorState{Input: input, Size: info.Size(), ModTime: info.ModTime().UnixNano(), Store: truthID},
	}, nil
}

// load returns where to go on: the start when there is no cursor, or when the
// input or the store is not the one it was made for.
func (c *Cursor) load() (Position, error) {
	raw, err := os.ReadFile(c.path)
	if errors.Is(err, os.ErrNotExist) {
		return Position{}, nil
	}
	if err != nil {
		return Position{}, fmt.Errorf("import cursor: %w", err)
	}
	var saved cursorState
	if json.Unmarshal(raw, &saved) != nil {
		return Position{}, nil
	}
	at := Position{Line: saved.Line, Offset: saved.Offset}
	saved.Line, saved.Offset = 0, 0
	if saved != c.state {
		return Position{}, nil
	}
	return at, nil
}

func (c *Cursor) save(at Position) error {
	state := c.state
	state.Line, state.Offset = at.Line, at.Offset
	raw, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("import cursor: %w", err)
	}
	temporary := c.path + ".new"
	if err := os.WriteFile(temporary, raw, 0o600); err != nil {
		return fmt.Errorf("import cursor: %w", err)
	}
	if err := os.Rename(temporary, c.path); err != nil {
		return fmt.Errorf("import cursor: %w", err)
	}
	return nil
}

func (c *Cursor) remove() error {
	if err := os.Remove(c.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("import cursor: %w", err)
	}
	return nil
}
