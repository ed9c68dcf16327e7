package shards

import (
	"context"
	"errors"
	"fmt"

	"recalld/layout"
)

// Verify reads every file of the generation in full and returns the names of those
// that are damaged. With repair they are set aside and their agents built again.
// progress, which may be nil, is told bytes.
func (c *Codes) Verify(ctx context.Context, repair bool, progress func(done, total int64)) (damaged []string, err error) {
	if err := c.work.lock(ctx); err != nil {
		return nil, err
	}
	defer c.work.unlock()
	if begun, err := c.load(ctx); err != nil || !begun {
		return nil, err
	}
	m, err := c.newMaker(ctx)
	if err != nil {
		return nil, err
	}
	var done, total int64
	for _, size := range m.next.sizes() {
		total += size
	}
	check := func(name string, size int64, verify func(tell func(int64)) error) error {
		err := verify(func(n int64) {
			if progress != nil {
				progress(min(done+n, total), total)
			}
		})
		done += size
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !unusableFile(err):
			return fmt.Errorf("verify %s: %w", name, err)
		case err != nil:
			damaged = append(damaged, name)
			if repair {
				return c.setAside(ctx, &badFile{name, err})
			}
		}
		return nil
	}
	for _, e := range m.next.Segments {
		err := check(e.Name, e.Bytes, func(tell func(int64)) error {
			s, err := m.segment(e)
			if err != nil {
				return err
			}
			return errors.Join(layout.Guard(func() error { return s.Verify(ctx, tell) }), s.Close())
		})
		if err != nil {
			return damaged, err
		}
	}
	for _, e := range m.next.Values {
		model, _ := m.next.model(e.Model)
		err := check(e.Name, e.Bytes, func(tell func(int64)) error {
			v, err := layout.OpenValues(c.opts.Folder, e.Name, m.next.source(model))
			if err != nil {
				return err
			}
			return errors.Join(layout.Guard(func() error { return v.Verify(ctx, tell) }), v.Close())
		})
		if err != nil {
			return damaged, err
		}
	}
	return damaged, nil
}

// drop drops every file.
func (c *Codes) drop(ctx context.Context) (begun bool, err error) {
	if err := c.work.lock(ctx); err != nil {
		return false, err
	}
	defer c.work.unlock()
	if begun, err := c.load(ctx); err != nil || !begun {
		return begun, err
	}
	return true, c.dropAll(ctx)
}

// dropAll is drop with c.work held.
func (c *Codes) dropAll(ctx context.Context) error {
	view, err := c.store.ViewRecords(ctx)
	if err != nil {
		return err
	}
	defer view.Close()
	if err := c.mu.lock(ctx); err != nil {
		return err
	}
	err = c.startOver(ctx, view)
	c.mu.unlock()
	return errors.Join(err, c.removeForgotten())
}
