package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"recalld/layout"
	"recalld/memory"
	"recalld/sqlite"
)

const (
	// changesPerSeal is how many changes one round takes into files, and
	// changesLeft how many are left to be taken over by the scanner alone.
	changesPerSeal = 100_000
	changesLeft    = 5_000
	// refsPerView is how many records are looked up in one snapshot.
	refsPerView = 2_000
)

// errTrimmed says that the change log does not reach back to the generation.
var errTrimmed = errors.New("the change log was trimmed past the generation")

// Seal makes files of everything that the scanner holds beside them.
func (c *Codes) Seal(ctx context.Context) error {
	if err := c.work.lock(ctx); err != nil {
		return err
	}
	defer c.work.unlock()
	if begun, err := c.load(ctx); err != nil || !begun {
		return err
	}
	return c.seal(ctx)
}

// seal is Seal with c.work held.
func (c *Codes) seal(ctx context.Context) error {
	m, err := c.newMaker(ctx)
	if err != nil {
		return err
	}
	sealed := m.next.Sequence
	for more := true; more; {
		if more, err = m.seal(1); err != nil {
			return errors.Join(fmt.Errorf("seal codes: %w", err), m.abandon())
		}
	}
	if m.next.Sequence == sealed {
		return nil
	}
	return c.commit(m)
}

// catchUp takes the log into files while it is long.
func (m *maker) catchUp() error {
	for {
		if more, err := m.seal(changesLeft); err != nil || !more {
			return err
		}
	}
}

// seal takes the next changes into files, if there are at least so many. more says
// that there may be others.
func (m *maker) seal(least int) (more bool, err error) {
	changes, err := m.readLog(m.next.Sequence, changesPerSeal)
	if err != nil || changes.n < least {
		return false, err
	}
	segments := len(m.next.Segments)
	tombs := m.tombs(changes.records)
	rows, err := m.place(changes.records)
	if err != nil {
		return false, err
	}
	// The files made here are complete up to the last of the changes.
	m.next.Sequence, m.next.Lineage = changes.last, changes.lineage
	run := m.run()
	for _, model := range m.next.Models {
		for _, kind := range []layout.Kind{layout.Signs, layout.Int8} {
			if err := m.takeRows(model, kind, run, rows); err != nil {
				return false, err
			}
		}
	}
	for _, s := range m.next.Segments[segments:] {
		m.next.First += s.Bytes
	}
	return changes.n == changesPerSeal, m.bury(tombs, segments)
}

// readLog reads changes after one, and brings the directory and the models up to
// them.
func (m *maker) readLog(after int64, limit int) (r changesRead, err error) {
	view, err := m.view()
	if err != nil {
		return r, err
	}
	defer view.Close()
	oldest, err := view.OldestChange()
	if err != nil {
		return r, err
	}
	if after < view.Seq() && (oldest == 0 || oldest > after+1) {
		return r, errTrimmed
	}
	if r, err = readChanges(view, after, limit); err != nil {
		return r, err
	}
	if err := m.learn(view); err != nil {
		return r, err
	}
	return r, m.addModels(view, r.models)
}

// addModels takes models that are not in the catalog into it.
func (m *maker) addModels(view *sqlite.View, named []int64) error {
	models, err := newModels(view, m.next, named)
	m.next.Models = append(m.next.Models, models...)
	return err
}

// newModels are the models named that the catalog does not have, and could.
func newModels(view *sqlite.View, k catalog, named []int64) (added []codedModel, err error) {
	unknown := func(id int64) bool { _, known := k.model(id); return !known }
	if !slices.ContainsFunc(named, unknown) {
		return nil, nil
	}
	models, err := view.Models()
	if err != nil {
		return nil, err
	}
	for _, model := range models {
		if coded, ok := identify(model); ok && unknown(model.ID) {
			added = append(added, coded)
		}
	}
	return added, nil
}

