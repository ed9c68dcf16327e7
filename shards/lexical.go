package shards

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"recalld/lexical"
	"recalld/sqlite"
)

// Options of [Open]. The zero value is right for a server.
type Options struct {
	// Folder is where files are kept; "" keeps them in memory, for a store that is
	// only read.
	Folder string
	// SealText and SealRows are how much may wait in memory before it becomes a
	// file: bytes of text, and rows. 0 is 8 MiB and 50,000.
	SealText int64
	SealRows int64
	// BuildText is how many bytes of text one file is built from; 0 is 16 MiB.
	BuildText int64
	// MaxFile is the size in bytes above which files are not merged; 0 is 64 MiB.
	MaxFile int64
	// DirectRows is how many rows are read directly while their cells have no
	// postings for the snapshot; 0 is 20,000.
	DirectRows int64
	// Remote searches a copy of the index in another process, once every cell is
	// built; nil: searches run in this process. The answers are the same. It must
	// outlive the index.
	Remote Remote
	// RemoteRows is how many records a scope must have to be searched there: below,
	// asking takes longer than searching. 0 is 10,000.
	RemoteRows int64
	// RemotePatience is how long a search waits for the other process before it is
	// made in this one; 0 is two seconds.
	RemotePatience time.Duration
	Log            *slog.Logger
}

