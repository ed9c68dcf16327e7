package shards

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"recalld/lexical"
	"recalld/memory"
	"recalld/sqlite"
)

// ErrPassed says that the index has moved past the snapshot and the scope is too
// large to be read directly. Ask again in a newer snapshot.
var ErrPassed = errors.New("the lexical index has moved past this snapshot")

// Answer is what [Lexical.Search] found.
type Answer struct {
	lexical.Result
	// NotBuilt is how many records of the scope were left out, because their cells
	// have no postings yet and are too many to be read directly.
	NotBuilt int64
	// Unavailable says why this process answered although another one should have:
	// an error of scanner/client. nil: nothing is wrong.
	Unavailable error
}

// WordQuery asks for the records that words find.
type WordQuery struct {
	lexical.Query       // without Cells and Keep
	Only          *Only // nil: every record of the scope
	// Patient demands that a snapshot that the index has passed is read directly
	// whatever it costs, instead of [ErrPassed].
	Patient bool
}

// Search ranks the records of the cells, which must be those of one scope in the
// snapshot, as the snapshot has them.
func (l *Lexical) Search(ctx context.Context, view *sqlite.View, cells []sqlite.CellStats, q WordQuery) (Answer, error) {
	q.Keep = q.Only.keep()
	for try := 1; ; try++ {
		a, err := l.search(ctx, view, cells, q)
		if !errors.Is(err, lexical.ErrCorrupt) || try == maxTries {
			return a, err
		}
		if err := l.quarantine(cells, err); err != nil {
			return Answer{}, err
		}
	}
}

// maxTries is how often one search sets damaged files aside. More than one is
// needed only while somebody goes on writing to files in use.
const maxTries = 4

// keep returns the condition that a subset is; nil for all records.
func (o *Only) keep() func(memory.Ref) bool {
	if o == nil {
		return nil
	}
	return func(ref memory.Ref) bool {
		if ref.Kind == memory.KindEpisode {
			return o.Episodes
		}
		_, found := slices.BinarySearch(o.Memories, ref.ID)
		return found
	}
}

func (l *Lexical) search(ctx context.Context, view *sqlite.View, cells []sqlite.CellStats, q WordQuery) (Answer, error) {
	var why error
	if rowsOf(cells) >= l.opts.RemoteRows {
		a, ok, failed := l.elsewhere(ctx, view, cells, q)
		if ok {
			return a, nil
		}
		why = failed
	}
	a, err := l.here(ctx, view, cells, q)
	a.Unavailable = why
	return a, err
}

func rowsOf(cells []sqlite.CellStats) (rows int64) {
	for _, c := range cells {
		rows += c.Memories + c.Episodes
	}
	return rows
}

// here searches in this process.
func (l *Lexical) here(ctx context.Context, view *sqlite.View, cells []sqlite.CellStats, q WordQuery) (Answer, error) {
	q.Cells = make([]lexical.Cell, len(cells))
	for i, c := range cells {
		q.Cells[i] = lexical.Cell(c.ID)
	}
	for {
		if err := l.follow(view); err != nil {
			return Answer{}, fmt.Errorf("follow the change log: %w", err)
		}
		a, direct, err := l.indexed(ctx, cells, view.Seq(), q)
		switch {
		case errors.Is(err, errBehind):
			continue
		case direct:
			a.Result, err = lexical.Scan(ctx, texts(view, q.Cells), q.Query)
		}
		return a, err
	}
}

// errBehind says that a new generation came between following the log and
// searching, which takes the last changes over again.
var errBehind = errors.New("the index is behind the snapshot")

// indexed answers from the postings, or says that the scope is to be read
// directly.
func (l *Lexical) indexed(ctx context.Context, cells []sqlite.CellStats, seq int64, q WordQuery) (a Answer, direct bool, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return Answer{}, false, errClosed
	}
	built, notBuilt, passed := l.fit(cells, seq)
	switch {
	case l.applied < seq:
		return Answer{}, false, errBehind
	case !passed && notBuilt == 0:
	case rowsOf(cells) <= l.opts.DirectRows || passed && q.Patient:
		return Answer{}, true, nil
	case passed:
		return Answer{}, false, ErrPassed
	}
	q.Cells, a.NotBuilt = built, notBuilt
	err = whileIntact(l.files, func() (err error) {
		a.Result, err = l.index.Search(ctx, q.Query)
		return err
	})
	return a, false, err
}

