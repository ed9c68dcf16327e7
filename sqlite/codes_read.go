package sqlite

import (
	"math"

	"recalld/memory"
)

// What is here serves those who build and follow files derived from the store,
// never a request. Each call is one page: the caller opens a snapshot for it and
// closes it again.

// CellName is one cell by number and name.
type CellName struct {
	ID   int64
	Cell memory.Cell
}

// CellNames calls each for up to limit cells after a number, ascending.
func (v *View) CellNames(after int64, limit int, each func(CellName) error) error {
	return v.query("SELECT id, agent, project, channel FROM cell WHERE id > ? ORDER BY id LIMIT ?", []any{after, limit}, func(r row) error {
		return each(CellName{ID: r.int(0), Cell: memory.Cell{Agent: r.text(1), Project: r.text(2), Channel: r.text(3)}})
	})
}

// CellCount is how much of one model a cell has.
type CellCount struct {
	Cell int64
	N    int64
}

// CountedBlocks calls each for up to limit cells after a number that have blocks
// of a model, current or not, ascending, with how many.
func (v *View) CountedBlocks(model, after int64, limit int, each func(CellCount) error) error {
	return v.query("SELECT cell, blocks FROM block_stats WHERE cell > ? AND model = ? AND blocks > 0 ORDER BY cell LIMIT ?", []any{after, model, limit}, func(r row) error {
		return each(CellCount{r.int(0), r.int(1)})
	})
}

// CountedVectors is [View.CountedBlocks] for record vectors.
func (v *View) CountedVectors(model, after int64, limit int, each func(CellCount) error) error {
	return v.query("SELECT cell, memories + episodes FROM cell_stats WHERE cell > ? AND model = ? AND memories + episodes > 0 ORDER BY cell LIMIT ?", []any{after, model, limit}, func(r row) error {
		return each(CellCount{r.int(0), r.int(1)})
	})
}

// ModelWidth returns the components of a model's vectors and whether it is
// searched: not retired. measured says that its identity is known, without which
// no block set is current. A model that is not there has no components.
func (v *View) ModelWidth(model int64) (dims int, searched, measured bool, err error) {
	err = v.query("SELECT dims, state <> ?, length(probes) > 0 FROM model WHERE id = ?", []any{ModelRetired, model}, func(r row) error {
		dims, searched, measured = int(r.int(0)), r.int(1) != 0, r.int(2) != 0
		return nil
	})
	return dims, searched, measured, err
}

// CodedSet is the current block set of one record with its codes and, where they
// were asked for, its vectors. The slices are the caller's to keep.
type CodedSet struct {
	Ref          memory.Ref
	Cell         int64
	N            int
	Bits         []byte // N × ⌈dims/8⌉
	Values       []byte // N × dims of int8; nil: not asked for
	Unembeddable []int  // indices of blocks without a code, ascending; nearly always nil
}

// codedPage is how many bytes of codes and vectors one page has, one set
// excepted.
const codedPage = 4 << 20

const codedColumns = "b.kind, b.parent, b.cell, b.n, b.bits, CASE WHEN b.unembeddable > 0 THEN b.spans END, b.vectors, b.parts"

// codedSet is a set and where its vectors stand.
type codedSet struct {
	CodedSet
	vectors, parts int64
}

func decodeCoded(r row) codedSet {
	return codedSet{vectors: r.int(6), parts: r.int(7), CodedSet: CodedSet{
		Ref: memory.Ref{Kind: memory.Kind(r.int(0)), ID: r.int(1)}, Cell: r.int(2), N: int(r.int(3)), Bits: r.blob(4), Unembeddable: unembeddable(r.blob(5)),
	}}
}

// CodedSets calls each for the current sets of a model in one cell after a
// record, in the order of references: at most limit of them, fewer when they are
// large, and none only when there are no more.
func (v *View) CodedSets(model, cell int64, after memory.Ref, limit int, values bool, each func(CodedSet) error) error {
	dims, err := v.dims(model)
	if err != nil {
		return err
	}
	var page []codedSet
	size := 0
	err = v.query("SELECT "+codedColumns+" FROM block_set b INDEXED BY block_cell WHERE b.cell = ? AND b.key > ? AND b.key < ? AND "+currentSet+" ORDER BY b.key LIMIT ?",
		[]any{cell, afterKey(model, after), (model + 1) << 41, limit}, func(r row) error {
			s := decodeCoded(r)
			page = append(page, s)
			if size += s.N * ((dims+7)/8 + dims); size >= codedPage {
				return errStop
			}
			return nil
		})
	if err != nil {
		return err
	}
	return v.giveCoded(page, dims, values, each)
}

// afterKey is the key after which the records after one stand; the zero
// reference is before all.
func afterKey(model int64, after memory.Ref) int64 {
	if after.ID == 0 {
		return model<<41 - 1
	}
	return vectorKey(model, after)
}

