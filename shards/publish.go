package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"recalld/lexical"
	"recalld/sqlite"
)

// output is one file to be made: what it takes the place of, and the file, nil
// when no row is left.
type output struct {
	old    []*file
	dead   []row // of old
	recent bool  // it holds the rows that wait in memory
	file   *file
}

// publication is what one new generation changes.
type publication struct {
	outputs []*output
	epoch   int
	since   int64 // changes after this are taken over again
	// seal moves the generation on to this change.
	seal     bool
	sequence int64
	lineage  int64
	// built are cells that the outputs hold completely. refs are their records;
	// nil when nothing else can hold any of them.
	built *Span
	refs  []row
}

// publish makes a new generation: it writes every file that has deleted rows
// anew without them, with seal also what waits in memory, and merges the files
// that pick chooses. Searches and changes go on meanwhile; what changed since is
// taken over again. Old files are gone from the folder on return.
func (l *Lexical) publish(ctx context.Context, seal bool, pick func([]*file) []*file) error {
	// Whoever waits for work may hold a snapshot, so that nobody who holds work may
	// wait for one.
	view, err := l.store.ViewRecords(ctx)
	if err != nil {
		return err
	}
	defer view.Close()
	l.work.Lock()
	defer l.work.Unlock()
	p, err := l.prepare(view, seal, pick)
	if err != nil || p == nil {
		return err
	}
	for _, o := range p.outputs {
		if err = ctx.Err(); err == nil {
			err = l.make(o)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("seal postings: %w", err), l.abandon(p))
		}
	}
	return l.complete(p)
}

// prepare decides what is to be made; nil when there is nothing to do.
func (l *Lexical) prepare(view *sqlite.View, seal bool, pick func([]*file) []*file) (p *publication, err error) {
	if err := l.follow(view); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	p = &publication{epoch: l.epoch, since: l.applied, seal: seal}
	var clean []*file
	for _, f := range l.files {
		if len(f.dead) > 0 {
			p.outputs = append(p.outputs, &output{old: []*file{f}, dead: slices.Clone(f.dead)})
		} else {
			clean = append(clean, f)
		}
	}
	if rows, _ := l.index.Recent(); seal && rows > 0 {
		p.outputs = append(p.outputs, &output{recent: true})
	}
	if pick != nil {
		if group := pick(clean); len(group) > 1 {
			p.outputs = append(p.outputs, &output{old: group})
		}
	}
	if seal {
		// The snapshot may be older than what is applied by now.
		p.sequence = min(l.applied, view.Seq())
		if p.sequence <= l.sealed {
			p.sequence, p.lineage = l.sealed, l.lineage
		} else if p.lineage, err = lineageOf(view, p.sequence); err != nil {
			return nil, err
		}
	}
	if len(p.outputs) == 0 && (!seal || p.sequence == l.sealed) {
		return nil, nil
	}
	return p, nil
}

// make codes and writes one output. l.mu is not held; the index in use is kept
// from changing only while what waits in memory is coded.
func (l *Lexical) make(o *output) error {
	l.mu.RLock()
	from := l.index
	l.mu.RUnlock()
	files := filesOf(o.old)
	var coded []byte
	// A file made from one that was written to would vouch for what is wrong.
	err := whileIntact(o.old, func() (err error) {
		if !o.recent {
			from = lexical.NewIndex(files...)
		}
		for _, r := range o.dead {
			if err := from.Delete(r.cell, r.ref); err != nil {
				return err
			}
		}
		coded, err = from.Merge(files, o.recent)
		return err
	})
	if err != nil {
		return err
	}
	o.file, err = l.put(coded)
	return err
}

// put writes postings as a file; nil when they have no rows.
func (l *Lexical) put(coded []byte) (*file, error) {
	if f, err := lexical.Open(coded); err != nil || f.Rows() == 0 {
		return nil, err
	}
	return put(l.opts.Folder, coded)
}

func filesOf(files []*file) []*lexical.File {
	out := make([]*lexical.File, len(files))
	for i, f := range files {
		out[i] = f.File
	}
	return out
}

// abandon removes what was made for a publication that failed. l.work is held.
func (l *Lexical) abandon(p *publication) error {
	var all error
	for _, o := range p.outputs {
		if o.file == nil {
			continue
		}
		all = errors.Join(all, o.file.release())
		l.forgotten[o.file.Name] = true
	}
	return all
}

// complete puts the outputs in the place of what they were made from and writes
// the manifest. l.work is held.
func (l *Lexical) complete(p *publication) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.epoch != p.epoch {
		return errors.Join(errors.New("seal postings: the index was dropped meanwhile"), l.abandon(p))
	}
	if err := l.swap(p); err != nil {
		return errors.Join(err, l.abandon(p))
	}
	return l.record()
}

