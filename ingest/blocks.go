package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"recalld/blocks"
	"recalld/embed"
	"recalld/memory"
	"recalld/sqlite"
)

// Figures of building blocks.
const (
	// BlockTexts is how many blocks one call embeds. A call has blocks of one record
	// alone, in index order, so that the same text under the same model gives the
	// same set whatever else is built (BR-095, BR-178).
	BlockTexts = 64
	// blocksLocal and blocksRemote are how many records are published at a time,
	// and so lost by a crash at most. A record in process costs less than a commit.
	blocksLocal  = 64
	blocksRemote = 8
	// MostFixed is how many records one repair of missing blocks builds (BR-122).
	MostFixed = 50
)

// BlockLimits end one run of building. They are checked before a record begins, so
// that a run exceeds each by one record at most, and never before a run's first
// record: one that is larger than a limit would stop every run (BR-113, BR-114).
// The volume is in characters, which cost no call to a server (BR-116).
type BlockLimits struct {
	Records    int
	Characters int // code points
	Texts      int // blocks that are embedded
	Elapsed    time.Duration
}

// DefaultBlockLimits are those of BR-115. They are server policy (BR-136).
func DefaultBlockLimits() BlockLimits {
	return BlockLimits{Records: 200, Characters: 200_000, Texts: 4_000, Elapsed: time.Minute}
}

// BlockQueue is the part of the store that building uses.
type BlockQueue interface {
	BeginBlocks(ctx context.Context, model int64) error
	EndBlocks(ctx context.Context) error
	NextBlocks(ctx context.Context, model int64, limit, chars int) (sqlite.BlockBatch, error)
	FinishBlocks(ctx context.Context, b sqlite.BlockBatch, outcomes []sqlite.BlockOutcome) (int, error)
	BlockProgress(ctx context.Context, model int64) (sqlite.BlockProgress, error)
	WithoutBlocks(ctx context.Context, model int64, each func(rec sqlite.BlockRecord, waits bool) error) error
	AskForBlocks(ctx context.Context, model int64, refs []memory.Ref) error
}

// BlockRun reports one run of building. What the run did is one thing and what the
// corpus holds another (BR-117, BR-118).
type BlockRun struct {
	Run    BlockRunPart    `json:"run"`
	Corpus BlockCorpusPart `json:"corpus"`
}

// BlockRunPart is what a run did.
type BlockRunPart struct {
	RecordsBuilt  int    `json:"records_built"`
	RecordsLooked int    `json:"records_looked"` // most records are too short for blocks
	Characters    int    `json:"characters"`
	Texts         int    `json:"texts"`
	StoppedBy     string `json:"stopped_by"` // records, characters, texts, elapsed, failure, or nothing_left
}

// BlockCorpusPart is what all records have, after the run.
type BlockCorpusPart struct {
	WithBlocks    int64 `json:"with_blocks"`
	NeedingBlocks int64 `json:"needing_blocks"` // at most: those that were not looked at yet count
}

// NeedsBlocks reports whether a text has blocks of its own: whether it splits into
// two or more. It asks nobody, and builder, sweep and check all ask it
// (BR-119 to BR-121).
func NeedsBlocks(text string) bool {
	all, err := blocks.Split(text, nil)
	return err == nil && len(all) >= 2
}

// blockRun builds blocks until nothing is left, a limit is reached, or the model
// fails. The next run goes on where this one published last (BR-111).
func (w *QueueWorker) blockRun(ctx context.Context, model embed.Model, id int64, limits BlockLimits) (r BlockRunPart, err error) {
	began := w.o.Clock()
	reached := func() string {
		switch {
		case r.RecordsLooked == 0:
			return ""
		case r.RecordsLooked >= limits.Records:
			return "records"
		case r.Characters >= limits.Characters:
			return "characters"
		case r.Texts >= limits.Texts:
			return "texts"
		case w.o.Clock().Sub(began) >= limits.Elapsed:
			return "elapsed"
		}
		return ""
	}
	together := blocksLocal
	if !model.Local() {
		together = blocksRemote
	}
	for {
		if r.StoppedBy = reached(); r.StoppedBy != "" {
			return r, nil
		}
		batch, err := w.o.Blocks.NextBlocks(ctx, id, max(1, min(together, limits.Records-r.RecordsLooked)), limits.Characters-r.Characters)
		if err != nil {
			return r, err
		}
		if batch.Empty() {
			r.StoppedBy = "nothing_left"
			return r, nil
		}
		var outcomes []sqlite.BlockOutcome
		var failure error
		for i := range batch.Records {
			if failure != nil || reached() != "" {
				break
			}
			var o sqlite.BlockOutcome
			if o, failure = w.blocksOf(ctx, model, id, &batch.Records[i], &r); ctx.Err() == nil {
				outcomes = append(outcomes, o)
			}
		}
		// What was embedded is kept, also by a worker that was just stopped.
		built, err := w.o.Blocks.FinishBlocks(context.WithoutCancel(ctx), batch, outcomes)
		r.RecordsBuilt += built
		if err = errors.Join(failure, err); err != nil {
			r.StoppedBy = "failure"
			return r, err
		}
		if built > 0 {
			w.fails = 0
		}
	}
}

