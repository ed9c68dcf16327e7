package arm

import (
	"fmt"
	"maps"

	"recalld/memory"
	"recalld/sqlite"
)

// floats is the matrix of a cell's record vectors.
type floats struct {
	key   matrixKey
	rows  rows
	place map[memory.Ref]int // of live rows
}

// rows is a readable state of the vectors. Its slices are only ever appended to
// beyond its own length, so that a reader needs no lock.
type rows struct {
	dims   int
	refs   []memory.Ref
	values []float32 // len(refs) × dims
	dead   map[int]struct{}
}

// bytesPerRow is what one row costs beside its values.
const bytesPerRow = 64

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

// Each calls fn with every vector of the model in the cell as the snapshot has
// it. expect is how many there are by the snapshot's own statistics.
func (m *Matrices) Each(view *sqlite.View, model, cell int64, dims int, expect int64, fn func(ref memory.Ref, vector []float32)) error {
	if size := expect * int64(4*dims+bytesPerRow); size <= m.limit && size > 0 {
		key := matrixKey{recordVectors, model, cell}
		var got rows
		ok, err := m.current(view, key, &floats{key: key, rows: rows{dims: dims}}, func(x matrix) { got = x.(*floats).rows })
		if err != nil {
			return fmt.Errorf("read vectors: %w", err)
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

func (f *floats) follows(x sqlite.Change) bool { return x.Op != sqlite.OpBlocks }

func (f *floats) size() (int, int64) {
	n := len(f.rows.refs)
	return n, int64(n) * int64(4*f.rows.dims+bytesPerRow)
}

func (f *floats) load(view *sqlite.View) error {
	f.place = make(map[memory.Ref]int)
	return view.Vectors(f.key.model, []int64{f.key.cell}, func(ref memory.Ref, _ int64, values []float32) error {
		f.put(ref, values)
		return nil
	})
}

func (f *floats) follow(view *sqlite.View, here map[memory.Ref]bool) error {
	dead := maps.Clone(f.rows.dead)
	if dead == nil {
		dead = make(map[int]struct{})
	}
	var refs []memory.Ref
	for ref, in := range here {
		if i, ok := f.place[ref]; ok {
			dead[i] = struct{}{}
			delete(f.place, ref)
		}
		if in {
			refs = append(refs, ref)
		}
	}
	f.rows.dead = dead
	vectors, err := view.VectorsOf(f.key.model, refs)
	if err != nil {
		return err
	}
	for ref, values := range vectors {
		f.put(ref, values)
	}
	if 4*len(f.rows.dead) > len(f.rows.refs) {
		f.compact()
	}
	return nil
}

func (f *floats) put(ref memory.Ref, values []float32) {
	if len(values) != f.rows.dims {
		return
	}
	f.place[ref] = len(f.rows.refs)
	f.rows.refs = append(f.rows.refs, ref)
	f.rows.values = append(f.rows.values, values...)
}

// compact rewrites the matrix without its dead rows; readers keep the old one.
func (f *floats) compact() {
	old := f.rows
	live := len(old.refs) - len(old.dead)
	f.rows = rows{dims: old.dims, refs: make([]memory.Ref, 0, live), values: make([]float32, 0, live*old.dims)}
	clear(f.place)
	old.each(f.put)
}
