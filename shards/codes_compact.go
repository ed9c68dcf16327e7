package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"recalld/layout"
	"recalld/memory"
)

const (
	// runsPerTier is how many runs of like size become one. A row's code is written
	// again each time its run grows by this factor.
	runsPerTier = 4
	// A segment of which this share is dead is written anew.
	deadShare = 4
)

// tier chooses segments of one kind and model that are worth merging: the runs of
// a tier, or one segment with many dead rows; nil when there are none.
func (c *Codes) tier() []segmentEntry { return chooseTier(c.current()) }

func chooseTier(k catalog) []segmentEntry {
	for _, s := range k.Segments {
		if s.Gone*deadShare >= s.Rows && s.Gone > 0 {
			return []segmentEntry{s}
		}
	}
	type run struct {
		model int64
		kind  layout.Kind
		run   uint64
		bytes int64
	}
	var runs []run
	for _, s := range k.Segments {
		r := run{s.Model, s.Kind, s.Run, s.Bytes}
		i := slices.IndexFunc(runs, func(o run) bool { return o.model == r.model && o.kind == r.kind && o.run == r.run })
		if i < 0 {
			runs = append(runs, r)
			continue
		}
		runs[i].bytes += r.bytes
	}
	slices.SortFunc(runs, func(a, b run) int {
		return cmp.Or(cmp.Compare(a.model, b.model), cmp.Compare(a.kind, b.kind), cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.run, b.run))
	})
	for i, r := range runs {
		n := 0
		for _, o := range runs[i:] {
			if o.model != r.model || o.kind != r.kind || o.bytes > runsPerTier*max(r.bytes, 1<<20) {
				break
			}
			n++
		}
		// At most four small runs stay beside one another.
		if n <= runsPerTier {
			continue
		}
		chosen := make(map[uint64]bool)
		for _, o := range runs[i : i+n] {
			chosen[o.run] = true
		}
		var group []segmentEntry
		for _, s := range k.Segments {
			if s.Model == r.model && s.Kind == r.kind && chosen[s.Run] {
				group = append(group, s)
			}
		}
		return group
	}
	return nil
}

// compactTier merges what chooseTier chooses, once. c.work is
// held.
func (c *Codes) compactTier(ctx context.Context) error {
	m, err := c.newMaker(ctx)
	if err != nil {
		return err
	}
	group := chooseTier(m.next)
	if group == nil {
		return nil
	}
	err = m.merge(group, nil)
	if err == nil {
		err = m.dropUnused(group[0].Model)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("compact codes: %w", err), m.abandon())
	}
	if err := c.commit(m); err != nil {
		return err
	}
	c.Wake()
	return nil
}

// Compact merges the segments of each kind and model and leaves out dead rows. No
// row of a value file is written again, unless most of its file is of no use.
func (c *Codes) Compact(ctx context.Context, progress func(done, total int64)) (report CompactReport, err error) {
	if err := c.work.lock(ctx); err != nil {
		return report, err
	}
	defer c.work.unlock()
	if begun, err := c.load(ctx); err != nil || !begun {
		return report, err
	}
	err = c.compactAll(ctx, &report, progress)
	var bad *badFile
	if errors.As(err, &bad) {
		err = errors.Join(err, c.setAside(ctx, bad))
	}
	return report, err
}

func (c *Codes) compactAll(ctx context.Context, report *CompactReport, progress func(done, total int64)) error {
	m, err := c.newMaker(ctx)
	if err != nil {
		return err
	}
	before := m.next.clone() // merging changes m.next
	report.FilesBefore = len(before.Segments) + len(before.Values)
	var done, total int64
	for _, s := range before.Segments {
		total += s.Bytes
	}
	for _, model := range before.Models {
		moving, err := m.wasteful(model.ID)
		if err != nil {
			return errors.Join(fmt.Errorf("compact codes: %w", err), m.abandon())
		}
		for _, kind := range []layout.Kind{layout.Signs, layout.Int8} {
			var group []segmentEntry
			for _, s := range before.Segments {
				if s.Model == model.ID && s.Kind == kind {
					group = append(group, s)
					done += s.Bytes
				}
			}
			if err = m.mergeWorth(group, moving); err != nil {
				break
			}
			if progress != nil {
				progress(done, total)
			}
		}
		if err == nil {
			err = m.dropUnused(model.ID)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("compact codes: %w", err), m.abandon())
		}
	}
	if err := c.commit(m); err != nil {
		return err
	}
	*report = m.report
	after := c.current()
	report.FilesBefore, report.FilesAfter = len(before.Segments)+len(before.Values), len(after.Segments)+len(after.Values)
	if after.First > 0 {
		report.Amplification = float64(after.First+after.Again) / float64(after.First)
	}
	return nil
}