// tombs are the places in files where changed records may have rows.
func (m *maker) tombs(records []touchedCodes) []tomb {
	tombs := make([]tomb, 0, len(records))
	for i := range records {
		t := &records[i]
		tombs = append(tombs, m.tomb(t))
	}
	return tombs
}

func (m *maker) tomb(t *touchedCodes) tomb {
	tomb := tomb{ref: t.ref, blocks: t.hasBlocks, vectors: t.hasVector, erased: t.erased}
	for _, id := range t.cells {
		if cell, known := m.cell(id); known {
			tomb.cells = append(tomb.cells, cell)
		} else {
			tomb.lost = true
		}
	}
	return tomb
}

// sealed is a record that changed and the cell that it is in now.
type sealedRow struct {
	*touchedCodes
	cell layout.Cell
	id   int64
}

// place looks up the cells of records and puts them in the order of files. Those
// that are gone, or that do not belong into files, are left out.
func (m *maker) place(records []touchedCodes) ([]sealedRow, error) {
	var rows []sealedRow
	for first := 0; first < len(records); first += refsPerView {
		part := records[first:min(first+refsPerView, len(records))]
		refs := make([]memory.Ref, len(part))
		for i := range part {
			refs[i] = part[i].ref
		}
		view, err := m.view()
		if err != nil {
			return nil, err
		}
		cells, err := view.CellOf(refs)
		if err := errors.Join(err, view.Close()); err != nil {
			return nil, err
		}
		for i := range part {
			// A cell that is not known yet is named by a later change.
			id, lives := cells[part[i].ref]
			if cell, known := m.cell(id); lives && known && m.keeps(cell.Agent) {
				rows = append(rows, sealedRow{&part[i], cell, id})
			}
		}
	}
	slices.SortFunc(rows, func(a, b sealedRow) int { return cmp.Or(a.cell.Compare(b.cell), memory.CompareRefs(a.ref, b.ref)) })
	return rows, nil
}

// takeRows writes what records have under one model.
func (m *maker) takeRows(model codedModel, kind layout.Kind, run uint64, rows []sealedRow) error {
	at := make(map[memory.Ref]sealedRow)
	var refs []memory.Ref
	for _, r := range rows {
		if m.covers != nil && !m.covers(model.ID, kind, r) {
			continue // it is still to be read
		}
		if kind == layout.Signs && r.hasBlocks(model.ID) || kind == layout.Int8 && r.hasVector(model.ID) {
			at[r.ref] = r
			refs = append(refs, r.ref)
		}
	}
	d := m.draft(model, kind, run)
	read := &pages{m: m}
	var err error
	for len(refs) > 0 && err == nil {
		part := refs[:min(len(refs), 64)]
		refs = refs[len(part):]
		err = m.readRecords(d, read, model, kind, part, at)
	}
	return m.take(d, errors.Join(err, read.close()))
}

// readRecords writes what some records have. One that moved since its cell was
// looked up is left out: a later change tells of it.
func (m *maker) readRecords(d *draft, read *pages, model codedModel, kind layout.Kind, refs []memory.Ref, at map[memory.Ref]sealedRow) error {
	if err := m.ctx.Err(); err != nil {
		return err
	}
	view, err := read.page()
	if err != nil {
		return err
	}
	size := 0
	if kind == layout.Signs {
		err = view.CodedSetsOf(model.ID, refs, !m.next.Lean, func(s sqlite.CodedSet) error {
			size += len(s.Bits) + len(s.Values)
			if r := at[s.Ref]; r.id == s.Cell {
				return d.set(r.cell, s)
			}
			return nil
		})
	} else {
		err = view.PlacedVectorsOf(model.ID, refs, func(v sqlite.PlacedVector) error {
			size += 4 * len(v.Values)
			if r := at[v.Ref]; r.id == v.Cell && len(v.Values) == model.Dims {
				return d.vector(r.cell, v.Ref, encodeRecord(v.Values))
			}
			return nil
		})
	}
	read.spent(size)
	return err
}
