package sqlite

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"recalld/memory"
)

// BlockPolicy is the version of the splitter whose sets are current. It is
// blocks.PolicyVersion, which this package cannot import; a test in ingest holds
// the two together.
const BlockPolicy = 1

// maxBlockLen bounds a block's length, for which the file has 13 bits.
const maxBlockLen = 1<<13 - 1

// BlockSpan is one block of a record's text, in code points, half-open.
type BlockSpan struct {
	Start, End int
	Forced     bool // the length limit ended it
	Node       bool // it begins a node
	// Unembeddable: the model has no vector for it. That is final, its codes are
	// zero, and no search may return it (DECISIONS 26).
	Unembeddable bool
}

// BlockSet is every block of one record under one model.
type BlockSet struct {
	Ref      memory.Ref
	Model    int64
	Revision string      // [memory.Revision] of the text that was split
	Policy   int         // version of the splitter, [BlockPolicy]
	Blocks   []BlockSpan // two or more, in order, covering the text without a gap
	Dims     int         // the model's
	Bits     []byte      // len(Blocks) × ⌈Dims/8⌉, rows by [memory.Signs]
	Values   []byte      // len(Blocks) × Dims, rows by [memory.Int8]
}

// check refuses a set that no search could read.
func (b *BlockSet) check() error {
	refuse := func(field, problem, limit string) error {
		return &memory.FieldError{Field: field, Problem: problem, Limit: limit, Next: "split and embed the record again"}
	}
	n := len(b.Blocks)
	if n < 2 {
		return refuse("blocks", fmt.Sprintf("are %d", n), "2 or more")
	}
	if width := (b.Dims + 7) / 8; len(b.Bits) != n*width {
		return refuse("bits", fmt.Sprintf("have %d bytes", len(b.Bits)), fmt.Sprint(n*width))
	}
	if len(b.Values) != n*b.Dims {
		return refuse("values", fmt.Sprintf("have %d bytes", len(b.Values)), fmt.Sprint(n*b.Dims))
	}
	at := 0
	for i, s := range b.Blocks {
		if s.Start != at || s.End <= s.Start || s.End-s.Start > maxBlockLen {
			return refuse("blocks", fmt.Sprintf("number %d is [%d,%d) where %d begins", i, s.Start, s.End, at), fmt.Sprintf("no gap, and 1 to %d code points", maxBlockLen))
		}
		at = s.End
		values := b.Values[i*b.Dims : (i+1)*b.Dims]
		if whole := bytes.IndexByte(values, 127) >= 0 || bytes.IndexByte(values, 0x81) >= 0; whole == s.Unembeddable {
			return refuse("values", fmt.Sprintf("of block %d reach 127 or -127: %v, and it is unembeddable: %v", i, whole, s.Unembeddable), "exactly one of the two")
		}
	}
	return nil
}

// encodeSpans packs blocks into two bytes each.
func encodeSpans(blocks []BlockSpan) (spans []byte, unembeddable int) {
	spans = make([]byte, 0, 2*len(blocks))
	for _, s := range blocks {
		v := uint16(s.End-s.Start) << 3
		if s.Unembeddable {
			v |= 4
			unembeddable++
		}
		if s.Forced {
			v |= 2
		}
		if s.Node {
			v |= 1
		}
		spans = binary.BigEndian.AppendUint16(spans, v)
	}
	return spans, unembeddable
}

func decodeSpans(spans []byte) []BlockSpan {
	blocks := make([]BlockSpan, 0, len(spans)/2)
	at := 0
	for ; len(spans) >= 2; spans = spans[2:] {
		v := binary.BigEndian.Uint16(spans)
		end := at + int(v>>3)
		blocks = append(blocks, BlockSpan{Start: at, End: end, Unembeddable: v&4 != 0, Forced: v&2 != 0, Node: v&1 != 0})
		at = end
	}
	return blocks
}

