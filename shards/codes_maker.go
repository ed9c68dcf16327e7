package shards

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"recalld/layout"
	"recalld/memory"
	"recalld/sqlite"
)

// maker makes the next generation, beside the one in use. It works with
// Codes.work held; nothing of what it makes is seen before [Codes.commit].
type maker struct {
	c     *Codes
	ctx   context.Context
	epoch int
	dir   string // of the files that it makes, and reads
	next  catalog
	seen  int64 // the newest snapshot that it read rows in
	// covers reports whether rows of a record are to be taken from the log; nil: all
	// of those that keeps admits.
	covers func(model int64, kind layout.Kind, r sealedRow) bool
	// What the directory knew when it was asked last.
	ids     []int64
	cells   []layout.Cell
	refused map[uint64]bool

	made   []string // files that it wrote
	report CompactReport
}

// newMaker begins with the generation in use. c.work is held.
func (c *Codes) newMaker(ctx context.Context) (*maker, error) {
	if err := c.mu.lock(ctx); err != nil {
		return nil, err
	}
	defer c.mu.unlock()
	if c.closed {
		return nil, errClosed
	}
	c.lost = nil
	m := &maker{c: c, ctx: ctx, epoch: c.epoch, dir: c.opts.Folder, next: c.catalog.clone()}
	m.know()
	return m, nil
}

// know takes over the directory; c.mu is held. Its lists are only appended to.
func (m *maker) know() {
	d := m.c.names
	m.ids, m.cells, m.refused = d.ids, d.cells, maps.Clone(d.refused)
}

// learn brings the directory up to a snapshot.
func (m *maker) learn(view *sqlite.View) error {
	if err := m.c.mu.lock(m.ctx); err != nil {
		return err
	}
	defer m.c.mu.unlock()
	err := m.c.names.extend(view)
	m.know()
	return err
}

func (m *maker) cell(id int64) (c layout.Cell, ok bool) {
	i, ok := slices.BinarySearch(m.ids, id)
	if !ok {
		return c, false
	}
	return m.cells[i], true
}

// keeps reports whether rows of an agent belong into files now.
func (m *maker) keeps(agent uint64) bool {
	return !m.refused[agent] && !m.next.Missing.contains(agent)
}

// view opens a snapshot.
func (m *maker) view() (*sqlite.View, error) {
	view, err := m.c.store.ViewRecords(m.ctx)
	if err == nil {
		m.seen = max(m.seen, view.Seq())
	}
	return view, err
}

// viewBytes is how much is read in one snapshot.
const viewBytes = 8 << 20

// pages opens a new snapshot whenever enough was read in the one before.
type pages struct {
	m    *maker
	view *sqlite.View
	left int
}

func (p *pages) page() (*sqlite.View, error) {
	if p.view != nil && p.left > 0 {
		return p.view, nil
	}
	if err := p.close(); err != nil {
		return nil, err
	}
	view, err := p.m.view()
	if err != nil {
		return nil, err
	}
	p.view, p.left = view, viewBytes
	return view, nil
}

// spent notes that so many bytes were read; a call alone costs as well.
func (p *pages) spent(bytes int) { p.left -= bytes + 4096 }

func (p *pages) close() error {
	if p.view == nil {
		return nil
	}
	err := p.view.Close()
	p.view = nil
	return err
}

// draft begins the rows of one model and kind.
func (m *maker) draft(model codedModel, kind layout.Kind, run uint64) *draft {
	return &draft{
		dir: m.dir, run: run, maxSegment: m.c.segmentBytes, maxValues: m.c.valueBytes,
		spec: layout.Spec{Source: m.next.source(model), Kind: kind, Lean: m.next.Lean, Sequence: m.next.Sequence, Lineage: m.next.Lineage},
		number: func() uint32 {
			m.next.NextFile++
			return m.next.NextFile
		},
	}
}

// run is the number of the next run.
func (m *maker) run() uint64 {
	m.next.NextRun++
	return m.next.NextRun
}

// take makes what a draft wrote a part of the next generation, or removes it.
func (m *maker) take(d *draft, err error) error {
	if err == nil {
		err = d.finish()
	}
	m.made = append(m.made, d.names()...)
	if err != nil {
		return errors.Join(err, d.abandon())
	}
	m.next.Segments = append(m.next.Segments, d.segments...)
	m.next.Values = append(m.next.Values, d.files...)
	return nil
}

// abandon removes what was made.
func (m *maker) abandon() error {
	var all error
	named := m.c.current().names()
	for _, name := range m.made {
		if !named[name] {
			all = errors.Join(all, removeName(m.dir, name))
		}
	}
	return all
}

// segment opens a segment of the next generation.
func (m *maker) segment(e segmentEntry) (*layout.Segment, error) {
	model, ok := m.next.model(e.Model)
	if !ok {
		return nil, fmt.Errorf("%s is of model %d, which is not in the catalog", e.Name, e.Model)
	}
	s, err := layout.OpenSegment(m.dir, e.Name, m.next.source(model))
	return s, inFile(e.Name, err)
}

// inSegment reads a segment of the next generation. Whatever goes wrong with it
// names the file.
func (m *maker) inSegment(e segmentEntry, read func(*layout.Segment) error) error {
	s, err := m.segment(e)
	if err != nil {
		return err
	}
	err = layout.Guard(func() error {
		if err := s.Intact(); err != nil {
			return err
		}
		return read(s)
	})
	return errors.Join(inFile(e.Name, err), s.Close())
}

// badFile names a file that cannot be used.
type badFile struct {
	name string
	err  error
}

func (e *badFile) Error() string { return e.name + ": " + e.err.Error() }
func (e *badFile) Unwrap() error { return e.err }