// mergeWorth merges all segments of one kind and model, unless they are one run
// without anything to leave out.
func (m *maker) mergeWorth(group []segmentEntry, moving map[uint32]bool) error {
	worth := slices.ContainsFunc(group, func(s segmentEntry) bool {
		return s.Run != group[0].Run || s.Gone > 0 || slices.ContainsFunc(s.Files, func(n uint32) bool { return moving[n] })
	})
	if !worth {
		return nil
	}
	return m.merge(group, moving)
}

// runReader reads the records of one run of segments, in the order of files.
type runReader struct {
	m        *maker
	number   uint64
	left     []segmentEntry
	entry    segmentEntry
	segment  *layout.Segment
	records  layout.Rows
	dead     *roaring.Bitmap
	absent   []uint32
	cellAt   int // of the directory
	cell     layout.Cell
	cellRows layout.Range
	ref      memory.Ref
	rows     layout.Range // of the record in hand; empty at the end
}

// next moves to the next live record. Dead ones are handed to gone.
func (r *runReader) next(gone func(*runReader, layout.Range) error) error {
	for {
		at := r.rows.To
		r.rows = layout.Range{}
		if r.segment == nil || at >= r.segment.Header().Rows {
			if err := r.open(); err != nil || r.segment == nil {
				return err
			}
			at = 0
		}
		if at >= r.cellRows.To {
			var err error
			if r.cell, r.cellRows, err = r.segment.Cell(r.cellAt); err != nil {
				return err
			}
			r.cellAt++
		}
		_, end := r.records.Run(at)
		r.rows = layout.Range{From: at, To: min(end, r.cellRows.To)}
		r.ref, _ = r.records.At(at)
		if !r.dead.Contains(uint32(at)) {
			return nil
		}
		if err := gone(r, r.rows); err != nil {
			return err
		}
	}
}

// open moves to the next segment; there is none in hand at the end.
func (r *runReader) open() error {
	if err := r.close(); err != nil || len(r.left) == 0 {
		return err
	}
	r.entry, r.left = r.left[0], r.left[1:]
	var err error
	if r.dead, err = decodeDead(r.entry); err != nil {
		return err
	}
	if r.segment, err = r.m.segment(r.entry); err != nil {
		return err
	}
	if err = r.segment.Intact(); err == nil {
		err = r.segment.Touch(layout.Range{To: r.segment.Header().Rows})
	}
	if err == nil {
		r.records, err = r.segment.Rows()
	}
	if err == nil {
		r.absent, err = r.segment.Absent()
	}
	r.cellAt, r.cellRows = 0, layout.Range{}
	return err
}

func (r *runReader) close() error {
	if r.segment == nil {
		return nil
	}
	s := r.segment
	r.segment = nil
	return s.Close()
}

// before is the order of files, the newer run first where two have one record.
func (r *runReader) before(o *runReader) bool {
	return cmp.Or(r.cell.Compare(o.cell), memory.CompareRefs(r.ref, o.ref), cmp.Compare(o.number, r.number)) < 0
}