// currentSet is the one predicate of currentness, over block_set b: built from
// the record's present text, by the splitter of today, under a model whose
// identity was measured and that is not retired, with a code and a vector of the
// model's width for every block (BR-104, BR-107, BR-120, BR-144). Searches,
// builder and checks all use it.
var currentSet = fmt.Sprintf(`b.policy = %d
	AND b.revision = CASE b.kind WHEN 2 THEN (SELECT digest FROM memory WHERE id = b.parent) ELSE (SELECT digest FROM episode WHERE id = b.parent) END
	AND EXISTS (SELECT 1 FROM model k WHERE k.id = b.model AND k.state <> 'retired' AND length(k.probes) > 0
		AND length(b.bits) = b.n * ((k.dims + 7) / 8) AND length(b.spans) = 2 * b.n
		AND (SELECT sum(length(value)) FROM block_vec WHERE id >= b.vectors AND id < b.vectors + b.parts) = b.n * k.dims)`, BlockPolicy)

// PutBlockSets stores sets in one transaction, each with its codes and vectors
// in place of what the record had under the model. A set whose record is gone or
// has another text by now is not stored (BR-100, BR-103); written tells which
// were. A model without probes has no measured identity and is refused (BR-107).
func (s *Store) PutBlockSets(ctx context.Context, sets []BlockSet) (written []bool, err error) {
	written = make([]bool, len(sets))
	err = s.write(ctx, func(t *tx) error {
		return t.item(func() error {
			clear(written)
			for i := range sets {
				digest, err := digestOfRevision(sets[i].Revision)
				if err != nil {
					return err
				}
				if written[i], err = t.putBlockSet(&sets[i], digest); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("store block sets: %w", err)
	}
	return written, nil
}

func (t *tx) putBlockSet(b *BlockSet, digest []byte) (written bool, err error) {
	ctx := context.Background()
	if err := b.check(); err != nil {
		return false, err
	}
	switch r, err := t.first(ctx, "SELECT dims FROM model WHERE id = ? AND state <> ? AND length(probes) > 0", b.Model, ModelRetired); {
	case err != nil:
		return false, err
	case r == nil:
		return false, &memory.FieldError{Field: "model", Problem: "is unknown, retired, or was never measured", Next: "register the model with its probes first"}
	case int(r.int(0)) != b.Dims:
		return false, &memory.FieldError{Field: "dims", Problem: fmt.Sprintf("are %d", b.Dims), Limit: fmt.Sprintf("%d, the model's", r.int(0)), Next: "embed the blocks with the model that is named"}
	}
	r, err := t.first(ctx, blockParentSQL(b.Ref.Kind), b.Ref.ID)
	if err != nil || r == nil || !bytes.Equal(r.blob(1), digest) {
		return false, err
	}
	key := vectorKey(b.Model, b.Ref)
	if _, _, err := t.exec("DELETE FROM block_set WHERE key = ?", key); err != nil {
		return false, err
	}
	last, err := t.first(ctx, "SELECT coalesce(max(id), 0) FROM block_vec")
	if err != nil {
		return false, err
	}
	part := blocksPerPart(b.Dims) * b.Dims
	spans, unembeddable := encodeSpans(b.Blocks)
	if _, _, err := t.exec("INSERT INTO block_set (key, cell, policy, revision, n, unembeddable, vectors, parts, spans, bits) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		key, r.int(0), b.Policy, digest, len(b.Blocks), unembeddable, last.int(0)+1, (len(b.Values)+part-1)/part, spans, b.Bits); err != nil {
		return false, err
	}
	id := last.int(0)
	for values := range slices.Chunk(b.Values, part) {
		id++
		if _, _, err := t.exec("INSERT INTO block_vec (id, value) VALUES (?, ?)", id, values); err != nil {
			return false, err
		}
	}
	return true, nil
}

// blocksPerPart is how many blocks' vectors share a row of block_vec.
func blocksPerPart(dims int) int { return max(1, 1024/dims) }

func blockParentSQL(kind memory.Kind) string {
	if kind == memory.KindEpisode {
		return "SELECT cell, digest FROM episode WHERE id = ?"
	}
	return "SELECT cell, digest FROM memory WHERE id = ?"
}