// inFile names the file of an error of package layout, unless one is named
// already, and leaves others alone.
func inFile(name string, err error) error {
	var named *badFile
	if err == nil || errors.As(err, &named) || !unusableFile(err) {
		return err
	}
	return &badFile{name, err}
}

// decodeDead returns the rows of a segment that are gone.
func decodeDead(e segmentEntry) (*roaring.Bitmap, error) {
	dead := roaring.New()
	if len(e.Dead) == 0 {
		return dead, nil
	}
	if err := dead.UnmarshalBinary(e.Dead); err != nil {
		return nil, fmt.Errorf("dead rows of %s: %w", e.Name, err)
	}
	return dead, dead.Validate()
}

func (e *segmentEntry) setDead(dead *roaring.Bitmap) error {
	e.Gone = int64(dead.GetCardinality())
	if dead.IsEmpty() {
		e.Dead, e.Gone = nil, 0
		return nil
	}
	var b bytes.Buffer
	_, err := dead.WriteTo(&b)
	e.Dead = b.Bytes()
	return err
}

// tomb is a record whose rows in files are of no use any more.
type tomb struct {
	ref     memory.Ref
	cells   []layout.Cell
	lost    bool // it was in a cell that nobody knows any more: it may be anywhere
	blocks  func(model int64) bool
	vectors func(model int64) bool
	erased  bool
}

// bury marks the rows of records as dead in the first n segments of the next
// generation.
func (m *maker) bury(tombs []tomb, n int) error {
	if slices.ContainsFunc(tombs, func(t tomb) bool { return t.erased }) {
		for i, v := range m.next.Values {
			m.next.Values[i].Erase = v.Erase || v.Loose
		}
	}
	for i := range m.next.Segments[:n] {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		e := m.next.Segments[i]
		dead, err := decodeDead(e)
		if err != nil {
			return err
		}
		before, erase := dead.GetCardinality(), e.Erase
		err = m.inSegment(e, func(s *layout.Segment) error {
			rows, err := s.Rows()
			if err != nil {
				return err
			}
			mark := func(t tomb, r layout.Range) {
				dead.AddRange(uint64(r.From), uint64(r.To))
				e.Erase = e.Erase || t.erased
			}
			anywhere := make(map[memory.Ref]tomb)
			for _, t := range tombs {
				if e.Kind == layout.Int8 && !t.vectors(e.Model) || e.Kind == layout.Signs && !t.blocks(e.Model) {
					continue
				}
				// What died while its text lived may be of another cell than the last.
				if t.lost || t.erased && before > 0 {
					anywhere[t.ref] = t
				}
				for _, cell := range t.cells {
					if cell.Agent < e.First || cell.Agent > e.Last {
						continue
					}
					in, err := s.CellRows(cell)
					if err != nil {
						return err
					}
					if r, found := rows.Find(in, t.ref); found {
						mark(t, r)
					}
				}
			}
			if len(anywhere) == 0 {
				return nil
			}
			return eachRecord(s, func(_ layout.Cell, ref memory.Ref, r layout.Range) error {
				if t, wanted := anywhere[ref]; wanted {
					mark(t, r)
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
		if dead.GetCardinality() == before && e.Erase == erase {
			continue
		}
		if err := e.setDead(dead); err != nil {
			return err
		}
		m.next.Segments[i] = e
	}
	m.dropDead()
	return nil
}

// eachRecord calls fn for every record of a segment, in the order of the file.
func eachRecord(s *layout.Segment, fn func(cell layout.Cell, ref memory.Ref, rows layout.Range) error) error {
	table, err := s.Rows()
	if err != nil {
		return err
	}
	for i := range s.Header().Cells {
		cell, in, err := s.Cell(i)
		if err != nil {
			return err
		}
		for row := in.From; row < in.To; {
			_, end := table.Run(row)
			ref, _ := table.At(row)
			if err := fn(cell, ref, layout.Range{From: row, To: end}); err != nil {
				return err
			}
			row = end
		}
	}
	return nil
}

// clear marks the rows of agents, of one model and kind, as dead in the first n
// segments of the next generation.
func (m *maker) clear(p plan, agents keySpans, n int) error {
	for i := range m.next.Segments[:n] {
		e := m.next.Segments[i]
		if e.Model != p.model.ID || e.Kind != p.kind || len(agents.inside(keySpan{e.First, e.Last})) == 0 {
			continue
		}
		dead, err := decodeDead(e)
		if err != nil {
			return err
		}
		err = m.inSegment(e, func(s *layout.Segment) error {
			for i := range s.Header().Cells {
				cell, rows, err := s.Cell(i)
				if err != nil {
					return err
				}
				if agents.contains(cell.Agent) {
					dead.AddRange(uint64(rows.From), uint64(rows.To))
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := e.setDead(dead); err != nil {
			return err
		}
		m.next.Segments[i] = e
	}
	m.dropDead()
	return nil
}

// dropDead drops the segments of which no row is left. A file that is made for the
// same rows may have the name of one.
func (m *maker) dropDead() {
	for _, s := range m.next.Segments {
		if s.Gone == s.Rows {
			m.loosen(s.Model, s.Files, s.Erase)
		}
	}
	m.next.Segments = slices.DeleteFunc(m.next.Segments, func(s segmentEntry) bool { return s.Gone == s.Rows })
}

// loosen notes that rows of value files are not pointed at any more; erased says
// that a deleted or changed text may be among them.
func (m *maker) loosen(model int64, files []uint32, erased bool) {
	for i, v := range m.next.Values {
		if v.Model == model && slices.Contains(files, v.Number) {
			m.next.Values[i].Loose, m.next.Values[i].Erase = true, v.Erase || erased
		}
	}
}