// merge writes segments of one kind and model anew, without their dead rows, as
// one run in their place. Values in files of moving are copied.
func (m *maker) merge(group []segmentEntry, moving map[uint32]bool) (err error) {
	model, _ := m.next.model(group[0].Model)
	number := group[0].Run
	if slices.ContainsFunc(group, func(s segmentEntry) bool { return s.Run != number }) {
		number = m.run()
	}
	x := &merging{m: m, model: model, moving: moving, draft: m.draft(model, group[0].Kind, number)}
	err = layout.Guard(func() error { return x.all(group) })
	if err != nil {
		err = x.blame(group, err)
	}
	err = errors.Join(err, x.close())
	old := func(s segmentEntry) bool {
		return slices.ContainsFunc(group, func(o segmentEntry) bool { return o.Name == s.Name })
	}
	place := slices.IndexFunc(m.next.Segments, old)
	m.next.Segments = slices.DeleteFunc(m.next.Segments, old)
	kept := len(m.next.Segments)
	if err := m.take(x.draft, err); err != nil {
		return err
	}
	made := slices.Clone(m.next.Segments[kept:])
	for _, s := range made {
		m.next.Again += s.Bytes
		m.report.CodeBytes += s.Bytes
	}
	// The segments of a run stand in the order of their rows.
	m.next.Segments = slices.Insert(m.next.Segments[:kept], place, made...)
	for number, erased := range x.loose {
		m.loosen(model.ID, []uint32{number}, erased)
	}
	return nil
}

// merging is one merge.
type merging struct {
	m      *maker
	model  codedModel
	moving map[uint32]bool
	draft  *draft
	runs   []*runReader
	values map[uint32]*layout.Values // of moving, opened
	loose  map[uint32]bool           // files to which dead rows pointed; true: of an erased text
}

func (x *merging) all(group []segmentEntry) error {
	x.loose, x.values = make(map[uint32]bool), make(map[uint32]*layout.Values)
	byRun := make(map[uint64]*runReader)
	for _, s := range group {
		r := byRun[s.Run]
		if r == nil {
			r = &runReader{m: x.m, number: s.Run}
			byRun[s.Run] = r
			x.runs = append(x.runs, r)
		}
		r.left = append(r.left, s)
	}
	for _, r := range x.runs {
		if err := r.next(x.gone); err != nil {
			return inFile(r.entry.Name, err)
		}
	}
	var last *runReader
	var cell layout.Cell
	var ref memory.Ref
	for n := 0; ; n++ {
		if n%1024 == 0 {
			if err := x.m.ctx.Err(); err != nil {
				return err
			}
		}
		var first *runReader
		for _, r := range x.runs {
			if r.rows.Len() > 0 && (first == nil || r.before(first)) {
				first = r
			}
		}
		if first == nil {
			return nil
		}
		var err error
		if last != nil && first.cell == cell && first.ref == ref {
			err = x.gone(first, first.rows) // an older run's rows of the same record
		} else {
			err = x.copy(first)
		}
		last, cell, ref = first, first.cell, first.ref
		if err == nil {
			err = first.next(x.gone)
		}
		if err != nil {
			return inFile(first.entry.Name, err)
		}
	}
}

// gone notes which value files dead rows point into.
func (x *merging) gone(r *runReader, rows layout.Range) error {
	x.m.report.DeadRows += int64(rows.Len())
	if x.draft.spec.Lean {
		return nil
	}
	for row := rows.From; row < rows.To; row++ {
		p, err := r.segment.Pointer(row)
		if err != nil {
			return err
		}
		if p != layout.NoPointer() {
			x.loose[p.File] = x.loose[p.File] || r.entry.Erase
		}
	}
	return nil
}

// copy writes the rows of the record in hand.
func (x *merging) copy(r *runReader) error {
	if err := x.draft.begin(r.cell, r.ref, r.rows.Len()); err != nil {
		return err
	}
	stride := r.segment.RowBytes()
	width := stride
	if x.draft.spec.Kind == layout.Signs {
		width = (x.model.Dims + 7) / 8
	}
	codes, scales, bounds := r.segment.Codes(), r.segment.Scales(), r.segment.Bounds()
	for row := r.rows.From; row < r.rows.To; row++ {
		_, block := r.records.At(row)
		out := layout.Row{Cell: r.cell, Ref: r.ref, Block: block, Value: layout.NoPointer()}
		if _, without := slices.BinarySearch(r.absent, uint32(row)); !without {
			out.Code = codes[row*stride : row*stride+width]
		}
		if x.draft.spec.Kind == layout.Int8 {
			out.Scale, out.Bound = scales[row], bounds[row]
		}
		if !x.draft.spec.Lean {
			var err error
			if out.Value, err = r.segment.Pointer(row); err != nil {
				return err
			}
			if x.moving[out.Value.File] && out.Value != layout.NoPointer() {
				if out.Value, err = x.move(out.Value); err != nil {
					return err
				}
			}
		}
		if err := x.draft.add(out); err != nil {
			return err
		}
	}
	return nil
}

