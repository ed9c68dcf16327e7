package sqlite

import (
	"encoding/json"

	"recalld/memory"
)

// BlockCodes are the sign codes of one current set.
type BlockCodes struct {
	Ref     memory.Ref
	Cell    int64
	N, Dims int
	Bits    []byte // N × ⌈Dims/8⌉; valid during the call
	// Unembeddable are the indices, ascending, of blocks without a code: they are
	// no candidates. Nearly always nil.
	Unembeddable []int
}

// BlockBits calls each for every current set of a model in the cells: cell by
// cell in the order given, episodes before memories, parents ascending. The
// copied cell chooses the rows; only hydration decides who may see them (BR-093). Of
// the vectors it asks for the sizes, which [currentSet] compares, and for no value.
func (v *View) BlockBits(model int64, cells []int64, each func(BlockCodes) error) error {
	dims, err := v.dims(model)
	if err != nil {
		return err
	}
	for _, cell := range cells {
		err := v.query("SELECT b.kind, b.parent, b.n, b.bits, CASE WHEN b.unembeddable > 0 THEN b.spans END FROM block_set b INDEXED BY block_cell WHERE b.cell = ? AND b.key >= ? AND b.key < ? AND "+currentSet+" ORDER BY b.key",
			[]any{cell, model << 41, (model + 1) << 41}, func(r row) error {
				return each(BlockCodes{
					Ref: memory.Ref{Kind: memory.Kind(r.int(0)), ID: r.int(1)}, Cell: cell,
					N: int(r.int(2)), Dims: dims, Bits: r.blob(3), Unembeddable: unembeddable(r.blob(4)),
				})
			})
		if err != nil {
			return err
		}
	}
	return nil
}

func (v *View) dims(model int64) (dims int, err error) {
	err = v.query("SELECT dims FROM model WHERE id = ?", []any{model}, func(r row) error {
		dims = int(r.int(0))
		return nil
	})
	return dims, err
}

// BlockRow names one block of a record.
type BlockRow struct {
	Ref   memory.Ref
	Index int
}

// blockValues looks at each set once, however many of its blocks are asked for.
var blockValues = `WITH asked AS (SELECT key AS place, value->>0 AS at, value->>1 AS block FROM json_each(?1)),
	sets AS MATERIALIZED (SELECT b.key AS at, b.n, b.vectors, b.spans FROM block_set b WHERE b.key IN (SELECT at FROM asked) AND ` + currentSet + `)
	SELECT a.place, substr(v.value, a.block % ?2 * ?3 + 1, ?3), substr(s.spans, 2 * a.block + 1, 2)
	FROM asked a CROSS JOIN sets s ON s.at = a.at AND a.block BETWEEN 0 AND s.n - 1 CROSS JOIN block_vec v ON v.id = s.vectors + a.block / ?2`

// BlockValues returns the int8 vectors of blocks, in the order of rows; nil for a
// block that has none or is not in a current set. It reads the rows that are
// named and no others, and does not check the scope: the caller holds rows that
// a search of the scope chose.
func (v *View) BlockValues(model int64, rows []BlockRow) ([][]byte, error) {
	values := make([][]byte, len(rows))
	dims, err := v.dims(model)
	if err != nil || dims == 0 || len(rows) == 0 {
		return values, err
	}
	asked := make([][2]int64, len(rows))
	for i, at := range rows {
		asked[i] = [2]int64{vectorKey(model, at.Ref), int64(at.Index)}
	}
	list, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	err = v.query(blockValues, []any{string(list), blocksPerPart(dims), dims}, func(r row) error {
		if s := decodeSpans(r.blob(2)); len(s) == 1 && !s[0].Unembeddable {
			values[r.int(0)] = r.blob(1)
		}
		return nil
	})
	return values, err
}

// BlockSpans returns the blocks of a record under a model; ok is false when it
// has no current set. It does not check the scope.
func (v *View) BlockSpans(model int64, ref memory.Ref) (blocks []BlockSpan, ok bool, err error) {
	err = v.query("SELECT b.spans FROM block_set b WHERE b.key = ? AND "+currentSet, []any{vectorKey(model, ref)}, func(r row) error {
		blocks, ok = decodeSpans(r.blob(0)), true
		return nil
	})
	return blocks, ok, err
}

// BlockCount returns how many sets of a model a cell has, current or not, and how
// many blocks.
func (v *View) BlockCount(model, cell int64) (sets, blocks int64, err error) {
	err = v.query("SELECT sets, blocks FROM block_stats WHERE cell = ? AND model = ?", []any{cell, model}, func(r row) error {
		sets, blocks = r.int(0), r.int(1)
		return nil
	})
	return sets, blocks, err
}

// BlockStats counts the blocks of cells under one model.
type BlockStats struct {
	Sets         int64 // records with a set
	Blocks       int64 // their blocks
	Unembeddable int64 // of these, without a vector for ever
	Waiting      int64 // records that were not looked at yet, or have to be again
}

// BlockStats returns the sum over cells; a cell is given once.
func (v *View) BlockStats(model int64, cells []int64) (st BlockStats, err error) {
	list, err := json.Marshal(cells)
	if err != nil {
		return st, err
	}
	err = v.query(`SELECT coalesce(sum(sets), 0), coalesce(sum(blocks), 0), coalesce(sum(unembeddable), 0)
		FROM json_each(?) JOIN block_stats s ON s.cell = value AND s.model = ?`, []any{string(list), model}, func(r row) error {
		st = BlockStats{Sets: r.int(0), Blocks: r.int(1), Unembeddable: r.int(2)}
		return nil
	})
	if err != nil {
		return st, err
	}
	marks, err := v.blockMarks(model)
	if err != nil {
		return st, err
	}
	add := func(r row) error {
		st.Waiting += r.int(0)
		return nil
	}
	err = v.query("SELECT count(*) FROM json_each(?) CROSS JOIN block_task t INDEXED BY block_task_cell ON t.cell = value WHERE t.key >= ? AND t.key < ?",
		[]any{string(list), model << 41, (model + 1) << 41}, add)
	for _, m := range marks {
		for _, part := range m.open() {
			if err == nil {
				err = v.query("SELECT count(*) FROM json_each(?) CROSS JOIN "+m.table()+" r INDEXED BY "+m.table()+"_cell ON r.cell = value WHERE r.id > ? AND r.id <= ?",
					[]any{string(list), part.after, part.upTo}, add)
			}
		}
	}
	return st, err
}
