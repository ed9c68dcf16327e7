package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"recalld/lexical"
	"recalld/sqlite"
)

// lookAgain is how long the goroutine waits when nobody wakes it. After failures
// it waits twice as long each time, up to lookAgainAtLast: a build that a full
// disk ends is not cheap.
const (
	lookAgain       = time.Second
	lookAgainAtLast = time.Minute
)

// run follows the log, builds what is missing, seals and merges, until the
// context ends.
func (l *Lexical) run(ctx context.Context) {
	pause := lookAgain
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		err := l.tidy(ctx)
		if ctx.Err() == nil {
			l.report(err)
		}
		if errors.Is(err, lexical.ErrCorrupt) {
			if err := l.quarantine(nil, err); err != nil && ctx.Err() == nil {
				l.opts.Log.Warn("a damaged file could not be set aside", "error", err)
			}
		}
		if err == nil || errors.Is(err, lexical.ErrCorrupt) {
			pause = lookAgain
		} else {
			pause = min(2*pause, lookAgainAtLast)
		}
		tick.Reset(pause)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-l.wake:
		}
	}
}

// report keeps what became of the last attempt, and logs a failure once.
func (l *Lexical) report(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	said := l.whyInMemory
	if err != nil {
		said = "files cannot be brought up to date: " + err.Error()
	}
	if said == l.trouble {
		return
	}
	l.trouble = said
	if err != nil {
		l.opts.Log.Warn("the lexical index could not be brought up to date", "error", err)
	}
}

// tidy does everything that is due.
func (l *Lexical) tidy(ctx context.Context) error {
	l.mu.RLock()
	written := intact(l.files)
	l.mu.RUnlock()
	if written != nil {
		return written
	}
	if err := l.build(ctx); err != nil {
		return err
	}
	view, err := l.store.ViewRecords(ctx)
	if err != nil {
		return err
	}
	err = l.follow(view)
	if err := errors.Join(err, view.Close()); err != nil {
		return err
	}
	if l.eraseDue() || l.unerased.Load() {
		if err := l.Erase(ctx); err != nil {
			return err
		}
	}
	if l.sealDue() {
		if err := l.Seal(ctx); err != nil {
			return err
		}
	}
	if l.MergeDue() {
		return l.publish(ctx, false, tier(l.opts.MaxFile))
	}
	return nil
}

// Seal makes files of everything that waits in memory. It is done whenever
// enough waits; whoever cannot wait calls it.
func (l *Lexical) Seal(ctx context.Context) error { return l.publish(ctx, true, nil) }

// eraseDue reports whether a file holds a row that is deleted. Whoever deletes
// erases; this is for those who were killed or cancelled between the two, and
// for other programs.
func (l *Lexical) eraseDue() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.ContainsFunc(l.files, func(f *file) bool { return len(f.dead) > 0 })
}

func (l *Lexical) sealDue() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	rows, _ := l.index.Recent()
	return rows >= l.opts.SealRows || l.text >= l.opts.SealText || l.applied-l.sealed >= 4*l.opts.SealRows
}

// MergeDue reports whether files wait to be merged.
func (l *Lexical) MergeDue() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(tier(l.opts.MaxFile)(l.files)) > 0
}

// build builds missing cells, one batch after another.
func (l *Lexical) build(ctx context.Context) error {
	var cells []lexical.Cell
	var listed int64
	for {
		l.mu.RLock()
		building := len(l.missing) > 0
		l.mu.RUnlock()
		if !building {
			return nil
		}
		if cells == nil {
			var err error
			if cells, listed, err = l.cells(ctx); err != nil {
				return err
			}
		}
		switch err := l.buildBatch(ctx, cells, listed); {
		case errors.Is(err, errOutdated):
			cells = nil
		case err != nil:
			return err
		}
	}
}

// errOutdated says that a generation was sealed after the snapshot was taken.
var errOutdated = errors.New("the snapshot is older than the generation")

// cells lists every cell of the store, ascending and never nil, and the snapshot
// that it was read from.
func (l *Lexical) cells(ctx context.Context) (cells []lexical.Cell, seq int64, err error) {
	view, err := l.store.ViewRecords(ctx)
	if err != nil {
		return nil, 0, err
	}
	cells = []lexical.Cell{}
	err = view.AllCells(func(c sqlite.CellStats) error {
		cells = append(cells, lexical.Cell(c.ID))
		return nil
	})
	slices.Sort(cells)
	return cells, view.Seq(), errors.Join(err, view.Close())
}

// buildBatch builds the first missing cells from one snapshot: about BuildText
// bytes of text, and at least one whole cell. Numbers of cells only grow: one
// that came into being after the list was made stands behind all of it, and the
// log since then tells about its rows.
func (l *Lexical) buildBatch(ctx context.Context, cells []lexical.Cell, listed int64) error {
	view, err := l.store.ViewRecords(ctx)
	if err != nil {
		return err
	}
	defer view.Close()
	l.work.Lock()
	defer l.work.Unlock()
	l.mu.RLock()
	switch {
	case len(l.missing) == 0:
		l.mu.RUnlock()
		return nil
	case min(listed, view.Seq()) < l.sealed:
		l.mu.RUnlock()
		return errOutdated
	}
	gap := l.missing[0]
	p := &publication{epoch: l.epoch, since: view.Seq(), built: &gap}
	b := &batch{l: l, ctx: ctx, builder: lexical.NewBuilder(), name: l.leftovers, into: p}
	l.mu.RUnlock()

	at, _ := slices.BinarySearch(cells, gap.First)
	for ; at < len(cells) && cells[at] <= gap.Last; at++ {
		if b.text >= l.opts.BuildText {
			gap.Last = cells[at] - 1
			break
		}
		if err := b.cell(view, cells[at]); err != nil {
			return errors.Join(err, l.abandon(p))
		}
	}
	if at == len(cells) {
		p.since = listed
	}
	if err := b.seal(); err != nil {
		return errors.Join(err, l.abandon(p))
	}
	p.refs = b.rows
	return l.complete(p)
}

// batch is one snapshot's cells on their way into files.
type batch struct {
	l       *Lexical
	ctx     context.Context
	builder *lexical.Builder
	text    int64
	name    bool // keep the names of the rows
	rows    []row
	into    *publication
}

func (b *batch) cell(view *sqlite.View, id lexical.Cell) error {
	b.l.mu.Lock()
	b.l.mark(id, view.Seq())
	b.l.mu.Unlock()
	for d, err := range texts(view, []lexical.Cell{id}) {
		if err != nil {
			return err
		}
		if b.builder.Text() >= b.l.opts.BuildText {
			if err := b.seal(); err != nil {
				return err
			}
		}
		b.builder.Add(d)
		b.text += int64(len(d.Text))
		if b.name {
			b.rows = append(b.rows, row{d.Cell, d.Ref})
		}
	}
	return b.ctx.Err()
}

// seal writes what was added as one file.
func (b *batch) seal() error {
	if b.builder.Text() == 0 {
		return nil
	}
	coded, err := b.builder.Seal()
	if err != nil {
		return err
	}
	f, err := b.l.put(coded)
	if err != nil {
		return fmt.Errorf("build postings: %w", err)
	}
	b.into.outputs = append(b.into.outputs, &output{file: f})
	return nil
}
