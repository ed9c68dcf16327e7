package arm

import (
	"recalld/memory"
	"recalld/sqlite"
)

// Best returns which block of a record's current set is nearest to the query by the
// stored vectors, which every block of it has (BR-144, BR-200); of equal ones the
// first. ok is false when the set is not of the query's width.
func Best(m ModelVector, set sqlite.BlocksOf) (index int, ok bool) {
	query, usable := memory.Int8(m.Vector)
	if !usable || set.Dims != len(m.Vector) {
		return 0, false
	}
	var best float64
	norm := normOf(query)
	for i, values := 0, set.Values; len(values) >= set.Dims; i++ {
		p := productOf(query, values[:set.Dims])
		values = values[set.Dims:]
		if p.Norm == 0 {
			continue
		}
		if cosine := p.cosine(norm); !ok || cosine > best {
			index, best, ok = i, cosine, true
		}
	}
	return index, ok
}