// blocks does one run, when blocks are wanted.
func (w *QueueWorker) blocks(ctx context.Context, model embed.Model, id int64) (more bool, err error) {
	if w.o.Blocks == nil {
		return false, nil
	}
	if !w.o.BuildBlocks() {
		return false, w.endBlocksIfOff(ctx)
	}
	if err := w.beginBlocks(ctx, id); err != nil {
		return false, err
	}
	r, err := w.blockRun(ctx, model, id, DefaultBlockLimits())
	if r.RecordsBuilt > 0 {
		p, problem := w.o.Blocks.BlockProgress(ctx, id)
		if err = errors.Join(err, problem); problem == nil {
			made := report(r, p)
			w.o.Log.Debug("blocks", "run", made.Run, "corpus", made.Corpus)
		}
	}
	if err != nil {
		w.begun = notBegun
	}
	return r.StoppedBy != "nothing_left", err
}

func report(r BlockRunPart, p sqlite.BlockProgress) BlockRun {
	return BlockRun{Run: r, Corpus: BlockCorpusPart{WithBlocks: p.Sets, NeedingBlocks: p.Waiting}}
}

func (w *QueueWorker) beginBlocks(ctx context.Context, id int64) error {
	if w.begun == id {
		return nil
	}
	if err := w.o.Blocks.BeginBlocks(ctx, id); err != nil {
		return err
	}
	w.begun = id
	return nil
}

// endBlocksIfOff forgets what was queued, once.
func (w *QueueWorker) endBlocksIfOff(ctx context.Context) error {
	if w.o.Blocks == nil || w.o.BuildBlocks() || w.begun == buildingOff {
		return nil
	}
	if err := w.o.Blocks.EndBlocks(ctx); err != nil {
		return err
	}
	w.begun = buildingOff
	return nil
}

// blocksOf makes the set of one record. A failure of the model is in the outcome
// as well: the record is tried again later and does not hold up the others.
func (w *QueueWorker) blocksOf(ctx context.Context, model embed.Model, id int64, rec *sqlite.BlockRecord, r *BlockRunPart) (o sqlite.BlockOutcome, err error) {
	r.RecordsLooked++
	r.Characters += memory.Len(rec.Text)
	if rec.Current || rec.Damaged || !NeedsBlocks(rec.Text) {
		return o, nil
	}
	w.o.GiveWay(ctx)
	o.Set, err = makeBlockSet(ctx, model, id, rec)
	if err == nil {
		r.Texts += len(o.Set.Blocks)
	}
	if ctx.Err() != nil {
		return o, ctx.Err()
	}
	w.o.Observe(err)
	if err != nil {
		// That others were built meanwhile makes this record no easier.
		again := w.o.Clock().Add(max(w.retry(), retryAfter(rec.Attempts)))
		return sqlite.BlockOutcome{Failure: err.Error(), NotBefore: again}, fmt.Errorf("embed the blocks of %s: %w", rec.Ref, err)
	}
	return o, nil
}

// makeBlockSet splits a text inside its nodes and embeds the blocks, outside any
// lock (BR-123). Signs and int8 come of the same vectors (BR-048). A block that
// the model has no vector for is unembeddable for good (DECISIONS 26).
func makeBlockSet(ctx context.Context, model embed.Model, id int64, rec *sqlite.BlockRecord) (*sqlite.BlockSet, error) {
	nodes, err := nodesOf(ctx, model, rec.Text)
	if err != nil {
		return nil, err
	}
	all, err := blocks.Split(rec.Text, nodes)
	if err != nil {
		return nil, err
	}
	set := &sqlite.BlockSet{Ref: rec.Ref, Model: id, Revision: rec.Revision, Policy: blocks.PolicyVersion}
	vectors, err := embedBlocks(ctx, model, textsOf(rec.Text, all))
	if err != nil {
		return nil, err
	}
	if set.Dims, err = dimsOf(ctx, model, vectors); err != nil {
		return nil, err
	}
	for i, b := range all {
		span := sqlite.BlockSpan{Start: b.Start, End: b.End, Forced: b.Forced, Node: b.Node}
		values, ok := memory.Int8(vectors[i])
		if ok && len(vectors[i]) != set.Dims {
			return nil, &embed.DimensionError{Want: set.Dims, Got: len(vectors[i])}
		}
		bits := memory.Signs(vectors[i])
		if !ok {
			span.Unembeddable = true
			bits, values = make([]byte, (set.Dims+7)/8), make([]byte, set.Dims)
		}
		set.Blocks = append(set.Blocks, span)
		set.Bits, set.Values = append(set.Bits, bits...), append(set.Values, values...)
	}
	return set, nil
}

