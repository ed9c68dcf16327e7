package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner/client"
	"recalld/sqlite"
)

const (
	// applyBytes is about how many bytes of codes one message has; a record's are
	// never divided.
	applyBytes = 4 << 20
	// recordLimit is how many bytes of codes and values a record may have in a
	// message. One with more goes without values, and one whose codes alone are more
	// waits for a file.
	recordLimit = 32 << 20
	// changesBehind is how many changes a question takes over. More become files
	// before the scanner hears of the rest.
	changesBehind = 20_000
	// maxMarks bounds the changes that are known one by one.
	maxMarks = 4096
)

// mark notes a change of a record's codes in a cell: a snapshot before at may have
// others than the scanner.
type mark struct {
	cell   layout.Cell
	record *touchedCodes
	at     int64
}

// follow makes the scanner hold everything up to the snapshot.
func (c *Codes) follow(ctx context.Context, view *sqlite.View) error {
	for {
		if err := c.mu.lock(ctx); err != nil {
			return err
		}
		there, err := c.step(ctx, view)
		c.mu.unlock()
		if err != nil || there {
			return err
		}
	}
}

// followNow follows up to now.
func (c *Codes) followNow(ctx context.Context) error {
	view, err := c.store.ViewRecords(ctx)
	if err != nil {
		return err
	}
	return errors.Join(c.follow(ctx, view), view.Close())
}

// step takes over some changes. c.mu is held.
func (c *Codes) step(ctx context.Context, view *sqlite.View) (there bool, err error) {
	switch {
	case c.closed:
		return false, errClosed
	case !c.begun:
		return false, ErrNotBuilt
	case c.down != nil:
		return false, c.down
	}
	if err := c.certain(ctx); err != nil || c.applied >= view.Seq() {
		return err == nil, c.noticed(ctx, err)
	}
	if view.Seq()-c.applied > c.changesBehind || c.deltaBytes > 2*c.opts.SealBytes {
		c.Wake()
		return false, errFarBehind
	}
	oldest, err := view.OldestChange()
	if err != nil {
		return false, err
	}
	if oldest == 0 || oldest > c.applied+1 {
		c.opts.Log.Warn("the change log was trimmed past the matrices, which are built anew", "applied", c.applied, "oldest", oldest)
		return false, c.startOver(ctx, view)
	}
	changes, err := readChanges(view, c.applied, changesPerStep)
	if err != nil {
		return false, err
	}
	if changes.newest > c.names.last() {
		if err := c.names.extend(view); err != nil {
			return false, err
		}
	}
	if added, err := newModels(view, c.catalog, changes.models); err != nil || len(added) > 0 {
		if err == nil {
			err = c.addModels(ctx, added)
		}
		return false, err
	}
	upTo := changes.last
	if changes.n < changesPerStep {
		upTo = view.Seq()
	}
	b := &bringing{c: c, ctx: ctx, view: view, upTo: upTo}
	if err := b.records(changes.records, changes.n < changesPerStep); err != nil {
		return false, c.applyFailed(ctx, err)
	}
	c.applied = upTo
	c.deltaChanges += int64(changes.n)
	return c.applied >= view.Seq(), nil
}

// errFarBehind says that so much changed that it becomes files first.
var errFarBehind = fmt.Errorf("%w: so much changed that it becomes files first", ErrNotBuilt)

// addModels takes models into the generation in use. c.mu is held.
func (c *Codes) addModels(ctx context.Context, added []codedModel) error {
	next := c.catalog.clone()
	next.Models = append(next.Models, added...)
	next.Number++
	c.catalog = next
	if err := next.write(c.opts.Folder); err != nil {
		c.opts.Log.Warn("the catalog could not be written", "error", err)
	}
	return c.noticed(ctx, c.publish(ctx))
}

// applyFailed decides what is known after changes could not be applied.
func (c *Codes) applyFailed(ctx context.Context, err error) error {
	var file *client.FileError
	switch {
	case errors.As(err, &file):
		c.unsure = true
		if c.dismiss(file.File, err) {
			return nil // the next step tells the scanner
		}
	case errors.Is(err, errApply):
		c.unsure = true
	}
	return c.noticed(ctx, err)
}

// noticed notes that the scanner is gone, when that is what an error says, and
// returns the error. c.mu is held.
func (c *Codes) noticed(ctx context.Context, err error) error {
	if errors.Is(err, client.ErrUnavailable) && ctx.Err() == nil {
		c.lose(err)
	}
	return err
}

// errApply marks an error of the scanner, after which it is not known what it
// holds.
var errApply = errors.New("the scanner was not told of changes")

