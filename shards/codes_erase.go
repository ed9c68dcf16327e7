package shards

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"github.com/RoaringBitmap/roaring/v2"

	"recalld/layout"
)

// Erase returns once the codes and values of everything that the store has
// deleted or changed are gone from every file, those that were set aside included
// (DECISIONS 14). A build in hand gives way to it. What could not be erased is tried
// again in the background.
func (c *Codes) Erase(ctx context.Context) error {
	c.unerased.Store(true)
	c.erasing.Add(1)
	err := c.work.lock(ctx)
	c.erasing.Add(-1)
	if err != nil {
		c.Wake()
		return fmt.Errorf("erase from the matrices: %w", err)
	}
	defer c.work.unlock()
	if err := c.eraseEverywhere(ctx); err != nil {
		c.Wake()
		return err
	}
	return nil
}

// eraseEverywhere is Erase with c.work held.
func (c *Codes) eraseEverywhere(ctx context.Context) error {
	c.unerased.Store(false) // a deletion from now on has an Erase of its own
	unmade := c.eraseRenewal(ctx)
	begun, err := c.load(ctx)
	if err == nil && begun {
		err = c.erase(ctx)
		for try := 1; try < maxTries; try++ {
			var bad *badFile
			if !errors.As(err, &bad) {
				break
			}
			if err = c.setAside(ctx, bad); err == nil {
				err = c.erase(ctx)
			}
		}
		if errors.Is(err, errTrimmed) {
			err = c.dropAll(ctx) // the log does not say what has to go
		}
	}
	if err == nil && holdsFiles(c.opts.Folder) {
		err = emptyQuarantine(c.opts.Folder)
	}
	if err = errors.Join(err, unmade); err != nil {
		c.unerased.Store(true)
		return fmt.Errorf("erase from the matrices: %w", err)
	}
	return nil
}

// holdsFiles reports whether there is a folder, or may be one that cannot be looked
// at. A path on which there is none holds nothing that could be erased.
func holdsFiles(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
	}
	return info.IsDir()
}

// erase is Erase with c.work held, but for what was set aside.
func (c *Codes) erase(ctx context.Context) error {
	m, err := c.newMaker(ctx)
	if err != nil {
		return err
	}
	changed, err := m.eraseAll()
	if err != nil {
		return errors.Join(err, m.abandon())
	}
	if !changed {
		return c.removeForgotten()
	}
	return c.commit(m)
}

// eraseLeft erases what a process before this one was killed or failed to erase;
// c.work is held.
func (c *Codes) eraseLeft(ctx context.Context) error {
	before := c.current().Number
	if err := c.erase(ctx); err != nil {
		return err
	}
	if c.current().Number != before {
		if err := emptyQuarantine(c.opts.Folder); err != nil {
			return err
		}
	}
	c.lookedBack = true
	return nil
}

func (m *maker) eraseAll() (changed bool, err error) {
	before := len(m.next.Segments)
	if err := m.buryErased(); err != nil {
		return false, err
	}
	changed = len(m.next.Segments) < before
	for _, s := range slices.Clone(m.next.Segments) {
		if !s.Erase {
			continue
		}
		changed = true
		if err := m.merge([]segmentEntry{s}, nil); err != nil {
			return false, err
		}
	}
	for _, model := range m.next.Models {
		loose := slices.ContainsFunc(m.next.Values, func(v valuesEntry) bool { return v.Model == model.ID && v.Loose })
		if !loose {
			continue
		}
		changed = true
		if err := m.eraseLoose(model); err != nil {
			return false, err
		}
	}
	return changed, nil
}

// buryErased marks the rows of texts that were deleted or changed since the files
// were made. The log is not taken over by it.
func (m *maker) buryErased() error {
	for after, n := m.next.Sequence, changesPerSeal; n == changesPerSeal; {
		changes, err := m.readLog(after, changesPerSeal)
		if err != nil {
			return err
		}
		erased := slices.DeleteFunc(changes.records, func(t touchedCodes) bool { return !t.erased })
		if err := m.bury(m.tombs(erased), len(m.next.Segments)); err != nil {
			return err
		}
		after, n = changes.last, changes.n
	}
	return nil
}

// eraseLoose writes the loose value files of a model anew, without the slots to
// which no live row points.
func (m *maker) eraseLoose(model codedModel) error {
	used, err := m.pointed(model.ID)
	if err != nil {
		return err
	}
	var kept []valuesEntry
	for _, v := range m.next.Values {
		if v.Model == model.ID && v.Loose {
			in := used[v.Number]
			if in == nil {
				continue // nothing points at it
			}
			if v, err = m.eraseSlots(model, v, in); err != nil {
				return err
			}
		}
		kept = append(kept, v)
	}
	m.next.Values = kept
	return nil
}

func (m *maker) eraseSlots(model codedModel, v valuesEntry, used *roaring.Bitmap) (valuesEntry, error) {
	values, err := layout.OpenValues(m.dir, v.Name, m.next.source(model))
	if err != nil {
		return v, inFile(v.Name, err)
	}
	unused := roaring.New()
	unused.AddRange(0, uint64(v.Slots))
	unused.AndNot(used)
	name, err := values.Erase(m.ctx, m.dir, unused.ToArray())
	if err := errors.Join(inFile(v.Name, err), values.Close()); err != nil {
		return v, err
	}
	v.Name, v.Loose, v.Erase = name, false, false
	m.made = append(m.made, name)
	v.Bytes, err = fileBytes(m.dir, name)
	return v, err
}

// RemoveCodes removes every file of matrices from a folder, those that were set
// aside included: for a store whose matrices are not used any more, and from which
// something may be deleted (DECISIONS 14). A path on which there is no folder holds
// none.
func RemoveCodes(folder string) error {
	if !holdsFiles(folder) {
		return nil
	}
	_, err := sweepCodes(folder, nil)
	err = errors.Join(err, removeName(folder, catalogName), emptyQuarantine(folder))
	if err != nil {
		return fmt.Errorf("remove the matrices: %w", err)
	}
	return nil
}
