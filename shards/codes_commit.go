package shards

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"recalld/layout"
	"recalld/scanner/client"
)

// turn is a lock whose waiting ends with a context.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) lock(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take is lock for whoever waits as long as it takes.
func (t turn) take() { t <- struct{}{} }

func (t turn) unlock() { <-t }

// publishTime bounds how long a scanner may take to come up and open a generation.
const publishTime = 30 * time.Second

// commit makes what a maker made the generation in use: it writes the catalog,
// tells the scanner, and removes the files that are not named any more. c.work is
// held. After an error nothing has changed and what was made is gone; a scanner
// that cannot be told learns it when it can.
func (c *Codes) commit(m *maker) error {
	if err := m.vouch(); err != nil {
		return errors.Join(err, m.abandon())
	}
	if err := c.mu.lock(m.ctx); err != nil {
		return errors.Join(err, m.abandon())
	}
	err := c.exchange(m)
	c.mu.unlock()
	if err != nil {
		return errors.Join(err, m.abandon())
	}
	if err := c.removeForgotten(); err != nil {
		return err
	}
	if err := c.followNow(m.ctx); err != nil {
		c.opts.Log.Debug("the log could not be taken over after a new generation", "error", err)
	}
	return m.ctx.Err()
}

// vouch notes what the store must have that the files are used with.
func (m *maker) vouch() error {
	if m.seen <= m.next.Seen {
		return nil
	}
	view, err := m.c.store.ViewRecords(m.ctx)
	if err != nil {
		return err
	}
	m.next.Seen = m.seen
	m.next.SeenLineage, err = lineageOf(view, m.seen)
	return errors.Join(err, view.Close())
}

// exchange is the step from one generation to the next. c.mu is held.
func (c *Codes) exchange(m *maker) error {
	if c.closed {
		return errClosed
	}
	if c.epoch != m.epoch {
		return errors.New("the matrices were dropped meanwhile")
	}
	next := m.next
	for _, name := range c.lost {
		next, _ = next.without(name)
	}
	next.Number = c.catalog.Number + 1
	if err := next.write(c.opts.Folder); err != nil {
		return err
	}
	c.forget(c.catalog, next)
	c.catalog = next
	clear(c.waiting)
	c.floor = max(c.floor, m.seen)
	c.marks = slices.DeleteFunc(c.marks, func(m mark) bool { return m.at <= c.floor })
	c.publishSoon(m.ctx)
	return nil
}

// forget notes the files that the next generation does not name any more.
func (c *Codes) forget(last, next catalog) {
	named := next.names()
	for name := range last.names() {
		if !named[name] {
			c.forgotten[name] = true
		}
	}
	for name := range named {
		delete(c.forgotten, name)
	}
}

// removeForgotten removes files that no generation names. What cannot be removed
// now is removed the next time.
func (c *Codes) removeForgotten() error {
	c.mu.take()
	defer c.mu.unlock()
	if !holdsFiles(c.opts.Folder) {
		clear(c.forgotten)
		return nil
	}
	var all error
	for name := range c.forgotten {
		if err := removeName(c.opts.Folder, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, err)
			continue
		}
		delete(c.forgotten, name)
	}
	if all != nil {
		return fmt.Errorf("remove files of codes that are of no use: %w", all)
	}
	return nil
}

// publish tells the scanner of the generation in use, without the files that it
// cannot use. c.mu is held.
func (c *Codes) publish(ctx context.Context) error {
	for {
		c.applied, c.told = c.catalog.Sequence, c.catalog.Sequence
		c.deltaRows, c.deltaBytes, c.deltaChanges = 0, 0, 0
		c.unsure = true
		if c.down != nil {
			return nil // it is told when it is there again
		}
		_, err := c.client.Publish(ctx, c.catalog.request())
		var file *client.FileError
		switch {
		case err == nil:
			c.unsure = false
			return nil
		case !errors.As(err, &file):
			return err
		case !c.dismiss(file.File, err):
			return err
		}
	}
}

// publishSoon is publish for those who go on without the scanner. c.mu is held.
func (c *Codes) publishSoon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	if err := c.publish(ctx); err != nil {
		c.lose(err)
	}
}