// bringing makes the scanner hold records as a snapshot has them. Codes.mu is
// held.
type bringing struct {
	c       *Codes
	ctx     context.Context
	view    *sqlite.View
	upTo    int64
	request *scannerv1.ApplyRequest
	size    int
	sent    bool
	found   map[memory.Ref][]layout.Cell // see locate
}

// records brings records. whole says that all their changes up to the snapshot
// are known.
func (b *bringing) records(records []touchedCodes, whole bool) error {
	b.clear()
	if err := b.locate(records); err != nil {
		return err
	}
	for i := range records {
		t := &records[i]
		at := t.last
		if !whole {
			at = b.view.Seq()
		}
		for _, cell := range b.cells(t) {
			b.c.mark(mark{cell, t, at})
		}
	}
	for _, model := range b.c.catalog.Models {
		if err := b.blocks(model, records); err != nil {
			return err
		}
		if err := b.vectors(model, records); err != nil {
			return err
		}
	}
	if b.size == 0 && !b.sent {
		return nil // nothing that the scanner has is changed
	}
	b.request.Sequence = b.upTo
	if err := b.send(); err != nil {
		return err
	}
	b.c.told = b.upTo
	return nil
}

func (b *bringing) clear() {
	b.request, b.size = &scannerv1.ApplyRequest{Generation: b.c.catalog.Number, Sequence: b.c.told}, 0
}

func (b *bringing) send() error {
	// Others need the changes too: whoever is first does not take them back.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), b.c.askTime)
	defer cancel()
	if _, err := b.c.client.Apply(ctx, b.request); err != nil {
		return fmt.Errorf("%w: %w", errApply, err)
	}
	b.sent = true
	b.clear()
	return nil
}

// cells are the keys of the cells that a record was or is in, as far as they are
// known.
func (b *bringing) cells(t *touchedCodes) (cells []layout.Cell) {
	for _, id := range t.cells {
		if cell, known := b.c.names.cell(id); known {
			cells = append(cells, cell)
		}
	}
	return append(cells, b.found[t.ref]...)
}

