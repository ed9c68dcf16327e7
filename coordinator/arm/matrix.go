package arm

import (
	"container/list"
	"errors"
	"sync"

	"recalld/memory"
	"recalld/sqlite"
)

// Matrices keeps record vectors and block codes of recently asked cells in
// memory, one matrix of each per model and cell, so that a recall does not read
// them from the file again. What a search sees is what SQLite has in the
// search's snapshot: a matrix follows the change log up to that snapshot, and a
// snapshot that the matrix has already passed is read from the file. Its methods
// may be called concurrently.
type Matrices struct {
	limit  int64 // bytes of matrices
	behind int   // changes more than rows that an entry may have to take

	mu      sync.Mutex
	bytes   int64
	entries map[matrixKey]*entry
	recent  *list.List // of *entry, newest use first
	seen    int64      // the change log is taken over up to here
}

// NewMatrices keeps at most limit bytes of vectors; 0 keeps none.
func NewMatrices(limit int64) *Matrices {
	return &Matrices{limit: limit, behind: maxBehind, entries: make(map[matrixKey]*entry), recent: list.New()}
}

type matrixKey struct {
	holds       holding
	model, cell int64
}

// holding says what a matrix has of its cell.
type holding uint8

const (
	recordVectors holding = iota
	blockCodes
)

// matrix is what one entry keeps of its cell. It hands out states that stay
// readable while it takes the next changes.
type matrix interface {
	// load reads the whole cell as the snapshot has it, or refuses with errTooLarge.
	load(view *sqlite.View) error
	// follow reads changed records again, as the snapshot has them; here says
	// which of them are in the cell.
	follow(view *sqlite.View, here map[memory.Ref]bool) error
	// follows reports whether a change of its cell can change what the matrix has.
	follows(x sqlite.Change) bool
	// size returns the rows, live or not, and their bytes.
	size() (rows int, bytes int64)
}

// entry is one matrix and the changes that it has yet to take. mu is taken
// before Matrices.mu.
type entry struct {
	key   matrixKey
	since int64 // pending holds every change after this
	at    *list.Element
	size  int64 // bytes counted; guarded by Matrices.mu

	pending []change // guarded by Matrices.mu, in order of sequence
	kept    int      // rows at the last use; guarded by Matrices.mu

	mu     sync.Mutex
	loaded bool
	// The matrix is what SQLite has in any snapshot from first to last.
	first, last int64
	matrix      matrix
}

// change says that a record changed and whether it is in the cell since.
type change struct {
	seq  int64
	ref  memory.Ref
	here bool
}

// errTooLarge says that a cell alone takes more than all matrices may.
var errTooLarge = errors.New("the cell is too large to keep")

// current lets read take the state of the matrix at the snapshot; empty is what a
// new entry starts with. ok is false when the snapshot is older than what the
// matrix can show, and for a cell that is too large.
func (m *Matrices) current(view *sqlite.View, key matrixKey, empty matrix, read func(matrix)) (ok bool, err error) {
	e, ok, err := m.entry(view, key, empty)
	if err != nil || !ok {
		return false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	seq := view.Seq()
	switch {
	case !e.loaded && seq < e.since:
		return false, nil
	case !e.loaded:
		err = e.load(view)
		m.take(e, seq)
	case seq < e.first:
		return false, nil
	case seq > e.last:
		err = e.follow(view, m.take(e, seq))
	}
	if err != nil {
		m.drop(e)
		if err == errTooLarge {
			err = nil
		}
		return false, err
	}
	read(e.matrix)
	m.account(e)
	return true, nil
}

// entry finds or makes the entry of a key after taking over the change log up
// to the snapshot. A snapshot older than the log taken over makes none: changes
// between the two would be missed.
func (m *Matrices) entry(view *sqlite.View, key matrixKey, empty matrix) (e *entry, ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.advance(view); err != nil {
		return nil, false, err
	}
	e = m.entries[key]
	if e == nil {
		if view.Seq() < m.seen {
			return nil, false, nil
		}
		e = &entry{key: key, since: m.seen, matrix: empty}
		e.at = m.recent.PushFront(e)
		m.entries[key] = e
		return e, true, nil
	}
	m.recent.MoveToFront(e.at)
	return e, true, nil
}

// advance hands every change up to the snapshot to the entries of its cells.
func (m *Matrices) advance(view *sqlite.View) error {
	seq := view.Seq()
	if seq <= m.seen {
		return nil
	}
	if len(m.entries) == 0 {
		m.seen = seq
		return nil
	}
	oldest, err := view.OldestChange()
	if err != nil {
		return err
	}
	if oldest == 0 || oldest > m.seen+1 { // trimmed past us
		m.clear()
		m.seen = seq
		return nil
	}
	cells := make(map[int64][]*entry)
	for _, e := range m.entries {
		cells[e.key.cell] = append(cells[e.key.cell], e)
	}
	note := func(cell int64, c sqlite.Change) {
		for _, e := range cells[cell] {
			if m.entries[e.key] != e || !e.matrix.follows(c) {
				continue
			}
			if len(e.pending) >= e.kept+m.behind {
				m.remove(e)
				continue
			}
			e.pending = append(e.pending, change{seq: c.Seq, ref: c.Ref, here: c.NewCell == cell})
		}
	}
	for m.seen < seq {
		last := m.seen
		err := view.Changes(m.seen, changesPerRead, func(c sqlite.Change) error {
			last = c.Seq
			note(c.NewCell, c)
			if c.OldCell != c.NewCell {
				note(c.OldCell, c)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if last == m.seen {
			break
		}
		m.seen = last
	}
	m.seen = seq
	return nil
}

const changesPerRead = 10_000

// maxBehind is how many changes more than rows an entry may have to take. One
// that nobody asked for so long is dropped, and read anew when it is asked again.
const maxBehind = 1_000

// take removes and returns the entry's changes up to a sequence.
func (m *Matrices) take(e *entry, seq int64) []change {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for n < len(e.pending) && e.pending[n].seq <= seq {
		n++
	}
	taken := e.pending[:n:n]
	e.pending = e.pending[n:]
	return taken
}

// load reads the whole cell.
func (e *entry) load(view *sqlite.View) error {
	err := e.matrix.load(view)
	e.loaded = err == nil
	e.first, e.last = view.Seq(), view.Seq()
	return err
}

// follow reads the changed records again, as the snapshot has them.
func (e *entry) follow(view *sqlite.View, changes []change) error {
	e.last = view.Seq()
	if len(changes) == 0 {
		return nil
	}
	e.first = changes[len(changes)-1].seq
	here := make(map[memory.Ref]bool, len(changes))
	for _, c := range changes {
		here[c.ref] = c.here
	}
	return e.matrix.follow(view, here)
}

// account counts the entry's bytes and evicts the longest unused others.
func (m *Matrices) account(e *entry) {
	rows, size := e.matrix.size()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries[e.key] != e {
		return
	}
	m.bytes += size - e.size
	e.size, e.kept = size, rows
	if size > m.limit {
		m.remove(e)
	}
	for m.bytes > m.limit && m.recent.Len() > 1 {
		m.remove(m.recent.Back().Value.(*entry))
	}
}

func (m *Matrices) drop(e *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries[e.key] == e {
		m.remove(e)
	}
}

func (m *Matrices) remove(e *entry) {
	m.recent.Remove(e.at)
	delete(m.entries, e.key)
	m.bytes -= e.size
}

func (m *Matrices) clear() {
	clear(m.entries)
	m.recent.Init()
	m.bytes = 0
}

// Forget drops everything kept, as after a model's vectors were removed.
func (m *Matrices) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clear()
}
