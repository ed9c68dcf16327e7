package lexical

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"recalld/memory"
)

// Query is one question to the lexical arm.
type Query struct {
	Text  string
	Cells []Cell // the scope; cells without rows are allowed
	Kind  memory.Kind
	K     int // how many hits, 1 to MaxHits
	// Keep, when not nil, says which rows may be hits. It does not change the
	// statistics: rows that are left out of an answer still count.
	Keep    func(memory.Ref) bool
	Explain bool // fill Hit.Matches
}

func (q Query) check() error {
	if q.K < 1 || q.K > MaxHits {
		return &memory.FieldError{Field: "k", Problem: fmt.Sprintf("is %d", q.K), Limit: "1 to " + strconv.Itoa(MaxHits), Next: "ask for fewer rows"}
	}
	if q.Kind != memory.KindEpisode && q.Kind != memory.KindMemory {
		return &memory.FieldError{Field: "kind", Problem: fmt.Sprintf("is %d", q.Kind), Limit: "ep or mem", Next: "ask for episodes and memories apart"}
	}
	return nil
}

// Index is the lexical index of a store: sealed files, the rows that came since,
// and the rows of the files that are gone. A change is seen by every search that
// begins after it. Its methods may be called concurrently; changes exclude each
// other and searches.
type Index struct {
	mu     sync.RWMutex
	files  []*File
	recent map[place]*recent // only places that changed since they were sealed
	words  *Analyser         // of all tables in recent
	ids    []TermID          // scratch

	viewMu sync.Mutex
	views  map[place]*view // of places with more than one source
}

// recent is what happened to one place since its files were sealed.
type recent struct {
	table *Table                    // nil: no new rows
	dead  map[*File]*roaring.Bitmap // deleted ordinals of its partitions
}

// NewIndex returns an index over sealed files. No record may be in two of them.
func NewIndex(files ...*File) *Index {
	return &Index{
		files:  slices.Clone(files),
		recent: make(map[place]*recent),
		words:  NewAnalyser(),
		views:  make(map[place]*view),
	}
}

// Put adds rows, each in place of the row of the same record in the same cell if
// there is one. A record that moved to another cell is deleted from the old one
// by its caller.
func (x *Index) Put(docs ...Doc) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, d := range docs {
		if d.Ref.ID < 1 || d.Ref.ID > maxID {
			return &memory.FieldError{Field: "ref", Problem: "is " + d.Ref.String(), Limit: "ids from 1 to 2^56-1", Next: "take refs from the store"}
		}
	}
	touched := make(map[*Table]bool)
	for _, d := range docs {
		at := place{d.Cell, d.Ref.Kind}
		if err := x.bury(at, d.Ref.ID); err != nil {
			return fmt.Errorf("put %s: %w", d.Ref, err)
		}
		r := x.recentAt(at)
		if r.table == nil {
			r.table = newTable(x.words)
		}
		x.ids = r.table.put(d, x.ids)
		touched[r.table] = true
	}
	for t := range touched {
		t.settle()
	}
	return nil
}

// Delete takes records out of a cell. Unknown ones are no error. The words of a
// deleted row stay in the bytes of the file it was sealed in, where no search
// reads them, until [Index.Merge] writes the file anew.
func (x *Index) Delete(cell Cell, refs ...memory.Ref) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, ref := range refs {
		at := place{cell, ref.Kind}
		if err := x.bury(at, ref.ID); err != nil {
			return fmt.Errorf("delete %s: %w", ref, err)
		}
		if r := x.recent[at]; r != nil && r.table != nil && r.table.remove(ref.ID) {
			delete(x.views, at)
			r.table.settle()
		}
	}
	return nil
}

// bury marks the sealed row of a record as deleted if there is one, and forgets
// how the place looked.
func (x *Index) bury(at place, id int64) error {
	delete(x.views, at)
	for _, f := range x.files {
		p, err := f.partition(at)
		if err != nil {
			return err
		}
		if p == nil {
			continue
		}
		row, ok := p.find(id)
		if !ok {
			continue
		}
		r := x.recentAt(at)
		if r.dead == nil {
			r.dead = make(map[*File]*roaring.Bitmap)
		}
		if r.dead[f] == nil {
			r.dead[f] = roaring.New()
		}
		r.dead[f].Add(uint32(row))
	}
	return nil
}

func (x *Index) recentAt(at place) *recent {
	r := x.recent[at]
	if r == nil {
		r = &recent{}
		x.recent[at] = r
	}
	return r
}

// Recent returns how many rows are in memory and how many sealed ones are
// deleted, for the caller to decide when to merge.
func (x *Index) Recent() (rows, deleted int64) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, r := range x.recent {
		if r.table != nil {
			rows += int64(r.table.Rows())
		}
		for _, d := range r.dead {
			deleted += int64(d.GetCardinality())
		}
	}
	return rows, deleted
}

