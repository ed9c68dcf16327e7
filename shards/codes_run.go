package shards

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"recalld/layout"
	"recalld/sqlite"
)

// run brings the matrices up to date until the context ends.
func (c *Codes) run(ctx context.Context) {
	pause := lookAgain
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		err := c.tidy(ctx)
		var bad *badFile
		if errors.As(err, &bad) {
			err = c.setAside(ctx, bad)
		}
		if ctx.Err() == nil {
			c.reportTrouble(err)
		}
		if err == nil {
			pause = lookAgain
		} else {
			pause = min(2*pause, lookAgainAtLast)
		}
		tick.Reset(pause)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-c.wake:
		}
	}
}

// reportTrouble keeps what became of the last attempt, and logs a failure once.
func (c *Codes) reportTrouble(err error) {
	said := ""
	if err != nil {
		said = "the matrices cannot be brought up to date: " + err.Error()
	}
	c.mu.take()
	defer c.mu.unlock()
	if said != c.trouble && err != nil {
		c.opts.Log.Warn("the matrices could not be brought up to date", "error", err)
	}
	c.trouble = said
}

// setAside sets a file aside that a maker could not use, and goes on with the
// next round at once.
func (c *Codes) setAside(ctx context.Context, bad *badFile) error {
	if err := c.mu.lock(ctx); err != nil {
		return err
	}
	defer c.mu.unlock()
	if !c.dismiss(bad.name, bad) {
		return nil
	}
	c.publishSoon(ctx)
	return nil
}

// tidy does everything that is due.
func (c *Codes) tidy(ctx context.Context) error {
	begun, err := c.prepare(ctx)
	if err != nil || !begun {
		return err
	}
	revived := c.revive(ctx)
	if err := c.build(ctx, nil); err != nil {
		return c.trimmed(ctx, err)
	}
	followed := error(nil)
	for _, task := range []struct {
		due func() bool
		do  func(context.Context) error
	}{
		{c.sealDue, c.seal},
		{func() bool { return true }, func(ctx context.Context) error {
			if followed = c.followNow(ctx); errors.Is(followed, errFarBehind) {
				followed = nil // it is sealed first, in the next round
			}
			return nil
		}},
		{c.sealDue, c.seal},
		{func() bool { return c.tier() != nil }, c.compactTier},
		{c.eraseDue, c.erase},
		{c.unerased.Load, c.eraseEverywhere},
		{func() bool { return !c.lookedBack }, c.eraseLeft},
	} {
		if err := c.work.lock(ctx); err != nil {
			return err
		}
		err := error(nil)
		if task.due() {
			err = task.do(ctx)
		}
		c.work.unlock()
		if err != nil {
			return errors.Join(c.trimmed(ctx, err), revived)
		}
	}
	if revived != nil {
		return revived
	}
	return followed
}

// trimmed begins anew when that is what an error asks for, and returns others.
func (c *Codes) trimmed(ctx context.Context, err error) error {
	if !errors.Is(err, errTrimmed) {
		return err
	}
	c.opts.Log.Warn("the change log was trimmed past the files of codes, which are built anew")
	if _, err := c.drop(ctx); err != nil {
		return err
	}
	c.Wake()
	return nil
}

// prepare loads the catalog and looks at files and models.
func (c *Codes) prepare(ctx context.Context) (begun bool, err error) {
	if err := c.work.lock(ctx); err != nil {
		return false, err
	}
	defer c.work.unlock()
	if begun, err := c.load(ctx); err != nil || !begun {
		return false, err
	}
	return true, errors.Join(c.lookAtFiles(ctx), c.look(ctx), c.removeForgotten())
}

// load checks the catalog that is there, or begins a generation when the store has
// enough rows. begun says that there is one. c.work is held.
func (c *Codes) load(ctx context.Context) (begun bool, err error) {
	if c.started() {
		return true, nil
	}
	view, err := c.store.ViewRecords(ctx)
	if err != nil {
		return false, err
	}
	defer view.Close()
	rows, err := view.CodedRows()
	if err != nil {
		return false, err
	}
	if err := c.mu.lock(ctx); err != nil {
		return false, err
	}
	defer c.mu.unlock()
	if c.closed {
		return false, errClosed
	}
	if err := c.names.extend(view); err != nil {
		return false, err
	}
	reason := errNoManifest
	if c.catalog.Number > 0 {
		reason = belongs(manifest{Truth: c.catalog.Truth, Sequence: c.catalog.Sequence, Lineage: c.catalog.Lineage}, view, c.store.TruthID())
		if reason == nil {
			reason = belongs(manifest{Truth: c.catalog.Truth, Sequence: c.catalog.Seen, Lineage: c.catalog.SeenLineage}, view, c.store.TruthID())
		}
		if reason != nil && !errors.Is(reason, errNoManifest) {
			return false, reason
		}
	}
	switch {
	case reason == nil:
		c.begun, c.floor = true, view.Seq() // files may hold a later state than the catalog's
		if err := c.sweep(); err != nil {
			c.opts.Log.Warn("files without a generation could not be removed", "error", err)
		}
		c.down, c.unsure = errStarting, true
		return true, nil
	case rows < c.opts.MinRows:
		c.catalog = catalog{}
		c.few, c.fewAt = true, view.Seq()
		if !holdsFiles(c.opts.Folder) {
			return false, nil
		}
		return false, errors.Join(c.sweep(), removeName(c.opts.Folder, catalogName))
	}
	c.opts.Log.Info("the matrices are built from the store", "reason", reason)
	c.begun, c.down = true, errStarting
	return true, c.begin(ctx, view)
}

