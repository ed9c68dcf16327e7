package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"recalld/layout"
	"recalld/memory"
)

// renewalFolder is where a rebuild makes its files, inside the folder of the others.
// What is there when a process starts is of a rebuild that ended with another.
const renewalFolder = "next"

// renewal is a generation that a rebuild makes beside the one in use: read from the
// store a stretch at a time, with Codes.work held for each, so that the one in use
// is followed, sealed, compacted and erased from in between. Nobody sees it before it
// is whole. What changes behind what was read comes from the log, in its own time.
type renewal struct {
	m     *maker // of all its files, in a folder of its own
	plans []plan
	// What is read next: of a plan, of a cell, the records after one.
	plan, cell int
	after      memory.Ref
	draft      *draft // of the rows that were read last; nil when there are none
	run        uint64 // of the plan in hand; 0 when it was not begun
	done       int64  // bytes
	total      int64
	rows, all  int64 // rows that were read, of so many
	since      time.Time
}

// errDropped says that the files of a rebuild were given up.
var errDropped = errors.New("what a rebuild had made was given up")

// Rebuild makes every file anew from the store. The files before it answer, follow
// the log and are erased from until the new ones are whole, and take their room on the
// disk beside them; one catalog changes from these to those. After an error
// nothing has changed. progress, which may be nil, is told bytes.
func (c *Codes) Rebuild(ctx context.Context, progress func(done, total int64)) error {
	err := c.renewing.lock(ctx)
	if err == nil {
		err = c.rebuild(ctx, progress)
		c.renewing.unlock()
	}
	if err != nil {
		return fmt.Errorf("rebuild the matrices: %w", err)
	}
	return nil
}

// rebuild is Rebuild with c.renewing held.
func (c *Codes) rebuild(ctx context.Context, progress func(done, total int64)) error {
	for try := 1; ; try++ {
		more, err := c.beginRenewal(ctx)
		if err != nil {
			return err
		}
		if !more {
			return c.build(ctx, progress) // there is nothing that could be used meanwhile
		}
		for more && err == nil {
			c.giveWay(ctx)
			more, err = c.renew(ctx, progress)
		}
		if err == nil || try == maxTries || !errors.Is(err, errDropped) && !errors.Is(err, errTrimmed) {
			return err
		}
	}
}

// beginRenewal begins with an empty generation at a snapshot. more is false where
// nothing is built, so that what is missing is all that there is to build.
func (c *Codes) beginRenewal(ctx context.Context) (more bool, err error) {
	if err := c.work.lock(ctx); err != nil {
		return false, err
	}
	defer c.work.unlock()
	if begun, err := c.load(ctx); err != nil || !begun {
		return false, err
	}
	if k := c.current(); len(k.Segments) == 0 && len(k.Missing) > 0 {
		return false, nil
	}
	m, err := c.newMaker(ctx)
	if err != nil {
		return false, err
	}
	f := &renewal{m: m, since: c.opts.Clock()}
	m.dir, m.covers = filepath.Join(c.opts.Folder, renewalFolder), f.covers
	c.renewal = f
	if err := f.begin(); err != nil {
		return false, errors.Join(c.dropRenewal(), err)
	}
	c.noteRenewal()
	return true, nil
}