// Search ranks the rows of the query's cells. The answer depends on the live
// rows of those cells alone: on no other cell, and not on how the rows are cut
// into files, memory and deletions. Errors: a *[memory.FieldError], the
// context's error, or [ErrCorrupt].
func (x *Index) Search(ctx context.Context, q Query) (Result, error) {
	if err := q.check(); err != nil {
		return Result{}, err
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	terms, truncated := Terms(q.Text)
	s := search{kind: q.Kind, terms: terms, keep: q.Keep, top: top{k: q.K}}
	cells := slices.Clone(q.Cells)
	slices.Sort(cells)
	for _, c := range slices.Compact(cells) {
		v, err := x.view(place{c, q.Kind})
		if err != nil {
			return Result{}, err
		}
		if v != nil && v.rows > 0 {
			s.views = append(s.views, *v)
		}
	}
	res, err := s.run(ctx, q.Explain)
	res.QueryTruncated = truncated
	return res, err
}

// view returns the live rows of a place; nil when it has never had any.
func (x *Index) view(at place) (*view, error) {
	x.viewMu.Lock()
	v := x.views[at]
	x.viewMu.Unlock()
	if v != nil {
		return v, nil
	}
	v, err := x.newView(at, x.files, true)
	if err != nil || v == nil {
		return nil, err
	}
	if len(v.sources) > 1 || v.dead[0] != nil {
		x.viewMu.Lock()
		x.views[at] = v
		x.viewMu.Unlock()
	}
	return v, nil
}

// newView gathers a place's live rows from some of the files and, with table,
// from memory.
func (x *Index) newView(at place, files []*File, table bool) (*view, error) {
	var sources []source
	var dead []*roaring.Bitmap
	r := x.recent[at]
	for _, f := range files {
		p, err := f.partition(at)
		if err != nil {
			return nil, err
		}
		if p == nil {
			continue
		}
		sources = append(sources, p)
		var gone *roaring.Bitmap
		if r != nil {
			gone = r.dead[f]
		}
		dead = append(dead, gone)
	}
	if table && r != nil && r.table != nil && r.table.Rows() > 0 {
		sources = append(sources, r.table)
		dead = append(dead, nil)
	}
	if len(sources) == 0 {
		return nil, nil
	}
	return &view{sequence: newSequence(sources, dead), dead: dead}, nil
}

// Merge writes the live rows of some files, and with recent those in memory, as
// one new file. The same live rows give the same bytes. A cell that has one
// source and no deletions is copied, not coded again.
func (x *Index) Merge(files []*File, recent bool) ([]byte, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	places := make(map[place]bool)
	for _, f := range files {
		for i := range f.count {
			places[f.place(i)] = true
		}
	}
	if recent {
		for at, r := range x.recent {
			if r.table != nil {
				places[at] = true
			}
		}
	}
	var parts []part
	for at := range places {
		v, err := x.newView(at, files, recent)
		if err != nil {
			return nil, fmt.Errorf("merge postings: %w", err)
		}
		if v == nil || v.rows == 0 {
			continue
		}
		b, err := x.partBytes(at, files, v)
		if err != nil {
			return nil, fmt.Errorf("merge postings of cell %d: %w", at.cell, err)
		}
		parts = append(parts, part{at, b, v.rows})
	}
	return join(parts), nil
}

// partBytes returns the bytes of one merged partition.
func (x *Index) partBytes(at place, files []*File, v *view) ([]byte, error) {
	if _, sealed := v.sources[0].(*Partition); sealed && len(v.sources) == 1 && (v.dead[0] == nil || v.dead[0].IsEmpty()) {
		for _, f := range files {
			if i, ok := f.find(at); ok {
				return f.partitionBytes(i), nil
			}
		}
	}
	return encode(at.kind, *v)
}

// Replace publishes a merged file: it takes the place of the files, and with
// recent of the rows in memory, that [Index.Merge] wrote it from. The caller
// makes no change between the two.
func (x *Index) Replace(files []*File, recent bool, by *File) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, f := range files {
		if !slices.Contains(x.files, f) {
			return errors.New("replace postings: a file is not in the index")
		}
	}
	x.files = slices.DeleteFunc(slices.Clone(x.files), func(f *File) bool { return slices.Contains(files, f) })
	if by != nil {
		x.files = append(x.files, by)
	}
	for at, r := range x.recent {
		for _, f := range files {
			delete(r.dead, f)
		}
		if recent {
			r.table = nil
		}
		if r.table == nil && len(r.dead) == 0 {
			delete(x.recent, at)
		}
	}
	if recent {
		x.words = NewAnalyser()
	}
	clear(x.views)
	return nil
}

// Scan ranks rows that it reads directly, without an index. Its answer is the
// one that an [Index] over the same rows gives. Rows that are not in the query's
// cells or of another kind are passed over. Of the words it keeps the query's
// alone.
func Scan(ctx context.Context, docs iter.Seq2[Doc, error], q Query) (Result, error) {
	if err := q.check(); err != nil {
		return Result{}, err
	}
	terms, truncated := Terms(q.Text)
	only := append([]QueryTerm{}, terms...)
	words := NewAnalyser()
	tables := make(map[Cell]*Table)
	var scratch []TermID
	for d, err := range docs {
		if err != nil {
			return Result{}, err
		}
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
		if d.Ref.Kind != q.Kind || !slices.Contains(q.Cells, d.Cell) {
			continue
		}
		t := tables[d.Cell]
		if t == nil {
			t = newTable(words)
			t.only = only
			tables[d.Cell] = t
		}
		scratch = t.put(d, scratch)
	}
	s := search{kind: q.Kind, terms: terms, keep: q.Keep, top: top{k: q.K}}
	cells := slices.Clone(q.Cells)
	slices.Sort(cells)
	for _, c := range slices.Compact(cells) {
		if t := tables[c]; t != nil {
			t.settle()
			none := []*roaring.Bitmap{nil}
			s.views = append(s.views, view{newSequence([]source{t}, none), none})
		}
	}
	res, err := s.run(ctx, q.Explain)
	res.QueryTruncated = truncated
	return res, err
}