// swap is the step from one generation to the next in memory. Whatever changed
// since the outputs were begun is taken over again, because changes may be
// taken over any number of times.
func (l *Lexical) swap(p *publication) error {
	l.applied = min(l.applied, p.since)
	for _, r := range p.refs {
		if err := l.remove(r.cell, r.ref); err != nil {
			return err
		}
	}
	for _, o := range p.outputs {
		var by *lexical.File
		if o.file != nil {
			by = o.file.File
		}
		if err := l.index.Replace(filesOf(o.old), o.recent, by); err != nil {
			return err
		}
		l.mirror.replace(o.old, o.recent, o.file)
		l.files = without(l.files, o.old...)
		l.retired = append(l.retired, o.old...)
		for _, f := range o.old {
			l.forgotten[f.Name] = true
		}
		if o.file != nil {
			l.files = append(l.files, o.file)
		}
		if o.recent {
			l.text = 0
		}
	}
	if p.seal {
		l.sealed, l.lineage = p.sequence, p.lineage
	}
	if p.built != nil {
		l.missing = l.missing.without(*p.built)
		l.leftovers = l.leftovers && len(l.missing) > 0
	}
	return nil
}

// record writes the manifest of the present generation, then removes the files
// that it no longer names. l.work and l.mu are held. What cannot be removed now
// is removed the next time.
func (l *Lexical) record() error {
	var all error
	for _, f := range l.retired {
		all = errors.Join(all, f.release())
	}
	l.retired = nil
	if l.opts.Folder == "" {
		return all
	}
	m := manifest{
		Version: manifestVersion, Format: lexical.FormatVersion, Analyser: lexical.AnalyserVersion,
		Truth: l.store.TruthID(), Sequence: l.sealed, Lineage: l.lineage, Missing: slices.Clone(l.missing), Files: []entry{},
	}
	for _, f := range l.files {
		m.Files = append(m.Files, f.entry)
		delete(l.forgotten, f.Name)
	}
	if err := m.write(l.opts.Folder); err != nil {
		return errors.Join(all, fmt.Errorf("write the manifest: %w", err))
	}
	for name := range l.forgotten {
		if err := removeName(l.opts.Folder, name); err != nil {
			all = errors.Join(all, err)
			continue
		}
		delete(l.forgotten, name)
	}
	return all
}

// recordAgain makes up for a record that failed. l.work is held.
func (l *Lexical) recordAgain() error {
	if len(l.forgotten) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	return l.record()
}

// Erase returns once the words of everything that the store has deleted or
// changed are gone from every file, those that were set aside included
// (DECISIONS 14). What could not be erased is tried again in the background.
func (l *Lexical) Erase(ctx context.Context) error {
	l.unerased.Store(false) // a deletion from now on has an Erase of its own
	if err := l.eraseEverywhere(ctx); err != nil {
		l.unerased.Store(true)
		l.Wake()
		return fmt.Errorf("erase from the lexical index: %w", err)
	}
	return nil
}

func (l *Lexical) eraseEverywhere(ctx context.Context) error {
	err := l.publish(ctx, false, nil)
	if errors.Is(err, lexical.ErrCorrupt) {
		if err = l.quarantine(nil, err); err == nil {
			err = l.publish(ctx, false, nil)
		}
	}
	if err != nil {
		return err
	}
	l.letGo(ctx)
	l.work.Lock()
	defer l.work.Unlock()
	if err := l.recordAgain(); err != nil {
		return err
	}
	switch {
	case l.opts.Folder != "":
		return emptyQuarantine(l.opts.Folder)
	case l.unusable != "":
		// What an earlier process left there cannot be written anew, only removed.
		return eraseFolder(l.unusable)
	}
	return nil
}

// mergeFactor is how many files of like size are merged into one. A row is
// written again each time its file grows by this factor, and so a number of
// times that follows the logarithm of the store.
const mergeFactor = 4

// tier chooses the smallest files that are worth merging into one: at least
// mergeFactor of like size, together at most limit bytes.
func tier(limit int64) func([]*file) []*file {
	return func(files []*file) []*file {
		sorted := slices.Clone(files)
		slices.SortStableFunc(sorted, func(a, b *file) int { return int(a.Bytes - b.Bytes) })
		for i := range sorted {
			var sum int64
			n := 0
			for _, f := range sorted[i:] {
				if f.Bytes > mergeFactor*sorted[i].Bytes || sum+f.Bytes > limit {
					break
				}
				sum, n = sum+f.Bytes, n+1
			}
			if n >= mergeFactor {
				return sorted[i : i+n]
			}
		}
		return nil
	}
}
