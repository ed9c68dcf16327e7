package arm

import (
	"container/list"
	"fmt"
	"maps"
	"sync"

	"recalld/memory"
	"recalld/sqlite"
)

// Matrices keeps record vectors of recently asked cells in memory, one matrix
// per model and cell, so that a recall does not read them from the file again.
// What a search sees is what SQLite has in the search's snapshot: a matrix
// follows the change log up to that snapshot, and a snapshot that the matrix
// has already passed is read from the file. Its methods may be called
// concurrently.
type Matrices struct {
	limit  int64 // bytes of vectors
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
	model, cell int64
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
	rows        rows
	place       map[memory.Ref]int // of live rows
}

// change says that a record changed and whether it is in the cell since.
type change struct {
	seq  int64
	ref  memory.Ref
	here bool
}

// rows is a readable state of a matrix. Its slices are only ever appended to
// beyond its own length, so that a reader needs no lock.
type rows struct {
	dims   int
	refs   []memory.Ref
	values []float32 // len(refs) × dims
	dead   map[int]struct{}
}

// each calls fn for every live row; the order means nothing.
func (r rows) each(fn func(ref memory.Ref, vector []float32)) {
	for i, ref := range r.refs {
		if len(r.dead) > 0 {
			if _, gone := r.dead[i]; gone {
				continue
			}
		}
		fn(ref, r.values[i*r.dims:(i+1)*r.dims])
	}
}

// bytesPerRow is what one row costs beside its values.
const bytesPerRow = 64

// Each calls fn with every vector of the model in the cell as the snapshot has
// it. expect is how many there are by the snapshot's own statistics.
func (m *Matrices) Each(view *sqlite.View, model, cell int64, dims int, expect int64, fn func(ref memory.Ref, vector []float32)) error {
	if size := expect * int64(4*dims+bytesPerRow); size <= m.limit && size > 0 {
		got, ok, err := m.current(view, matrixKey{model, cell}, dims)
		if err != nil {
			return err
		}
		if ok {
			got.each(fn)
			return nil
		}
	}
	return view.Vectors(model, []int64{cell}, func(ref memory.Ref, _ int64, values []float32) error {
		if len(values) == dims { // RR-399: another width is skipped
			fn(ref, values)
		}
		return nil
	})
}

// current returns the matrix at the snapshot; ok is false when the snapshot is
// older than what the matrix can show.
func (m *Matrices) current(view *sqlite.View, key matrixKey, dims int) (got rows, ok bool, err error) {
	e, ok, err := m.entry(view, key)
	if err != nil || !ok {
		return rows{}, false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	seq := view.Seq()
	switch {
	case !e.loaded && seq < e.since:
		return rows{}, false, nil
	case !e.loaded:
		err = e.load(view, dims)
		m.take(e, seq)
	case seq < e.first:
		return rows{}, false, nil
	case seq > e.last:
		err = e.follow(view, m.take(e, seq))
	}
	if err != nil {
		m.drop(e)
		return rows{}, false, fmt.Errorf("read vectors: %w", err)
	}
	m.account(e, len(e.rows.refs), int64(4*dims+bytesPerRow))
	return e.rows, true, nil
}

// entry finds or makes the entry of a key after taking over the change log up
// to the snapshot. A snapshot older than the log taken over makes none: changes
// between the two would be missed.
func (m *Matrices) entry(view *sqlite.View, key matrixKey) (e *entry, ok bool, err error) {
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
		e = &entry{key: key, since: m.seen}
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
			if m.entries[e.key] != e {
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
func (e *entry) load(view *sqlite.View, dims int) error {
	e.rows = rows{dims: dims}
	e.place = make(map[memory.Ref]int)
	err := view.Vectors(e.key.model, []int64{e.key.cell}, func(ref memory.Ref, _ int64, values []float32) error {
		e.put(ref, values)
		return nil
	})
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
	dead := maps.Clone(e.rows.dead)
	if dead == nil {
		dead = make(map[int]struct{})
	}
	for _, c := range changes {
		here[c.ref] = c.here
		if i, ok := e.place[c.ref]; ok {
			dead[i] = struct{}{}
			delete(e.place, c.ref)
		}
	}
	e.rows.dead = dead
	var refs []memory.Ref
	for ref, in := range here {
		if in {
			refs = append(refs, ref)
		}
	}
	vectors, err := view.VectorsOf(e.key.model, refs)
	if err != nil {
		return err
	}
	for ref, values := range vectors {
		e.put(ref, values)
	}
	if 4*len(e.rows.dead) > len(e.rows.refs) {
		e.compact()
	}
	return nil
}

func (e *entry) put(ref memory.Ref, values []float32) {
	if len(values) != e.rows.dims {
		return
	}
	e.place[ref] = len(e.rows.refs)
	e.rows.refs = append(e.rows.refs, ref)
	e.rows.values = append(e.rows.values, values...)
}

// compact rewrites the matrix without its dead rows; readers keep the old one.
func (e *entry) compact() {
	old := e.rows
	live := len(old.refs) - len(old.dead)
	e.rows = rows{dims: old.dims, refs: make([]memory.Ref, 0, live), values: make([]float32, 0, live*old.dims)}
	clear(e.place)
	old.each(e.put)
}

// account counts the entry's bytes and evicts the longest unused others.
func (m *Matrices) account(e *entry, rows int, perRow int64) {
	size := int64(rows) * perRow
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries[e.key] != e {
		return
	}
	m.bytes += size - e.size
	e.size, e.kept = size, rows
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