// begin plans what is to be read.
func (f *renewal) begin() (err error) {
	if err := os.RemoveAll(f.m.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(f.m.dir, 0o700); err != nil {
		return err
	}
	view, err := f.m.view()
	if err != nil {
		return err
	}
	f.m.next, err = f.m.c.blank(view)
	if err = errors.Join(err, view.Close()); err != nil {
		return err
	}
	// What is counted now is what of a snapshot after that one is still to be read.
	f.m.next.Missing = everyKey()
	f.plans, _, err = f.m.plan()
	f.m.next.Missing = nil
	for _, p := range f.plans {
		for _, k := range p.cells {
			f.total += p.bytes(k.n, f.m.next.Lean)
			f.all += k.n
		}
	}
	return err
}

// noteRenewal notes how far the files of the rebuild are, for whoever trims the log
// and for [Codes.State].
func (c *Codes) noteRenewal() {
	c.mu.take()
	defer c.mu.unlock()
	c.underway, c.renewed = nil, 0
	if f := c.renewal; f != nil {
		c.underway = &RebuildState{Rows: min(f.rows, f.all), Total: f.all, Since: f.since}
		c.renewed = f.m.next.Sequence
	}
}

// renew does one stretch of a rebuild. more is false when its files are in use; after
// an error they are gone.
func (c *Codes) renew(ctx context.Context, progress func(done, total int64)) (more bool, err error) {
	c.work.take() // whatever became of the caller: what was made must go
	defer c.work.unlock()
	f := c.renewal
	switch {
	case !c.started():
		err = errClosed
	case f == nil:
		return false, errDropped // by an erasure
	case f.outdated():
		err = errDropped
	default:
		more, err = f.stretch()
	}
	if err == nil && !more {
		if err = c.commitRenewal(f); err == nil {
			f.done = f.total
		}
	}
	if err == nil && progress != nil {
		progress(min(f.done, f.total), f.total)
	}
	if more && err == nil {
		c.noteRenewal()
		return true, nil
	}
	if err != nil && f != nil && f.outdated() && ctx.Err() == nil {
		err = errors.Join(errDropped, err)
	}
	return false, errors.Join(err, c.dropRenewal())
}

// outdated reports whether everything was dropped meanwhile.
func (f *renewal) outdated() bool {
	f.m.c.mu.take()
	defer f.m.c.mu.unlock()
	return f.m.c.epoch != f.m.epoch
}

// stretch reads for a while, and takes the log over when it has grown long. more
// says that there is more to read.
func (f *renewal) stretch() (more bool, err error) {
	if more, err = f.read(); err != nil {
		return false, err
	}
	if more && f.m.seen-f.m.next.Sequence < f.m.c.changesRenewed {
		return true, nil
	}
	if err := f.cut(); err != nil {
		return false, err
	}
	return more, f.m.catchUp()
}

// read reads until it was much, or somebody waits.
func (f *renewal) read() (more bool, err error) {
	read := &pages{m: f.m}
	defer func() { err = errors.Join(err, read.close()) }()
	for f.plan < len(f.plans) {
		p := f.plans[f.plan]
		if f.cell == len(p.cells) {
			if err := f.cut(); err != nil {
				return false, err
			}
			f.plan, f.cell, f.run = f.plan+1, 0, 0
			continue
		}
		if f.run == 0 {
			f.run = f.m.run()
		}
		if f.draft == nil {
			f.draft = f.m.draft(p.model, p.kind, f.run)
		}
		rows, last, err := f.m.readPage(f.draft, read, p, p.cells[f.cell], f.after)
		if err != nil {
			return false, err
		}
		f.after = last
		f.rows, f.done = f.rows+rows, f.done+p.bytes(rows, f.m.next.Lean)
		if rows == 0 {
			f.cell, f.after = f.cell+1, memory.Ref{}
		}
		if c := f.m.c; read.left <= 0 || c.erasing.Load() > 0 || c.opts.Busy() {
			return true, nil
		}
	}
	return false, nil
}

// covers reports whether rows of a record were read already, or will not be read
// because their cell was not planned.
func (f *renewal) covers(model int64, kind layout.Kind, r sealedRow) bool {
	i := slices.IndexFunc(f.plans, func(p plan) bool { return p.model.ID == model && p.kind == kind })
	if i < f.plan {
		return true // or of a model that came later
	}
	at, planned := slices.BinarySearchFunc(f.plans[i].cells, r, func(k rowsOfCell, r sealedRow) int {
		return cmp.Or(k.cell.Compare(r.cell), cmp.Compare(k.id, r.id))
	})
	switch {
	case !planned:
		return true
	case i > f.plan || at > f.cell:
		return false
	case at < f.cell:
		return true
	}
	return memory.CompareRefs(r.ref, f.after) <= 0
}

// cut makes the rows that were read a part of the generation.
func (f *renewal) cut() error {
	if f.draft == nil {
		return nil
	}
	d, before := f.draft, len(f.m.next.Segments)
	f.draft = nil
	if err := f.m.take(d, nil); err != nil {
		return err
	}
	for _, s := range f.m.next.Segments[before:] {
		f.m.next.First += s.Bytes
	}
	return nil
}

// commitRenewal makes the files of a rebuild those in use. c.work is held.
func (c *Codes) commitRenewal(f *renewal) error {
	c.mu.take()
	c.lost = nil // what goes missing from now on may be one of these
	c.mu.unlock()
	m := f.m
	from := m.dir
	m.dir, m.made = c.opts.Folder, nil
	for name := range m.next.names() {
		// A file of the same bytes has the same name: it is replaced.
		if err := os.Rename(filepath.Join(from, name), filepath.Join(m.dir, name)); err != nil {
			return errors.Join(err, m.abandon())
		}
		m.made = append(m.made, name)
	}
	if err := errors.Join(syncFolder(from), syncFolder(m.dir)); err != nil {
		return errors.Join(err, m.abandon())
	}
	return c.commit(m)
}

// dropRenewal removes what a rebuild has made and is not in use. c.work is held.
func (c *Codes) dropRenewal() (err error) {
	if f := c.renewal; f != nil && f.draft != nil {
		err = f.draft.abandon()
	}
	c.renewal = nil
	c.noteRenewal()
	if !holdsFiles(c.opts.Folder) {
		return nil // nor a folder in it
	}
	return errors.Join(err, os.RemoveAll(filepath.Join(c.opts.Folder, renewalFolder)))
}

// eraseRenewal takes what the store has deleted or changed out of the files of a
// rebuild (DECISIONS 14). Where that cannot be done they are given up, and the
// rebuild begins anew. c.work is held.
func (c *Codes) eraseRenewal(ctx context.Context) error {
	f := c.renewal
	if f == nil {
		return nil
	}
	if !f.outdated() {
		err := f.erase(ctx)
		if err == nil {
			return nil
		}
		c.opts.Log.Warn("a rebuild of the matrices begins anew, because a text could not be erased from what it had made", "error", err)
	}
	return c.dropRenewal()
}

func (f *renewal) erase(ctx context.Context) error {
	builder := f.m.ctx
	defer func() { f.m.ctx = builder }()
	f.m.ctx = ctx
	err := f.cut() // what is in a file that is not finished goes too
	if err != nil {
		return err
	}
	if _, err := f.m.eraseAll(); err != nil {
		return err
	}
	_, err = sweepCodes(f.m.dir, f.m.next.names())
	return err
}

// A rebuild waits for those who are being answered, before each stretch, at most so
// long, and looks again so often. Where there is always somebody, a stretch is one
// page.
const (
	longestWay = 25 * time.Millisecond
	look       = time.Millisecond
)

// giveWay waits while somebody is being answered.
func (c *Codes) giveWay(ctx context.Context) {
	for waited := time.Duration(0); waited < longestWay && c.opts.Busy() && ctx.Err() == nil; waited += look {
		time.Sleep(look)
	}
}