// move copies one int8 row or one vector into a new value file.
func (x *merging) move(p layout.Pointer) (layout.Pointer, error) {
	v, err := x.open(p.File)
	if err != nil {
		return p, err
	}
	values, _, err := v.Row(p.Slot)
	if err != nil {
		return p, inFile(v.Name(), err)
	}
	x.m.report.ValueBytes += int64(len(values))
	return x.draft.point(values)
}

func (x *merging) open(number uint32) (*layout.Values, error) {
	if v := x.values[number]; v != nil {
		return v, nil
	}
	i := slices.IndexFunc(x.m.next.Values, func(v valuesEntry) bool { return v.Model == x.model.ID && v.Number == number })
	if i < 0 {
		return nil, fmt.Errorf("value file %d of model %d is not in the catalog", number, x.model.ID)
	}
	name := x.m.next.Values[i].Name
	v, err := layout.OpenValues(x.m.dir, name, x.m.next.source(x.model))
	if err != nil {
		return nil, inFile(name, err)
	}
	x.values[number] = v
	return v, nil
}

// blame finds the file that an error without a name came from.
func (x *merging) blame(group []segmentEntry, err error) error {
	var named *badFile
	if errors.As(err, &named) || !unusableFile(err) {
		return err
	}
	for _, r := range x.runs {
		if r.segment != nil && r.segment.Intact() != nil {
			return &badFile{r.entry.Name, err}
		}
	}
	return &badFile{group[0].Name, err}
}

func (x *merging) close() error {
	var all error
	for _, r := range x.runs {
		all = errors.Join(all, r.close())
	}
	for _, v := range x.values {
		all = errors.Join(all, v.Close())
	}
	return all
}

// pointed returns, for each value file of a model, the slots to which live rows
// point.
func (m *maker) pointed(model int64) (map[uint32]*roaring.Bitmap, error) {
	used := make(map[uint32]*roaring.Bitmap)
	if m.next.Lean {
		return used, nil
	}
	for _, e := range m.next.Segments {
		if e.Model != model {
			continue
		}
		dead, err := decodeDead(e)
		if err != nil {
			return nil, err
		}
		err = m.inSegment(e, func(s *layout.Segment) error {
			for row := range s.Header().Rows {
				if dead.Contains(uint32(row)) {
					continue
				}
				p, err := s.Pointer(row)
				if err != nil {
					return err
				}
				if p == layout.NoPointer() {
					continue
				}
				if used[p.File] == nil {
					used[p.File] = roaring.New()
				}
				used[p.File].Add(p.Slot)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return used, nil
}

// wasteful are the value files of a model of which live rows use less than half.
func (m *maker) wasteful(model int64) (map[uint32]bool, error) {
	used, err := m.pointed(model)
	if err != nil {
		return nil, err
	}
	moving := make(map[uint32]bool)
	for _, v := range m.next.Values {
		if b := used[v.Number]; v.Model == model && b != nil && 2*int64(b.GetCardinality()) < v.Slots {
			moving[v.Number] = true
		}
	}
	return moving, nil
}

// dropUnused drops the value files of a model to which no live row points.
func (m *maker) dropUnused(model int64) error {
	used, err := m.pointed(model)
	if err != nil {
		return err
	}
	m.next.Values = slices.DeleteFunc(m.next.Values, func(v valuesEntry) bool { return v.Model == model && used[v.Number] == nil })
	return nil
}
