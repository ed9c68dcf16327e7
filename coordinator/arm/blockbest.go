package arm

import (
	"recalld/memory"
	"recalld/sqlite"
)

// Best returns which block of a record is nearest to the query by the stored
// vectors, which every block of a current set has (BR-144, BR-200); of equal ones
// the first. ok is false when the record has no current set of the query's width.
func (b *Blocks) Best(view *sqlite.View, m ModelVector, ref memory.Ref) (index int, ok bool, err error) {
	query, usable := memory.Int8(m.Vector)
	values, dims, found, err := view.BlockVectors(m.Model, ref)
	if err != nil || !found || !usable || dims != len(m.Vector) {
		return 0, false, err
	}
	var best float64
	for i := 0; len(values) >= dims; i++ {
		cosine, embedded := Cosine8(query, values[:dims])
		if embedded && (!ok || cosine > best) {
			index, best, ok = i, cosine, true
		}
		values = values[dims:]
	}
	return index, ok, nil
}
