package scanner

import (
	"bytes"
	"slices"

	"recalld/layout"
	"recalld/memory"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner/kernel"
)

// vectors is the record vectors of one cell that came after the files, one row a
// record; as part.
type vectors struct {
	cell           layout.Cell
	dims           int
	codes          []byte // dims bytes a row
	scales, bounds []float32
	vectors        [][]float32 // nil: not known
	refs           []memory.Ref
	floats         int         // components of vectors
	live           kernel.Live // replaced, never changed
	place          map[memory.Ref]int
}

func (v *vectors) in() layout.Cell { return v.cell }

func (v *vectors) at(row int) (memory.Ref, int) { return v.refs[row], 0 }

func (v *vectors) bytes() int { return len(v.codes) + v.floats*4 + 56*len(v.refs) }

func (v *vectors) rowsOf(of rowsOf) kernel.Live {
	if of.only == nil {
		return v.live
	}
	some := slices.Clone(v.live)
	for row, ref := range v.refs {
		if !takesPart(of.only, ref) {
			some.Clear(row)
		}
	}
	return some
}

// with returns the rows after changes of their cell.
func (v *vectors) with(changes []*scannerv1.VectorChange) *vectors {
	next := *v
	next.live = slices.Clone(v.live)
	for _, c := range changes {
		ref := refOf(c.GetRef())
		if row, ok := next.place[ref]; ok {
			next.live.Clear(row)
			delete(next.place, ref)
		}
		if len(c.GetCode()) == 0 {
			continue
		}
		row := len(next.refs)
		next.codes = append(next.codes, c.GetCode()...)
		next.scales, next.bounds = append(next.scales, c.GetScale()), append(next.bounds, c.GetBound())
		next.vectors = append(next.vectors, c.GetVector())
		next.floats += len(c.GetVector())
		next.refs = append(next.refs, ref)
		if row%64 == 0 {
			next.live = append(next.live, 0)
		}
		next.live[row/64] |= 1 << (row % 64)
		next.place[ref] = row
	}
	return &next
}

// checkVector refuses what vectors could not hold.
func checkVector(m *model, c *scannerv1.VectorChange) error {
	if k := c.GetRef().GetKind(); k != scannerv1.Kind_KIND_EPISODE && k != scannerv1.Kind_KIND_MEMORY || c.GetRef().GetId() < 1 {
		return invalid("vectors.ref", "is no record: kind %d, id %d", k, c.GetRef().GetId())
	}
	if n := len(c.GetCode()); n != 0 && (n != m.source.Dims || bytes.IndexByte(c.GetCode(), 0x80) >= 0) {
		return invalid("vectors.code", "of %s has %d bytes, the model has %d components from -127 to 127", refOf(c.GetRef()), n, m.source.Dims)
	}
	if n := len(c.GetVector()); n != 0 && n != m.source.Dims {
		return invalid("vectors.vector", "of %s has %d components, the model has %d", refOf(c.GetRef()), n, m.source.Dims)
	}
	if !reasonable(float64(c.GetScale())) || !reasonable(float64(c.GetBound())) {
		return invalid("vectors.scale, bound", "of %s are %g and %g, not 0 to %g", refOf(c.GetRef()), c.GetScale(), c.GetBound(), maxScale)
	}
	return nil
}