func (o Options) withDefaults() Options {
	defaults := []struct {
		field *int64
		value int64
	}{{&o.SealText, 8 << 20}, {&o.SealRows, 50_000}, {&o.BuildText, 16 << 20}, {&o.MaxFile, 64 << 20}, {&o.DirectRows, 20_000}, {&o.RemoteRows, 10_000}}
	for _, d := range defaults {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if o.RemotePatience == 0 {
		o.RemotePatience = 2 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Lexical is the lexical index of one store. Until Close it owns one goroutine,
// which follows the change log, builds, seals and merges, and one that keeps a
// copy in another process. Its methods may be called concurrently.
type Lexical struct {
	store  *sqlite.Store
	opts   Options
	mirror *mirror // nil: there is no other process
	wake   chan struct{}
	stop   context.CancelFunc
	done   sync.WaitGroup

	unerased atomic.Bool // an erasure failed

	// work is held by whoever makes files; it is taken before mu.
	work      sync.Mutex
	forgotten map[string]bool // names of files still to be removed; guarded by work

	// unusable is the folder that Options named, when files cannot be kept there.
	unusable    string
	whyInMemory string

	mu      sync.RWMutex
	closed  bool
	index   *lexical.Index
	files   []*file
	retired []*file // of no use any more; released by whoever holds work
	missing spans
	// leftovers says that a missing cell may still have rows in some file or in
	// memory, as after a damaged file was set aside.
	leftovers bool
	applied   int64 // the log is taken over up to here
	sealed    int64 // the files hold everything up to here
	lineage   int64 // of the change sealed
	text      int64 // bytes of text in memory
	// changed says in which snapshot each cell was last read: an older snapshot
	// must not be answered from the index. Cells that are not in it were last read
	// at or before floor.
	changed map[lexical.Cell]int64
	floor   int64
	epoch   int    // counts how often everything was dropped
	trouble string // see State
}

var errClosed = errors.New("the lexical index is closed")

// maxChanged bounds the cells whose last change is known one by one.
const maxChanged = 100_000

// Open opens the derived side of a store and starts its goroutine. What is
// missing, outdated or damaged is built in the background. When files cannot be
// kept in the folder they are kept in memory, and [State] says why; errors are
// those of the store alone.
func Open(ctx context.Context, store *sqlite.Store, o Options) (*Lexical, error) {
	l := &Lexical{store: store, opts: o.withDefaults(), wake: make(chan struct{}, 1), forgotten: make(map[string]bool), changed: make(map[lexical.Cell]int64)}
	view, err := store.ViewRecords(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the lexical index: %w", err)
	}
	err = l.load(view)
	if closing := view.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return nil, fmt.Errorf("open the lexical index: %w", errors.Join(err, l.release()))
	}
	background, stop := context.WithCancel(context.Background())
	l.stop = stop
	if l.opts.Remote != nil && l.opts.Folder != "" {
		l.mirror = newMirror(l.opts.Remote) // of the files alone so far
		l.done.Go(func() { l.keepMirror(background) })
	}
	l.done.Go(func() { l.run(background) })
	return l, nil
}

// load goes on from the generation on disk, or begins a new one at the snapshot.
func (l *Lexical) load(view *sqlite.View) error {
	var m manifest
	err := errNoManifest
	if l.opts.Folder != "" {
		m, err = readManifest(l.opts.Folder)
		if err != nil && !errors.Is(err, errNoManifest) {
			l.keepInMemory(err)
			err = errNoManifest
		}
	}
	if err == nil {
		err = belongs(m, view, l.store.TruthID())
	}
	if errors.Is(err, errNoManifest) && l.opts.Folder != "" {
		if err := usable(l.opts.Folder); err != nil {
			l.keepInMemory(err)
		}
	}
	switch {
	case errors.Is(err, errNoManifest):
		l.opts.Log.Info("the lexical index is built from the store", "reason", err)
		return l.begin(view)
	case err != nil:
		return err
	}
	l.applied, l.sealed, l.lineage = m.Sequence, m.Sequence, m.Lineage
	l.floor = view.Seq() // files may hold a later state than the manifest's
	l.missing = m.Missing
	named := make(map[string]bool)
	var opened []*lexical.File
	for _, e := range m.Files {
		named[e.Name] = true
		f, err := openFile(l.opts.Folder, e)
		if err != nil {
			l.opts.Log.Warn("a file of postings is set aside and its cells are built anew", "file", e.Name, "error", err)
			if err := setAside(l.opts.Folder, e.Name); err != nil {
				l.opts.Log.Warn("the file could not be set aside", "file", e.Name, "error", err)
				l.forgotten[e.Name] = true
			}
			l.missing, l.leftovers = l.missing.with(Span{e.First, e.Last}), true
			continue
		}
		l.files = append(l.files, f)
		opened = append(opened, f.File)
	}
	// Rows of a cell that is missing may stand in other files as well.
	l.leftovers = l.leftovers || len(l.missing) > 0
	l.index = lexical.NewIndex(opened...)
	if err := l.sweep(named); err != nil {
		l.opts.Log.Warn("files without a generation could not be removed", "error", err)
	}
	return nil
}

// sweep removes files that no generation names, with a line in the log.
func (l *Lexical) sweep(named map[string]bool) error {
	removed, err := sweep(l.opts.Folder, named, fileSuffix)
	if len(removed) > 0 {
		l.opts.Log.Info("files of words that no generation names were removed", "folder", l.opts.Folder, "files", len(removed), "first", removed[0])
	}
	return err
}

// keepInMemory goes on without the folder. Nothing that is in it is used.
func (l *Lexical) keepInMemory(cause error) {
	l.opts.Log.Warn("files of postings cannot be kept, the lexical index stays in memory", "folder", l.opts.Folder, "error", cause)
	l.whyInMemory = "files cannot be kept and stay in memory: " + cause.Error()
	l.trouble = l.whyInMemory
	l.unusable, l.opts.Folder = l.opts.Folder, ""
}

// belongs checks that the generation was made from this store and this history
// of it (DECISIONS 4).
func belongs(m manifest, view *sqlite.View, truth string) error {
	if m.Truth != truth {
		return fmt.Errorf("%w: it was made from another store", errNoManifest)
	}
	lineage, err := lineageOf(view, m.Sequence)
	if err != nil {
		return err
	}
	if lineage != m.Lineage || lineage == 0 && m.Sequence > 0 || m.Sequence > view.Seq() {
		return fmt.Errorf("%w: change %d of the log is not the one that it was made at", errNoManifest, m.Sequence)
	}
	return nil
}

// lineageOf returns the lineage of one change of the log; 0 when it is not there.
func lineageOf(view *sqlite.View, seq int64) (lineage int64, err error) {
	if seq == 0 {
		return 0, nil
	}
	err = view.Changes(seq-1, 1, func(c sqlite.Change) error {
		if c.Seq == seq {
			lineage = c.Lineage
		}
		return nil
	})
	return lineage, err
}

// begin starts a generation without files at the snapshot.
func (l *Lexical) begin(view *sqlite.View) (err error) {
	l.index = lexical.NewIndex()
	l.mirror.drop()
	l.files, l.text, l.leftovers = nil, 0, false
	l.applied, l.sealed = view.Seq(), view.Seq()
	l.floor = view.Seq()
	clear(l.changed)
	if l.lineage, err = lineageOf(view, l.sealed); err != nil {
		return err
	}
	l.missing = everyCell()
	err = view.AllCells(func(c sqlite.CellStats) error {
		if c.Memories+c.Episodes > 0 {
			return errEnough
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
		err = nil
	case err == nil:
		l.missing = nil // an empty store is built
	}
	if l.opts.Folder != "" && err == nil {
		if err := l.sweep(nil); err != nil {
			l.opts.Log.Warn("files without a generation could not be removed", "error", err)
		}
	}
	return err
}

// Close ends the goroutines after the step in hand and lets go of the files. What
// waits in memory is sealed when there is enough of it to slow the next start.
func (l *Lexical) Close() error {
	l.stop()
	l.done.Wait()
	if s := l.State(); l.opts.Folder != "" && (s.Recent > sealAtClose || s.Applied-s.Sealed > 4*sealAtClose) {
		if err := l.publish(context.Background(), true, nil); err != nil {
			l.opts.Log.Warn("what waits in memory could not be sealed; the next start reads it again", "error", err)
		}
	}
	l.work.Lock()
	defer l.work.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.release()
}

// sealAtClose is how many rows may be read again from the store at the next
// start.
const sealAtClose = 500

func (l *Lexical) release() error {
	var all error
	for _, f := range append(l.files, l.retired...) {
		all = errors.Join(all, f.release())
	}
	l.files, l.retired, l.index = nil, nil, lexical.NewIndex()
	return all
}

// Sealed returns the change up to which the files hold everything. The log must
// be kept from that change on.
func (l *Lexical) Sealed() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.sealed
}

// State is the index as an operator sees it.
type State struct {
	Files    int
	Bytes    int64
	Rows     int64 // in files
	Recent   int64 // in memory
	Applied  int64 // change
	Sealed   int64 // change
	Building bool  // some cells are not built yet
	Copied   bool  // another process has a copy
	// Trouble says why files cannot be kept, or why the last attempt to bring them
	// up to date failed; "" when all is well.
	Trouble string
}

// State reports the index as it is.
func (l *Lexical) State() State {
	l.mu.RLock()
	defer l.mu.RUnlock()
	s := State{Files: len(l.files), Applied: l.applied, Sealed: l.sealed, Building: len(l.missing) > 0, Trouble: l.trouble}
	s.Recent, _ = l.index.Recent()
	if l.mirror != nil {
		_, s.Copied, _ = l.mirror.ready(0)
	}
	for _, f := range l.files {
		s.Bytes += f.Bytes
		s.Rows += f.entry.Rows
	}
	return s
}

// Wake tells the goroutines to look at once. It never waits. Stores need not wake
// it: changes are cheaper to take over together, and a search does not wait for
// the goroutine.
func (l *Lexical) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
	if l.mirror != nil {
		l.mirror.look()
	}
}