// fit says which cells have postings, how many records the others hold, and
// whether some cell was read in a later snapshot. l.mu is held.
func (l *Lexical) fit(cells []sqlite.CellStats, seq int64) (built []lexical.Cell, notBuilt int64, passed bool) {
	passed = l.floor > seq
	for _, c := range cells {
		cell := lexical.Cell(c.ID)
		if l.missing.contains(cell) {
			notBuilt += c.Memories + c.Episodes
			continue
		}
		built = append(built, cell)
		passed = passed || l.changed[cell] > seq
	}
	return built, notBuilt, passed
}

// errEnough ends a reading whose caller has seen enough.
var errEnough = errors.New("enough")

// texts are the records of some cells as the snapshot has them.
func texts(view *sqlite.View, cells []lexical.Cell) iter.Seq2[lexical.Doc, error] {
	return func(yield func(lexical.Doc, error) bool) {
		ids := make([]int64, len(cells))
		for i, c := range cells {
			ids[i] = int64(c)
		}
		err := view.Texts(ids, func(t sqlite.Text) error {
			if !yield(textDoc(t), nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(lexical.Doc{}, err)
		}
	}
}

func textDoc(t sqlite.Text) lexical.Doc {
	return docOf(lexical.Cell(t.Cell), t.Ref, t.SourceID, t.Time, t.Content, t.Keywords)
}

// Verify checks every checksum of every file and returns the names of those that
// are damaged. With repair they are set aside and their cells built again.
func (l *Lexical) Verify(ctx context.Context, repair bool) (damaged []string, err error) {
	l.mu.RLock()
	files := slices.Clone(l.files)
	l.mu.RUnlock()
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if l.damaged(f) {
			damaged = append(damaged, f.Name)
		}
	}
	if repair && len(damaged) > 0 {
		return damaged, l.quarantine(nil, lexical.ErrCorrupt)
	}
	return damaged, nil
}

// damaged verifies one file, if it is still in use.
func (l *Lexical) damaged(f *file) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !slices.Contains(l.files, f) {
		return false
	}
	_, err := f.examine()
	return err != nil
}

// quarantine sets the damaged files aside and marks their cells as missing. When
// every checksum is right, either somebody wrote to a file without changing it,
// or the damage is in what made the files: then all files of the cells are set
// aside.
func (l *Lexical) quarantine(cells []sqlite.CellStats, cause error) error {
	l.work.Lock()
	defer l.work.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	var bad []*file
	written := errors.Is(cause, errWrittenTo)
	for _, f := range l.files {
		if written && intact([]*file{f}) == nil {
			continue
		}
		before, err := f.examine()
		if err != nil {
			bad = append(bad, f)
			continue
		}
		f.asSeen = before
	}
	if len(bad) == 0 && !written {
		for _, f := range l.files {
			for _, c := range cells {
				if cell := lexical.Cell(c.ID); f.First <= cell && cell <= f.Last {
					bad = append(bad, f)
					break
				}
			}
		}
	}
	if len(bad) == 0 {
		return nil // somebody was faster
	}
	for _, f := range bad {
		l.opts.Log.Warn("a file of postings is set aside and its cells are built anew", "file", f.Name, "error", cause)
		if err := l.dismiss(f); err != nil {
			return err
		}
	}
	l.Wake()
	return l.record()
}

// dismiss takes one damaged file out of the index. l.work and l.mu are held.
func (l *Lexical) dismiss(f *file) error {
	if err := l.index.Replace([]*lexical.File{f.File}, false, nil); err != nil {
		return err
	}
	l.mirror.replace([]*file{f}, false, nil)
	l.files = without(l.files, f)
	l.missing, l.leftovers = l.missing.with(Span{f.First, f.Last}), true
	if l.opts.Folder != "" {
		if err := setAside(l.opts.Folder, f.Name); err != nil {
			l.opts.Log.Warn("the file could not be set aside", "file", f.Name, "error", err)
			l.forgotten[f.Name] = true
		}
	}
	return f.release()
}

func without(files []*file, gone ...*file) []*file {
	return slices.DeleteFunc(slices.Clone(files), func(f *file) bool { return slices.Contains(gone, f) })
}