// lose notes that the scanner cannot be used until the goroutine has found it
// again. Nobody waits for it meanwhile. c.mu is held.
func (c *Codes) lose(err error) {
	if c.down == nil {
		c.opts.Log.Warn("the scanner cannot be used", "error", err)
	}
	c.down, c.unsure = err, true
	select {
	case c.gone <- struct{}{}:
	default:
	}
}

// watch brings a scanner back that was lost, until the context ends.
func (c *Codes) watch(ctx context.Context) {
	pause := lookAgain
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-c.gone:
		}
		if c.revive(ctx) == nil {
			pause = lookAgain
		} else {
			pause = min(2*pause, lookAgainAtLast)
		}
		tick.Reset(pause)
	}
}

// revive starts the scanner, if need be, and tells it everything.
func (c *Codes) revive(ctx context.Context) error {
	if err := c.mu.lock(ctx); err != nil {
		return err
	}
	down := c.down
	c.mu.unlock()
	if down == nil {
		return nil
	}
	alive := ctx
	ctx, cancel := context.WithTimeout(alive, publishTime)
	defer cancel()
	err := c.client.Await(ctx)
	var file *client.FileError
	found := err == nil || errors.Is(err, client.ErrBehind) || errors.Is(err, client.ErrRefused) || errors.As(err, &file)
	if err := c.mu.lock(alive); err != nil {
		return err
	}
	defer c.mu.unlock()
	if !found {
		if alive.Err() == nil {
			c.down = err // what was said before is of another attempt
		}
		return err
	}
	c.down, c.unsure = nil, true
	if err := c.certain(ctx); err != nil {
		c.lose(err)
		return err
	}
	return nil
}

// certain finds out what the scanner holds, after a call of which that is not
// known. c.mu is held.
func (c *Codes) certain(ctx context.Context) error {
	if !c.unsure {
		return nil
	}
	stats, err := c.client.Stats(ctx)
	var file *client.FileError
	switch {
	case errors.As(err, &file):
		// It may be of a generation that only the client still has.
		c.dismiss(file.File, err)
		return c.publish(ctx)
	case errors.Is(err, client.ErrBehind), errors.Is(err, client.ErrRefused):
		return c.publish(ctx) // it has no generation, or was taught what does not fit
	case err != nil:
		return err
	case stats.GetState().GetGeneration() != c.catalog.Number:
		return c.publish(ctx)
	}
	c.unsure = false
	c.told = max(c.catalog.Sequence, stats.GetState().GetSequence())
	c.applied = c.told
	return nil
}

// unusableFile reports whether an error says that a file cannot be used, whatever
// is asked of it.
func unusableFile(err error) bool {
	return errors.Is(err, layout.ErrDamaged) || errors.Is(err, layout.ErrVersion) || errors.Is(err, layout.ErrForeign) ||
		errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// dismiss sets a file of the generation aside, and those that are gone or of
// another length as well: their agents are missing from then on and are built
// again. It returns false when the generation has no such file. c.mu is held.
func (c *Codes) dismiss(name string, cause error) bool {
	if !c.catalog.names()[name] {
		return false
	}
	names := []string{name}
	for other, size := range c.catalog.sizes() {
		if info, err := os.Stat(filepath.Join(c.opts.Folder, other)); other != name && (err != nil || info.Size() != size) {
			names = append(names, other)
		}
	}
	next := c.catalog
	var left []string // under their names, to be removed when that can be done
	for _, name := range names {
		var dropped []string
		next, dropped = next.without(name)
		c.lost = append(append(c.lost, name), dropped...)
		c.opts.Log.Warn("a file of codes is set aside and its agents are built again", "file", name, "error", cause)
		if err := setAside(c.opts.Folder, name); err != nil {
			c.opts.Log.Warn("the file could not be set aside", "file", name, "error", err)
			left = append(left, name)
		}
	}
	next.Number++
	c.forget(c.catalog, next)
	for _, name := range names {
		if !slices.Contains(left, name) {
			delete(c.forgotten, name) // it is not there under its name
		}
	}
	c.catalog = next
	if err := next.write(c.opts.Folder); err != nil {
		c.opts.Log.Warn("the catalog could not be written; the next start finds the file missing", "error", err)
	}
	c.Wake()
	return true
}
