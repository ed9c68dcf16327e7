package shards

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner/client"
	"recalld/sqlite"
)

// ErrNotBuilt says that the scope is not, or not yet, held by the scanner in
// full: answer in the process.
var ErrNotBuilt = errors.New("the codes of the scope are not built")

// CodesOptions of [OpenCodes].
type CodesOptions struct {
	Folder  string   // of the files, below DATA/derived; required
	Command []string // the scanner's program and arguments
	Runtime string   // an existing folder for sockets, with a path of at most 60 bytes
	// Lean writes no value files: hits have no cosines, and record vectors no scores;
	// whoever ranks reads them from the store (DECISIONS 30).
	Lean bool
	// SealRows and SealBytes are how much the scanner may hold beside its files
	// before it becomes files: rows, and bytes of codes and vectors. 0 is 1,000,000 and 64 MiB.
	SealRows, SealBytes int64
	// MinRows is how many blocks and record vectors the store must have, at least
	// 1, before anything is built and a process is started.
	MinRows int64
	// Busy reports whether somebody is being answered, to whom a rebuild leaves the
	// processors; nil: nobody.
	Busy func() bool
	// Patience is how long a recall waits for a scanner that has to be started
	// before it answers without: another goroutine goes on waiting. 0 is a second.
	Patience time.Duration
	Clock    func() time.Time // of what [Codes.State] reports; nil: the machine's
	Stderr   io.Writer        // what the scanner's process writes there; nil: nowhere
	Log      *slog.Logger
}