// CodedSetsOf calls each for the current sets of records, in the order of refs; a
// record without one is passed over.
func (v *View) CodedSetsOf(model int64, refs []memory.Ref, values bool, each func(CodedSet) error) error {
	dims, err := v.dims(model)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		var found []codedSet
		err := v.query("SELECT "+codedColumns+" FROM block_set b WHERE b.key = ? AND "+currentSet, []any{vectorKey(model, ref)}, func(r row) error {
			found = append(found, decodeCoded(r))
			return nil
		})
		if err != nil {
			return err
		}
		if err := v.giveCoded(found, dims, values, each); err != nil {
			return err
		}
	}
	return nil
}

// giveCoded reads the vectors of sets, which mostly follow one another, and hands
// the sets over.
func (v *View) giveCoded(page []codedSet, dims int, values bool, each func(CodedSet) error) error {
	for first := 0; first < len(page); {
		end := first + 1
		for end < len(page) && page[end].vectors == page[end-1].vectors+page[end-1].parts {
			end++
		}
		if values {
			at := first
			last := page[end-1].vectors + page[end-1].parts
			err := v.query("SELECT id, value FROM block_vec WHERE id >= ? AND id < ? ORDER BY id", []any{page[first].vectors, last}, func(r row) error {
				for r.int(0) >= page[at].vectors+page[at].parts {
					at++
				}
				if page[at].Values == nil {
					page[at].Values = make([]byte, 0, page[at].N*dims)
				}
				page[at].Values = append(page[at].Values, r.blob(1)...)
				return nil
			})
			if err != nil {
				return err
			}
		}
		for ; first < end; first++ {
			if err := each(page[first].CodedSet); err != nil {
				return err
			}
		}
	}
	return nil
}

// PlacedVector is the vector of one record and the cell that the record is in.
type PlacedVector struct {
	Ref    memory.Ref
	Cell   int64
	Values []float32 // overwritten by the next
}

// PlacedVectors calls each for up to limit vectors of a model in one cell after a
// record, in the order of references; none only when there are no more.
func (v *View) PlacedVectors(model, cell int64, after memory.Ref, limit int, each func(PlacedVector) error) error {
	var values []float32
	for _, kind := range []memory.Kind{memory.KindEpisode, memory.KindMemory} {
		if kind < after.Kind || limit <= 0 {
			continue
		}
		id := int64(math.MinInt64)
		if kind == after.Kind {
			id = after.ID
		}
		err := v.query(placedSQL(kind), []any{vectorKey(model, memory.Ref{Kind: kind}), cell, id, limit}, func(r row) error {
			limit--
			values = decodeVector(values[:0], r.blob(1))
			return each(PlacedVector{memory.Ref{Kind: kind, ID: r.int(0)}, cell, values})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func placedSQL(kind memory.Kind) string {
	if kind == memory.KindEpisode {
		return "SELECT r.id, x.value FROM episode r INDEXED BY episode_cell CROSS JOIN vector x ON x.key = ? + r.id WHERE r.cell = ? AND r.id > ? ORDER BY r.id LIMIT ?"
	}
	return "SELECT r.id, x.value FROM memory r INDEXED BY memory_cell CROSS JOIN vector x ON x.key = ? + r.id WHERE r.cell = ? AND r.id > ? ORDER BY r.id LIMIT ?"
}

// PlacedVectorsOf calls each for the vectors of records, in the order of refs; a
// record without one is passed over.
func (v *View) PlacedVectorsOf(model int64, refs []memory.Ref, each func(PlacedVector) error) error {
	var values []float32
	for _, ref := range refs {
		sql := "SELECT r.cell, x.value FROM vector x JOIN memory r ON r.id = ? WHERE x.key = ?"
		if ref.Kind == memory.KindEpisode {
			sql = "SELECT r.cell, x.value FROM vector x JOIN episode r ON r.id = ? WHERE x.key = ?"
		}
		err := v.query(sql, []any{ref.ID, vectorKey(model, ref)}, func(r row) error {
			values = decodeVector(values[:0], r.blob(1))
			return each(PlacedVector{ref, r.int(0), values})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// CellOf returns the cell of each record that is there.
func (v *View) CellOf(refs []memory.Ref) (map[memory.Ref]int64, error) {
	cells := make(map[memory.Ref]int64, len(refs))
	for _, ref := range refs {
		sql := "SELECT cell FROM memory WHERE id = ?"
		if ref.Kind == memory.KindEpisode {
			sql = "SELECT cell FROM episode WHERE id = ?"
		}
		err := v.query(sql, []any{ref.ID}, func(r row) error {
			cells[ref] = r.int(0)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return cells, nil
}

// CodedRows counts the blocks and record vectors of all models.
func (v *View) CodedRows() (n int64, err error) {
	err = v.query("SELECT (SELECT coalesce(sum(blocks), 0) FROM block_stats) + (SELECT coalesce(sum(memories + episodes), 0) FROM cell_stats WHERE model > 0)", nil, func(r row) error {
		n = r.int(0)
		return nil
	})
	return n, err
}
