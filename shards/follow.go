package shards

import (
	"slices"
	"strings"

	"recalld/lexical"
	"recalld/memory"
	"recalld/sqlite"
)

// changesPerStep is how much of the log is taken over under one lock.
const changesPerStep = 500

// follow takes the log over up to the snapshot. Between steps others may search
// what was not touched.
func (l *Lexical) follow(view *sqlite.View) error {
	for {
		l.mu.RLock()
		there := l.applied >= view.Seq()
		l.mu.RUnlock()
		if there {
			return nil
		}
		if err := l.step(view); err != nil {
			return err
		}
	}
}

func (l *Lexical) step(view *sqlite.View) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	if l.applied >= view.Seq() {
		return nil
	}
	oldest, err := view.OldestChange()
	if err != nil {
		return err
	}
	if oldest == 0 || oldest > l.applied+1 {
		l.opts.Log.Warn("the change log was trimmed past the lexical index, which is built anew", "applied", l.applied, "oldest", oldest)
		return l.startOver(view)
	}
	if err := intact(l.files); err != nil {
		return err
	}
	upTo, err := l.takeOver(view)
	if err == nil {
		l.applied = upTo
	}
	return err
}

// startOver drops everything that was built. l.mu is held.
func (l *Lexical) startOver(view *sqlite.View) error {
	l.retired = append(l.retired, l.files...)
	l.epoch++
	defer l.Wake()
	return l.begin(view)
}

// touched is one record that changed, and the cells that the log names for it.
type touched struct {
	ref   memory.Ref
	cells []lexical.Cell
}

// takeOver brings the rows of the next changesPerStep changes into the state of
// the snapshot, and returns how far it came. l.mu is held.
//
// The records are read as the snapshot has them, which may be later than their
// change. Their cells are marked as read in this snapshot, so that no search in
// an older one, or before the rest of the log is taken over, uses them.
func (l *Lexical) takeOver(view *sqlite.View) (upTo int64, err error) {
	var order []touched
	at := make(map[memory.Ref]int)
	n, last := 0, l.applied
	err = view.Changes(l.applied, changesPerStep, func(c sqlite.Change) error {
		n, last = n+1, c.Seq
		if c.Op == sqlite.OpEmbedded || c.Op == sqlite.OpBlocks {
			return nil
		}
		i, seen := at[c.Ref]
		if !seen {
			i = len(order)
			at[c.Ref] = i
			order = append(order, touched{ref: c.Ref})
		}
		for _, cell := range []int64{c.OldCell, c.NewCell} {
			if cell != 0 {
				order[i].cells = append(order[i].cells, lexical.Cell(cell))
			}
		}
		return nil
	})
	if err != nil {
		return last, err
	}
	if n < changesPerStep {
		last = view.Seq()
	}
	return last, l.bring(view, order)
}

// bring makes the index hold the records as the snapshot has them.
func (l *Lexical) bring(view *sqlite.View, order []touched) error {
	docs, err := read(view, order)
	if err != nil {
		return err
	}
	var puts []lexical.Doc
	for _, t := range order {
		doc, lives := docs[t.ref]
		for i, cell := range t.cells {
			if lives && cell == doc.Cell || slices.Contains(t.cells[:i], cell) {
				continue
			}
			l.mark(cell, view.Seq())
			if err := l.remove(cell, t.ref); err != nil {
				return err
			}
		}
		if !lives {
			continue
		}
		l.mark(doc.Cell, view.Seq())
		if l.missing.contains(doc.Cell) {
			if err := l.remove(doc.Cell, t.ref); err != nil {
				return err
			}
			continue
		}
		puts = append(puts, doc)
	}
	return l.add(puts)
}

// remove takes a record out of a cell, wherever its row is. l.mu is held.
func (l *Lexical) remove(cell lexical.Cell, ref memory.Ref) error {
	for _, f := range l.files {
		if err := f.bury(cell, ref); err != nil {
			return err
		}
	}
	err := guard(func() error { return l.index.Delete(cell, ref) })
	if err == nil {
		l.mirror.delete(cell, ref)
	}
	return err
}

// add puts rows into memory, in place of what files have of their records. l.mu
// is held.
func (l *Lexical) add(docs []lexical.Doc) error {
	for _, d := range docs {
		l.text += int64(len(d.Text))
		for _, f := range l.files {
			if err := f.bury(d.Cell, d.Ref); err != nil {
				return err
			}
		}
	}
	err := guard(func() error { return l.index.Put(docs...) })
	if err == nil {
		l.mirror.put(docs)
	}
	return err
}

// mark notes in which snapshot a cell was read.
func (l *Lexical) mark(cell lexical.Cell, seq int64) {
	if l.changed[cell] >= seq {
		return
	}
	if len(l.changed) >= maxChanged {
		for _, s := range l.changed {
			l.floor = max(l.floor, s)
		}
		clear(l.changed)
	}
	l.changed[cell] = seq
}

// read returns the records that live in the snapshot, by reference.
func read(view *sqlite.View, order []touched) (map[memory.Ref]lexical.Doc, error) {
	var ids []int64
	seen := make(map[lexical.Cell]bool)
	for _, t := range order {
		for _, c := range t.cells {
			if !seen[c] {
				seen[c] = true
				ids = append(ids, int64(c))
			}
		}
	}
	stats, err := view.CellsByID(ids)
	if err != nil {
		return nil, err
	}
	agent := make(map[lexical.Cell]string, len(stats))
	number := make(map[memory.Cell]lexical.Cell, len(stats))
	for _, s := range stats {
		agent[lexical.Cell(s.ID)] = s.Cell.Agent
		number[s.Cell] = lexical.Cell(s.ID)
	}
	byAgent := make(map[string][]memory.Ref)
	var agents []string
	for _, t := range order {
		for _, c := range t.cells {
			name, known := agent[c]
			if !known {
				continue
			}
			if byAgent[name] == nil {
				agents = append(agents, name)
			}
			byAgent[name] = append(byAgent[name], t.ref)
			break
		}
	}
	docs := make(map[memory.Ref]lexical.Doc, len(order))
	for _, name := range agents {
		records, err := view.Hydrate(memory.Scope{Agent: name}, byAgent[name])
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			// A cell that is not named yet is named by a later change.
			if cell, known := number[r.Cell]; known {
				docs[r.Ref] = docOf(cell, r.Ref, r.Source.ID, r.Time, r.Content, strings.Join(r.Keywords, "\n"))
			}
		}
	}
	return docs, nil
}

// docOf is a record as the index reads it: an episode's keywords are words of
// its text.
func docOf(cell lexical.Cell, ref memory.Ref, source string, when memory.Time, content, keywords string) lexical.Doc {
	if keywords != "" {
		content += "\n" + keywords
	}
	return lexical.Doc{Cell: cell, Ref: ref, Session: source, Time: when, Text: content}
}
