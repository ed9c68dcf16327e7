package sqlite

import "recalld/memory"

// BlockBitsOf calls each for the current sets of records, in the order of refs;
// a record without one is passed over. It does not check the scope: the caller
// holds refs that the change log or a search of the scope named.
func (v *View) BlockBitsOf(model int64, refs []memory.Ref, each func(BlockCodes) error) error {
	dims, err := v.dims(model)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		err := v.query("SELECT b.cell, b.n, b.bits, CASE WHEN b.unembeddable > 0 THEN b.spans END FROM block_set b WHERE b.key = ? AND "+currentSet,
			[]any{vectorKey(model, ref)}, func(r row) error {
				return each(BlockCodes{Ref: ref, Cell: r.int(0), N: int(r.int(1)), Dims: dims, Bits: r.blob(2), Unembeddable: unembeddable(r.blob(3))})
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// BlocksOf is the current set of one record under a model.
type BlocksOf struct {
	Spans  []BlockSpan
	Dims   int
	Values []byte // int8 vectors, len(Spans) × Dims; those of unembeddable blocks are zero
}

// BlocksOf returns the blocks of a record under a model with their vectors; ok is
// false when it has no current set. It does not check the scope.
func (v *View) BlocksOf(model int64, ref memory.Ref) (b BlocksOf, ok bool, err error) {
	err = v.query("SELECT b.spans, k.dims, v.value FROM block_set b JOIN model k ON k.id = b.model JOIN block_vec v ON v.id >= b.vectors AND v.id < b.vectors + b.parts WHERE b.key = ? AND "+currentSet+" ORDER BY v.id",
		[]any{vectorKey(model, ref)}, func(r row) error {
			if !ok {
				b.Spans, b.Dims, ok = decodeSpans(r.blob(0)), int(r.int(1)), true
				b.Values = make([]byte, 0, len(b.Spans)*b.Dims)
			}
			b.Values = append(b.Values, r.blob(2)...)
			return nil
		})
	return b, ok, err
}

func unembeddable(spans []byte) (indices []int) {
	for i, s := range decodeSpans(spans) {
		if s.Unembeddable {
			indices = append(indices, i)
		}
	}
	return indices
}