// locate finds the rows in files of records whose cells were gone before the
// directory was made.
func (b *bringing) locate(records []touchedCodes) error {
	b.found = make(map[memory.Ref][]layout.Cell)
	wanted := make(map[memory.Ref]bool)
	for _, t := range records {
		for _, id := range t.cells {
			if _, known := b.c.names.cell(id); !known {
				wanted[t.ref] = true
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	m := &maker{c: b.c, ctx: b.ctx, dir: b.c.opts.Folder, next: b.c.catalog}
	for _, e := range b.c.catalog.Segments {
		err := m.inSegment(e, func(s *layout.Segment) error {
			return eachRecord(s, func(cell layout.Cell, ref memory.Ref, _ layout.Range) error {
				if wanted[ref] {
					b.found[ref] = append(b.found[ref], cell)
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// blocks brings what records have under one model.
func (b *bringing) blocks(model codedModel, records []touchedCodes) error {
	var touched []*touchedCodes
	var refs []memory.Ref
	for i := range records {
		if t := &records[i]; t.hasBlocks(model.ID) {
			touched, refs = append(touched, t), append(refs, t.ref)
		}
	}
	err := b.view.CodedSetsOf(model.ID, refs, !b.c.catalog.Lean, func(s sqlite.CodedSet) error {
		for touched[0].ref != s.Ref {
			if err := b.set(model, touched[0], sqlite.CodedSet{}); err != nil {
				return err
			}
			touched = touched[1:]
		}
		t := touched[0]
		touched = touched[1:]
		return b.set(model, t, s)
	})
	for ; err == nil && len(touched) > 0; touched = touched[1:] {
		err = b.set(model, touched[0], sqlite.CodedSet{})
	}
	return err
}

// set brings the blocks of one record; s without blocks says that it has none.
func (b *bringing) set(model codedModel, t *touchedCodes, s sqlite.CodedSet) error {
	cell, belongs := b.belongs(s.Cell)
	belongs = belongs && s.N > 0
	if size := len(s.Bits) + len(s.Values); size > b.c.recordBytes {
		s.Values = nil
	}
	if belongs && len(s.Bits) > b.c.recordBytes {
		b.c.waiting[cell.Agent] = true
		b.c.Wake()
		belongs = false
	}
	for _, old := range b.cells(t) {
		if b.built(old) && (!belongs || old != cell) {
			b.request.Changes = append(b.request.Changes, &scannerv1.Change{Model: model.ID, Cell: wireCell(old), Ref: wireRef(t.ref)})
			b.size += 64
		}
	}
	if belongs {
		change := &scannerv1.Change{Model: model.ID, Cell: wireCell(cell), Ref: wireRef(t.ref), Blocks: make([]*scannerv1.Block, s.N)}
		width := (model.Dims + 7) / 8
		for i := range change.Blocks {
			change.Blocks[i] = &scannerv1.Block{Code: s.Bits[i*width : (i+1)*width], Values: valuesOf(s, i, model.Dims)}
		}
		for _, i := range s.Unembeddable {
			change.Blocks[i] = &scannerv1.Block{}
		}
		b.request.Changes = append(b.request.Changes, change)
		b.count(s.N, len(s.Bits)+len(s.Values)+64)
		b.markNow(t, cell)
	}
	return b.sendIfLarge()
}

// belongs returns the keys of a record's cell; ok is false when its rows are not
// the scanner's to hold now.
func (b *bringing) belongs(id int64) (cell layout.Cell, ok bool) {
	cell, known := b.c.names.cell(id)
	return cell, known && !b.c.names.refused[cell.Agent] && !b.c.catalog.Missing.contains(cell.Agent)
}

// built reports whether rows of a cell may be asked for: what is not built is built
// without the scanner.
func (b *bringing) built(cell layout.Cell) bool { return !b.c.catalog.Missing.contains(cell.Agent) }

// markNow marks the cell that a record is in by now, which a later change names.
func (b *bringing) markNow(t *touchedCodes, cell layout.Cell) {
	for _, known := range b.cells(t) {
		if known == cell {
			return
		}
	}
	b.c.mark(mark{cell, t, b.view.Seq()})
}

func (b *bringing) count(rows, size int) {
	b.c.deltaRows += int64(rows)
	b.c.deltaBytes += int64(size)
	b.size += size
}

func (b *bringing) sendIfLarge() error {
	if b.size < applyBytes {
		return nil
	}
	return b.send()
}

// vectors brings the vectors of records under one model.
func (b *bringing) vectors(model codedModel, records []touchedCodes) error {
	var touched []*touchedCodes
	var refs []memory.Ref
	for i := range records {
		if t := &records[i]; t.hasVector(model.ID) {
			touched, refs = append(touched, t), append(refs, t.ref)
		}
	}
	err := b.view.PlacedVectorsOf(model.ID, refs, func(v sqlite.PlacedVector) error {
		for touched[0].ref != v.Ref {
			if err := b.vector(model, touched[0], sqlite.PlacedVector{}); err != nil {
				return err
			}
			touched = touched[1:]
		}
		t := touched[0]
		touched = touched[1:]
		return b.vector(model, t, v)
	})
	for ; err == nil && len(touched) > 0; touched = touched[1:] {
		err = b.vector(model, touched[0], sqlite.PlacedVector{})
	}
	return err
}

// vector brings one; v without values says that the record has none.
func (b *bringing) vector(model codedModel, t *touchedCodes, v sqlite.PlacedVector) error {
	cell, belongs := b.belongs(v.Cell)
	belongs = belongs && len(v.Values) == model.Dims // RR-399: another width is skipped
	for _, old := range b.cells(t) {
		if b.built(old) && (!belongs || old != cell) {
			b.request.Vectors = append(b.request.Vectors, &scannerv1.VectorChange{Model: model.ID, Cell: wireCell(old), Ref: wireRef(t.ref)})
			b.size += 64
		}
	}
	if belongs {
		code := encodeRecord(v.Values)
		b.request.Vectors = append(b.request.Vectors, &scannerv1.VectorChange{Model: model.ID, Cell: wireCell(cell), Ref: wireRef(t.ref), Code: code.code, Scale: code.scale, Bound: code.bound})
		size := len(code.code) + 64
		if !b.c.catalog.Lean {
			last := b.request.Vectors[len(b.request.Vectors)-1]
			last.Vector = slices.Clone(v.Values)
			size += 4 * len(last.Vector)
		}
		b.count(1, size)
		b.markNow(t, cell)
	}
	return b.sendIfLarge()
}

// mark notes a change. c.mu is held.
func (c *Codes) mark(m mark) {
	if len(c.marks) >= maxMarks {
		for _, old := range c.marks[:maxMarks/2] {
			c.floor = max(c.floor, old.at)
		}
		c.marks = append([]mark(nil), c.marks[maxMarks/2:]...)
	}
	c.marks = append(c.marks, m)
}

func wireCell(c layout.Cell) *scannerv1.Cell {
	return &scannerv1.Cell{Agent: c.Agent, Project: c.Project, Channel: c.Channel}
}

func wireRef(r memory.Ref) *scannerv1.Ref {
	return &scannerv1.Ref{Kind: scannerv1.Kind(r.Kind), Id: r.ID}
}
