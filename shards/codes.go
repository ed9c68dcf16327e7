package shards

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"recalld/memory"
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
	// Lean writes no value files: hits have no cosines, whoever ranks reads them
	// from the store (DECISIONS 30).
	Lean bool
	// SealRows and SealBytes are how much the scanner may hold beside its files
	// before it becomes files: rows, and bytes of codes. 0 is 1,000,000 and 64 MiB.
	SealRows, SealBytes int64
	// MinRows is how many blocks and record vectors the store must have, at least
	// 1, before anything is built and a process is started.
	MinRows int64
	Stderr  io.Writer // what the scanner's process writes there; nil: nowhere
	Log     *slog.Logger
}

// Codes is the derived matrices of one store: sign codes of blocks with their
// int8 rows, and int8 codes of record vectors, held by a scanner process. It owns
// one goroutine, which follows the change log, builds, seals and compacts, until
// Close. Its methods may be called concurrently.
type Codes struct {
	store *sqlite.Store
	opts  CodesOptions
}

// OpenCodes opens the matrices of a store and starts their goroutine. What is
// missing, outdated or damaged is built in the background; a folder or a process
// that cannot be used is reported by [Codes.State]. Errors are those of the
// store, and a *[memory.FieldError] for options that cannot work.
func OpenCodes(_ context.Context, store *sqlite.Store, o CodesOptions) (*Codes, error) {
	return &Codes{store: store, opts: o}, nil
}

// Only is a part of a scope's records.
type Only struct {
	Memories []int64 // ids, ascending, at most 1,000,000
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
	Batch  bool
}

// RecordAnswer has every record of the scope whose inner product with the query,
// in float32, could be among the K highest, in the order of references. The
// caller decides by the vectors themselves (DECISIONS 20).
type RecordAnswer struct {
	Refs    []memory.Ref
	Scanned int64 // records compared
	Over    bool  // there are more candidates than RecordQuery.Most, and none is here
}

// Blocks answers for exactly the snapshot. Errors: [ErrPassed] (ask again in a
// newer snapshot), [ErrNotBuilt] (answer in the process), the kinds of
// scanner/client (answer in the process and say so), and the context's.
func (c *Codes) Blocks(context.Context, *sqlite.View, BlockQuery) (BlockAnswer, error) {
	return BlockAnswer{}, ErrNotBuilt
}

// Records answers for exactly the snapshot, with the errors of [Codes.Blocks].
func (c *Codes) Records(context.Context, *sqlite.View, RecordQuery) (RecordAnswer, error) {
	return RecordAnswer{}, ErrNotBuilt
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
	ValueBytes int64 // of these, of value files
	Rows       int64 // in files
	Dead       int64 // of these, replaced or deleted
	DeltaRows  int64 // beside the files
	DeltaBytes int64
	// Built of Total cells can be answered: not missing, and their names have keys
	// of their own.
	Built, Total int64
	Building     bool
	Quarantined  int   // files that were set aside and wait for inspection
	Restarts     int64 // processes that came up after the first
	// Trouble says why files or the process cannot be used, or why the last attempt
	// to bring them up to date failed; "" when all is well.
	Trouble string
}

// State reports the matrices as they are.
func (c *Codes) State(context.Context) CodesState { return CodesState{} }

// Verify reads every file of the generation in full and returns the names of those
// that are damaged. With repair they are set aside and their cells built again.
// progress, which may be nil, is told bytes.
func (c *Codes) Verify(_ context.Context, _ bool, _ func(done, total int64)) (damaged []string, err error) {
	return nil, nil
}

// Rebuild drops every file and builds the matrices from the store. Meanwhile
// scopes are [ErrNotBuilt]. progress, which may be nil, is told bytes.
func (c *Codes) Rebuild(context.Context, func(done, total int64)) error { return nil }

// CompactReport says what a compaction did.
type CompactReport struct {
	FilesBefore, FilesAfter int
	DeadRows                int64 // left out
	CodeBytes               int64 // of segments written
	ValueBytes              int64 // of int8 rows copied, from value files of which more than half was of no use
	// Amplification is bytes of segments written since the matrices were built, for
	// each byte that was written for the first time; 1 at best.
	Amplification float64
}

// Compact merges the segments of each kind and model and leaves out dead rows. No
// int8 row of a value file is written again, unless most of its file is of no use.
func (c *Codes) Compact(context.Context, func(done, total int64)) (CompactReport, error) {
	return CompactReport{}, nil
}

// Seal makes files of everything that the scanner holds beside them.
func (c *Codes) Seal(context.Context) error { return nil }

// Erase returns once the codes and values of everything that the store has
// deleted or changed are gone from every file, those that were set aside included
// (DECISIONS 14).
func (c *Codes) Erase(context.Context) error { return nil }

// Sealed returns the change up to which the files hold everything. The log must
// be kept from that change on.
func (c *Codes) Sealed() int64 { return 0 }

// Wake tells the goroutine to look at once. It never waits.
func (c *Codes) Wake() {}

// Close ends the goroutine after the step in hand, and the process.
func (c *Codes) Close() error { return nil }
