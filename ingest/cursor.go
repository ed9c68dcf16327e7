package ingest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"recalld/memory"
)

// Cursor remembers in a file how far an interrupted run came. It is bound to
// one input as it was and to one store.
type Cursor struct {
	path  string
	state cursorState
	saved cursorState // what the file held, when it fits the input and the store
}

type cursorState struct {
	Input   string `json:"input"`
	Size    int64  `json:"size"`
	ModTime int64  `json:"mod_time_ns"`
	Store   string `json:"store"`
	Line    int    `json:"line"`
	Offset  int64  `json:"offset"`
	// Marks are the last numbers that the store had given out before the run
	// began.
	Marks [2]int64 `json:"marks"`
}

// NewCursor names the cursor of an input inside the folder, for a run that
// stores as agent into the store of that truth id. marks are the last numbers of
// memories and episodes that the store has given out.
func NewCursor(folder, truthID, agent, format, path string, marks [2]int64) (*Cursor, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("import cursor: %w", err)
	}
	input := format + " " + agent + " " + absolute
	c := &Cursor{
		path:  filepath.Join(folder, "import-"+memory.Revision(input)[:16]+".json"),
		state: cursorState{Input: input, Store: truthID, Marks: marks},
	}
	if c.state.Size, c.state.ModTime, err = fingerprint(absolute); err != nil {
		return nil, fmt.Errorf("import cursor: %w", err)
	}
	return c, c.find()
}

// fingerprint is the size and the time of change of an input; of a folder, of
// all that it holds.
func fingerprint(path string) (size, changed int64, err error) {
	err = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !d.IsDir() {
			size += info.Size()
		}
		changed = max(changed, info.ModTime().UnixNano())
		return nil
	})
	return size, changed, err
}

// find reads the file, which is passed over when the input or the store is not
// the one that it was made for.
func (c *Cursor) find() error {
	raw, err := os.ReadFile(c.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("import cursor: %w", err)
	}
	var saved cursorState
	if json.Unmarshal(raw, &saved) != nil {
		return nil
	}
	bound := saved
	bound.Line, bound.Offset, bound.Marks = 0, 0, c.state.Marks
	if bound == c.state {
		c.saved, c.state.Marks = saved, saved.Marks
	}
	return nil
}

// Marks are the last numbers of memories and episodes that the store had given
// out before the run began, also when it was interrupted since.
func (c *Cursor) Marks() [2]int64 { return c.state.Marks }

// load returns where to go on, the start when there is nothing to go on from.
func (c *Cursor) load() Position {
	return Position{Line: c.saved.Line, Offset: c.saved.Offset}
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