// begin starts a generation without files at the snapshot. c.mu is held.
func (c *Codes) begin(ctx context.Context, view *sqlite.View) error {
	next, err := c.blank(view)
	if err != nil {
		return err
	}
	next.Number, next.Missing = c.catalog.Number+1, everyKey()
	c.forget(c.catalog, next)
	c.catalog = next
	c.epoch++
	c.floor, c.marks = max(c.floor, view.Seq()), nil
	clear(c.waiting)
	// Files that cannot be kept stop what is built of them, not what is told.
	if err := errors.Join(next.write(c.opts.Folder), c.sweep()); err != nil {
		c.opts.Log.Warn("files of codes cannot be kept", "folder", c.opts.Folder, "error", err)
	}
	c.publishSoon(ctx)
	return nil
}

// blank is a generation at the snapshot that has no file, and no number yet.
func (c *Codes) blank(view *sqlite.View) (k catalog, err error) {
	k = catalog{Version: catalogVersion, Format: layout.Version, Policy: sqlite.BlockPolicy, Lean: c.opts.Lean, Truth: c.store.TruthID(), Sequence: view.Seq()}
	if k.Lineage, err = lineageOf(view, k.Sequence); err != nil {
		return k, err
	}
	models, err := view.Models()
	if err != nil {
		return k, err
	}
	for _, m := range models {
		if coded, ok := identify(m); ok {
			k.Models = append(k.Models, coded)
		}
	}
	k.Seen, k.SeenLineage = k.Sequence, k.Lineage
	return k, nil
}

// errStarting says that the scanner was not started yet.
var errStarting = fmt.Errorf("%w: the scanner is starting", ErrNotBuilt)

// startOver drops everything that was built. c.mu is held.
func (c *Codes) startOver(ctx context.Context, view *sqlite.View) error {
	defer c.Wake()
	return c.begin(ctx, view)
}

// lookAtFiles sets files aside that are gone, or are not as long as they were.
func (c *Codes) lookAtFiles(ctx context.Context) error {
	for name, size := range c.current().sizes() {
		info, err := os.Stat(filepath.Join(c.opts.Folder, name))
		if err == nil && info.Size() == size {
			continue
		}
		if err == nil {
			err = fmt.Errorf("it has %d bytes, not %d", info.Size(), size)
		}
		if err := c.setAside(ctx, &badFile{name, err}); err != nil {
			return err
		}
	}
	return nil
}

// look notes how far the store is, and takes models whose vectors are gone out of
// the generation. c.work is held.
func (c *Codes) look(ctx context.Context) error {
	view, err := c.store.ViewRecords(ctx)
	if err != nil {
		return err
	}
	c.mu.take()
	c.newest = view.Seq()
	c.mu.unlock()
	retired := make(map[int64]bool)
	for _, m := range c.current().Models {
		_, searched, _, err := view.ModelWidth(m.ID)
		if err != nil {
			return errors.Join(err, view.Close())
		}
		retired[m.ID] = !searched
	}
	if err := view.Close(); err != nil {
		return err
	}
	m, err := c.newMaker(ctx)
	if err != nil {
		return err
	}
	before := len(m.next.Models)
	m.next.Models = slices.DeleteFunc(m.next.Models, func(k codedModel) bool { return retired[k.ID] })
	if len(m.next.Models) == before {
		return nil
	}
	m.next.Segments = slices.DeleteFunc(m.next.Segments, func(s segmentEntry) bool { return retired[s.Model] })
	m.next.Values = slices.DeleteFunc(m.next.Values, func(v valuesEntry) bool { return retired[v.Model] })
	return c.commit(m)
}

// sealDue reports whether the scanner holds enough beside its files.
func (c *Codes) sealDue() bool {
	c.mu.take()
	defer c.mu.unlock()
	return c.deltaRows >= c.opts.SealRows || c.deltaBytes >= c.opts.SealBytes || max(c.deltaChanges, c.newest-c.catalog.Sequence) >= c.changesBehind || len(c.waiting) > 0
}

// eraseDue reports whether a file holds a deleted or changed text. Whoever deletes
// erases; this is for those who were killed or cancelled between the two, and for
// other programs.
func (c *Codes) eraseDue() bool {
	k := c.current()
	return slices.ContainsFunc(k.Segments, func(s segmentEntry) bool { return s.Erase }) || slices.ContainsFunc(k.Values, func(v valuesEntry) bool { return v.Erase })
}