// dimsOf is the width of the vectors, or the model's when it made none.
func dimsOf(ctx context.Context, model embed.Model, vectors [][]float32) (int, error) {
	for _, v := range vectors {
		if v != nil {
			return len(v), nil
		}
	}
	identity, err := model.Identity(ctx)
	return identity.Dims, err
}

func embedBlocks(ctx context.Context, model embed.Model, texts []string) ([][]float32, error) {
	var vectors [][]float32
	for len(texts) > 0 {
		n := min(BlockTexts, len(texts))
		part, err := model.Embed(ctx, embed.Document, texts[:n])
		if err != nil {
			return nil, err
		}
		vectors, texts = append(vectors, part...), texts[n:]
	}
	return vectors, nil
}

// CountsNodes reports whether the model says how much of a text it reads, which
// divides records into nodes. Without, blocks are built all the same and quotations
// know no nodes (DECISIONS 26).
func CountsNodes(model embed.Model) bool {
	_, counts := model.(embed.TokenCounter)
	return counts && model.Window().Known
}

// nodesOf divides a text by the model's window; nil when that is not known.
func nodesOf(ctx context.Context, model embed.Model, text string) ([]memory.Span, error) {
	if !CountsNodes(model) {
		return nil, nil
	}
	counter := model.(embed.TokenCounter)
	nodes, err := blocks.Nodes(text, model.Window().Limit, func(texts []string) ([]int, error) {
		counts, err := counter.CountTokens(ctx, texts)
		tokens := make([]int, len(counts))
		for i, c := range counts {
			tokens[i] = c.Tokens
		}
		return tokens, err
	})
	if errors.Is(err, embed.ErrNotOffered) {
		return nil, nil
	}
	return nodes, err
}

// textsOf cuts the text at its blocks, which cover it.
func textsOf(text string, all []blocks.Block) []string {
	texts := make([]string, 0, len(all))
	rest := text
	for _, b := range all {
		part, _ := memory.Prefix(rest, b.Len())
		texts, rest = append(texts, part), rest[len(part):]
	}
	return texts
}

// MissingBlocks looks for records that need blocks, have no current set, and do not
// wait for one either. It returns at most [MostFixed] of them, how many there are,
// and how many wait. It reads every record without a set and asks no model.
func MissingBlocks(ctx context.Context, queue BlockQueue, model int64) (some []memory.Ref, missing, waiting int, err error) {
	err = queue.WithoutBlocks(ctx, model, func(rec sqlite.BlockRecord, waits bool) error {
		switch {
		case rec.Damaged || !NeedsBlocks(rec.Text):
		case waits:
			waiting++
		default:
			if missing++; len(some) < MostFixed {
				some = append(some, rec.Ref)
			}
		}
		return nil
	})
	return some, missing, waiting, err
}

// FixBlocks builds at most [MostFixed] records: missing ones first, then those that
// wait. It takes turns with Run and returns how many were built.
func (w *QueueWorker) FixBlocks(ctx context.Context) (int64, error) {
	if w.o.Blocks == nil || !w.o.BuildBlocks() {
		return 0, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	model, id, err := w.o.Model(ctx)
	if err != nil {
		return 0, err
	}
	if err := w.beginBlocks(ctx, id); err != nil {
		return 0, err
	}
	some, _, _, err := MissingBlocks(ctx, w.o.Blocks, id)
	if err != nil {
		return 0, err
	}
	if err := w.o.Blocks.AskForBlocks(ctx, id, some); err != nil {
		return 0, err
	}
	limits := DefaultBlockLimits()
	limits.Records = MostFixed
	r, err := w.blockRun(ctx, model, id, limits)
	return int64(r.RecordsBuilt), err
}
