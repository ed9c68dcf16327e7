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

// BlockVectors returns the int8 vectors of all blocks of a record, n × dims bytes;
// those of unembeddable blocks are zero. ok is false when it has no current set.
// It does not check the scope.
func (v *View) BlockVectors(model int64, ref memory.Ref) (values []byte, dims int, ok bool, err error) {
	if dims, err = v.dims(model); err != nil {
		return nil, 0, false, err
	}
	err = v.query("SELECT v.value FROM block_set b JOIN block_vec v ON v.id >= b.vectors AND v.id < b.vectors + b.parts WHERE b.key = ? AND "+currentSet+" ORDER BY v.id",
		[]any{vectorKey(model, ref)}, func(r row) error {
			values, ok = append(values, r.blob(0)...), true
			return nil
		})
	return values, dims, ok, err
}

func unembeddable(spans []byte) (indices []int) {
	for i, s := range decodeSpans(spans) {
		if s.Unembeddable {
			indices = append(indices, i)
		}
	}
	return indices
}