func (o CodesOptions) withDefaults() (CodesOptions, error) {
	if o.SealRows == 0 {
		o.SealRows = 1_000_000
	}
	if o.SealBytes == 0 {
		o.SealBytes = 64 << 20
	}
	o.MinRows = max(1, o.MinRows)
	if o.Patience == 0 {
		o.Patience = time.Second
	}
	if o.Busy == nil {
		o.Busy = func() bool { return false }
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	var err error
	o.Folder, err = filepath.Abs(o.Folder)
	return o, err
}

// Codes is the derived matrices of one store: sign codes of blocks with their
// int8 rows, and int8 codes of record vectors with these, held by a scanner process. It owns
// two goroutines until Close: one follows the change log, builds, seals and
// compacts, the other brings a lost scanner back. Its methods may be called concurrently.
type Codes struct {
	store  *sqlite.Store
	opts   CodesOptions
	client *client.Client
	wake   chan struct{}
	gone   chan struct{} // the scanner was lost
	stop   context.CancelFunc
	done   sync.WaitGroup

	segmentBytes, valueBytes, pieceBytes int64
	changesBehind, changesRenewed        int64
	recordBytes, pageSets, pageVectors   int
	askTime                              time.Duration

	erasing  atomic.Int32 // erasures that wait for work
	unerased atomic.Bool  // an erasure failed, or waits for work

	// work is held by whoever makes files; it is taken before mu, and before a
	// snapshot is opened.
	work    turn
	yielded int // builds that gave way in a row
	// lookedBack says that what an earlier process did not erase is gone.
	lookedBack bool
	renewal    *renewal // what a rebuild has made; nil: none is going on

	renewing turn // held by whoever rebuilds; it is taken before work

	// mu is held by whoever tells the scanner of changes. Nobody who holds it waits
	// for a snapshot.
	mu     turn
	closed bool
	begun  bool // the catalog was checked, and the names of all cells are known
	// few says that the store had too few rows to begin with, at the change fewAt.
	few   bool
	fewAt int64
	// catalog is the generation in use; its Number is 0 before there is one.
	catalog catalog
	names   *directory
	applied int64 // the log is taken over up to here
	told    int64 // the scanner's state is at this change; none after it concerns it
	unsure  bool  // it is not known what the scanner holds
	down    error // why the scanner is not asked; nil when it is
	// marks say what was brought by snapshots of which others may be older; what is
	// not in them was read at or before floor.
	marks        []mark
	floor        int64
	deltaRows    int64
	deltaBytes   int64
	deltaChanges int64
	newest       int64           // change of the store that the goroutine saw last
	waiting      map[uint64]bool // agents with a record that only files can hold
	forgotten    map[string]bool // names of files still to be removed
	lost         []string        // files that went missing since a maker began
	epoch        int             // counts how often everything was dropped
	renewed      int64           // change that a rebuild's files hold everything up to
	underway     *RebuildState   // nil: no rebuild is going on
	trouble      string          // see State
}

// OpenCodes opens the matrices of a store and starts their goroutines. What is
// missing, outdated or damaged is built in the background; a folder or a process
// that cannot be used is reported by [Codes.State]. Errors are a
// *[memory.FieldError] for options that cannot work.
func OpenCodes(_ context.Context, store *sqlite.Store, o CodesOptions) (*Codes, error) {
	c, err := newCodes(store, o)
	if err != nil {
		return nil, fmt.Errorf("open the matrices: %w", err)
	}
	c.start()
	return c, nil
}

func newCodes(store *sqlite.Store, o CodesOptions) (*Codes, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	processes, err := client.New(client.Options{Command: o.Command, Folder: o.Folder, TruthID: store.TruthID(), Runtime: o.Runtime, Stderr: o.Stderr, Patience: o.Patience})
	if err != nil {
		return nil, err
	}
	truth := store.TruthID()
	c := &Codes{
		store: store, opts: o, client: processes, wake: make(chan struct{}, 1), gone: make(chan struct{}, 1), work: newTurn(), mu: newTurn(), renewing: newTurn(),
		segmentBytes: segmentBytes, valueBytes: valueBytes, pieceBytes: pieceBytes, changesBehind: changesBehind, changesRenewed: changesPerSeal, recordBytes: recordLimit, pageSets: setsPerPage, pageVectors: vectorsPerPage, askTime: askTime,
		names:     newDirectory(func(name string) uint64 { return layout.Key(truth, name) }),
		waiting:   make(map[uint64]bool),
		forgotten: make(map[string]bool),
	}
	// Until it is checked, it tells how far back the log must be kept.
	if k, err := readCatalog(o.Folder, o.Lean); err == nil && k.Truth == truth {
		c.catalog = k
	}
	return c, nil
}

func (c *Codes) start() {
	background, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.done.Go(func() { c.run(background) })
	c.done.Go(func() { c.watch(background) })
}

// Only is a part of a scope's records.
type Only struct {
	Memories []int64 // ids, ascending, at most scanner.MaxOnly
	Episodes bool    // all episodes, or none
}

// BlockQuery asks for the blocks whose codes are nearest to a query's.
type BlockQuery struct {
	Model     int64
	Scope     memory.Scope
	Code      []byte // the query's signs, as [memory.Signs] gives them (BR-025)
	Values    []byte // the query as [memory.Int8] gives it; nil: no cosines are wanted
	Rows      int    // nearest blocks to return
	Parents   int    // records to return, by their best block
	PerParent int    // first blocks of a record that take part, 0 for all (BR-037)
	Most      int    // blocks above which the answer is Over, 0 for any number
	Only      *Only  // nil: every record of the scope
	Batch     bool   // maintenance: waits for everybody else
}

// BlockHit is one block, the distance of its code in bits, and the sums that give
// its cosine, Dot/√(Norm × the query's norm). Norm is 0 when its int8 row is not
// held or no cosines were asked for.
type BlockHit struct {
	Ref      memory.Ref
	Index    int
	Distance int
	Dot      int32
	Norm     uint32
}

// BlockAnswer has the nearest blocks by distance, kind, parent and index.
type BlockAnswer struct {
	Rows    []BlockHit
	Parents []BlockHit // one for each record, its best block; without cosines
	Scanned int64      // blocks compared
	Over    bool       // more than BlockQuery.Most would take part: nothing was compared
}

// RecordQuery asks for the records whose vectors are nearest to a query's.
type RecordQuery struct {
	Model  int64
	Scope  memory.Scope
	Vector []float32
	K      int // best records that will be wanted, 1 or more
	Only   *Only
	Most   int // candidates above which the answer is Over, 0 for any number
	// Approximate asks for candidates and their cosines by int8 alone, though the
	// scanner could decide among them.
	Approximate bool
	Batch       bool
}

// RecordAnswer has the K records of the scope whose inner products with the query
// are the highest, in the total order of DECISIONS 2, with these as Scores: bit for
// bit those of [memory.Dot]. Where the scanner does not hold the vectors that tell,
// there are no scores, and Refs are every record whose inner product could be
// among the K highest, in the order of references; the caller decides by the vectors
// themselves (DECISIONS 20).
type RecordAnswer struct {
	Refs    []memory.Ref
	Scores  []float32 // of each; nil: the caller decides
	Cosines []float32 // of each, when RecordQuery.Approximate: by int8 alone, -1 to 1
	Scanned int64     // records compared
	Over    bool      // there are more candidates than RecordQuery.Most, and none is here
}

// CodesState is the matrices as an operator sees them. Rows are blocks and record
// vectors together.
type CodesState struct {
	Generation uint64
	Sequence   int64 // change up to which files hold everything
	Applied    int64 // change up to which the scanner holds everything
	Lag        int64 // changes of the store after Applied
	Files      int
	Bytes      int64 // of files
	ValueBytes int64 // of these, of value files: int8 rows and float32 vectors
	Rows       int64 // in files
	Dead       int64 // of these, replaced or deleted
	DeltaRows  int64 // beside the files
	DeltaBytes int64
	// Built of Total cells can be answered: not missing, and their names have keys
	// of their own.
	Built, Total int64
	Building     bool // false while there is nothing to build
	// Rebuild is nil while none is going on.
	Rebuild     *RebuildState
	Quarantined int   // files that were set aside and wait for inspection
	Restarts    int64 // processes that came up after the first
	// Trouble says why files or the process cannot be used, or why the last attempt
	// to bring them up to date failed; "" when all is well.
	Trouble string
}

// RebuildState is how far a rebuild is whose files are made beside those in use.
// It is one value for one moment, and never changed.
type RebuildState struct {
	// Rows, of blocks and of record vectors, were read from the store, of Total that it
	// had when the rebuild began. What was stored since may make them differ at the end;
	// Rows is never more than Total.
	Rows, Total int64
	Since       time.Time // when it began; one that had to begin anew began then
}

// CompactReport says what a compaction did.
type CompactReport struct {
	FilesBefore, FilesAfter int
	DeadRows                int64 // left out
	CodeBytes               int64 // of segments written
	ValueBytes              int64 // of int8 rows and float32 vectors copied, from value files of which more than half was of no use
	// Amplification is bytes of segments written since the matrices were built, for
	// each byte that was written for the first time; 1 at best.
	Amplification float64
}

// current is the generation in use.
func (c *Codes) current() catalog {
	c.mu.take()
	defer c.mu.unlock()
	return c.catalog
}

// started reports whether there is a generation to work on.
func (c *Codes) started() bool {
	c.mu.take()
	defer c.mu.unlock()
	return c.begun && !c.closed
}

// State reports the matrices as they are.
func (c *Codes) State(ctx context.Context) CodesState {
	var last int64
	if view, err := c.store.ViewRecords(ctx); err == nil {
		last = view.Seq()
		_ = view.Close() // of a snapshot that was only asked for its number
	}
	if err := c.mu.lock(ctx); err != nil {
		return CodesState{Trouble: err.Error()}
	}
	defer c.mu.unlock()
	k := c.catalog
	s := CodesState{
		Generation: k.Number, Sequence: k.Sequence, Applied: c.applied, Lag: max(0, last-c.applied),
		Files: len(k.Segments) + len(k.Values), DeltaRows: c.deltaRows, DeltaBytes: c.deltaBytes,
		Building: !c.begun && !(c.few && c.fewAt == last) || len(k.Missing) > 0, Restarts: max(0, c.client.Starts()-1), Trouble: c.trouble,
		Rebuild: c.underway,
	}
	if c.down != nil && s.Trouble == "" && !errors.Is(c.down, errStarting) {
		s.Trouble = c.down.Error()
	}
	for _, g := range k.Segments {
		s.Bytes, s.Rows, s.Dead = s.Bytes+g.Bytes, s.Rows+g.Rows, s.Dead+g.Gone
	}
	for _, v := range k.Values {
		s.Bytes, s.ValueBytes = s.Bytes+v.Bytes, s.ValueBytes+v.Bytes
	}
	for _, cell := range c.names.cells {
		s.Total++
		if c.begun && !k.Missing.contains(cell.Agent) && !c.names.refused[cell.Agent] && !c.waiting[cell.Agent] {
			s.Built++
		}
	}
	if items, err := os.ReadDir(filepath.Join(c.opts.Folder, quarantined)); err == nil {
		s.Quarantined = len(items)
	}
	return s
}

// Stats are the numbers of the scanner's process; nil when none is used now. It
// starts none.
func (c *Codes) Stats(ctx context.Context) *scannerv1.StatsReply {
	if err := c.mu.lock(ctx); err != nil {
		return nil
	}
	used := c.begun && c.down == nil && !c.closed
	c.mu.unlock()
	if !used {
		return nil
	}
	stats, err := c.client.Stats(ctx)
	if err != nil {
		return nil
	}
	return stats
}

// Client is the client of the scanner's process, for others who ask it.
func (c *Codes) Client() *client.Client { return c.client }

// logLimit is how many changes are kept at most for files that cannot be brought
// up to date. They are built anew when they can.
const logLimit = 1_000_000

// Sealed returns the change up to which the files hold everything. The log must
// be kept from that change on. Where nothing needs the log it is the largest number
// there is.
func (c *Codes) Sealed() int64 {
	c.mu.take()
	defer c.mu.unlock()
	k := c.catalog
	if k.Number == 0 || len(k.Segments) == 0 && len(k.Missing) > 0 || c.newest-k.Sequence > logLimit {
		return math.MaxInt64
	}
	if c.underway != nil && c.newest-c.renewed <= logLimit {
		return min(k.Sequence, c.renewed)
	}
	return k.Sequence
}

// Wake tells the goroutine to look at once. It never waits.
func (c *Codes) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// rowsAtClose is how many rows may be read again from the store at the next
// start.
const rowsAtClose = 20_000

// Close ends the goroutines after the step in hand, and the process. What waits is
// sealed when there is enough of it to slow the next start.
func (c *Codes) Close() error {
	c.stop()
	c.done.Wait()
	if c.started() && c.State(context.Background()).DeltaRows > rowsAtClose {
		if err := c.Seal(context.Background()); err != nil {
			c.opts.Log.Warn("codes that wait could not be sealed; the next start reads them again", "error", err)
		}
	}
	c.work.take()
	defer c.work.unlock()
	c.mu.take()
	c.closed = true
	c.mu.unlock()
	return c.client.Close()
}
