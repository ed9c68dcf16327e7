package kernel

import (
	"errors"
	"fmt"

	"recalld/memory"
)

// MaxDims is the most components of a row of [Values]: dot products and norms of
// as many stay within 32 bits.
const MaxDims = 32_768

// Values is rows of Dims signed bytes, each Stride bytes behind the one before,
// as memory.Int8 makes them. What lies between two rows is not looked at.
type Values struct {
	Dims   int
	Stride int    // at least Dims
	Data   []byte // read only, for example a mapped file
}

// Rows is the number of rows; the last one may end with its components.
func (v Values) Rows() int {
	if len(v.Data) < v.Dims {
		return 0
	}
	return (len(v.Data)-v.Dims)/v.Stride + 1
}

func (v Values) check() error {
	if v.Dims < 1 || v.Dims > MaxDims || v.Stride < v.Dims {
		return &memory.FieldError{Field: "values", Problem: fmt.Sprintf("have %d components every %d bytes", v.Dims, v.Stride),
			Limit: fmt.Sprintf("1 to %d components, and as many bytes or more", MaxDims), Next: "rebuild the file that holds them"}
	}
	return checkRows("values", v.Rows())
}

func (v Values) checkQuery(query []byte) error {
	if len(query) != v.Dims {
		return &memory.FieldError{Field: "query", Problem: fmt.Sprintf("has %d components", len(query)), Limit: fmt.Sprintf("the %d of a row", v.Dims),
			Next: "embed it with the model of the rows"}
	}
	return nil
}

func (v Values) checkList(rows []uint32, out []int32) error {
	if len(out) != len(rows) {
		return &memory.FieldError{Field: "results", Problem: fmt.Sprintf("have room for %d", len(out)), Limit: fmt.Sprintf("the %d rows", len(rows)),
			Next: "make them as long as the list of rows"}
	}
	have := v.Rows()
	for i, r := range rows {
		if int(r) >= have {
			return &memory.FieldError{Field: fmt.Sprintf("rows[%d]", i), Problem: fmt.Sprintf("is %d", r), Limit: fmt.Sprintf("below %d", have),
				Next: "ask for rows that the file has"}
		}
	}
	return nil
}

// Dots writes the dot products of the query and the listed rows to dots, which is
// as long as the list: exact, on every path. Ascending lists are read fastest.
// What does not fit is a *[memory.FieldError].
func (v Values) Dots(p Path, rows []uint32, query []byte, dots []int32) error {
	if err := errors.Join(v.check(), checkPath(p)); err != nil {
		return err
	}
	if err := errors.Join(v.checkQuery(query), v.checkList(rows, dots)); err != nil || len(rows) == 0 {
		return err
	}
	v.dots(p, 0, rows, query, dots)
	return nil
}

// Norms writes the sums of squares of the listed rows to norms, as [Values.Dots]
// does dot products.
func (v Values) Norms(p Path, rows []uint32, norms []int32) error {
	if err := errors.Join(v.check(), checkPath(p)); err != nil {
		return err
	}
	if err := v.checkList(rows, norms); err != nil || len(rows) == 0 {
		return err
	}
	if p == Go {
		normsGo(v, rows, norms)
	} else {
		normsC(p, v, rows, norms)
	}
	return nil
}

// dots writes the dot products of the listed rows, or of as many rows as there is
// room for from row `from` on when the list is nil.
func (v Values) dots(p Path, from int, rows []uint32, query []byte, dots []int32) {
	if p == Go {
		dotsGo(v, from, rows, query, dots)
	} else {
		dotsC(p, v, from, rows, query, dots)
	}
}

// dotsTogether writes the dot products of up to [MaxQueries] queries, one behind
// the other, with as many rows as there is room for from row `from` on: those of
// the first query, then those of the next. Each row is read once.
func (v Values) dotsTogether(p Path, from int, queries []byte, dots []int32) {
	switch {
	case len(queries) == v.Dims:
		v.dots(p, from, nil, queries, dots)
	case p == Go:
		dotsTogetherGo(v, from, queries, dots)
	default:
		dotsTogetherC(p, v, from, queries, dots)
	}
}

func dotsTogetherGo(v Values, from int, queries []byte, dots []int32) {
	n := len(queries) / v.Dims
	rows := len(dots) / n
	for i := range rows {
		row := v.row(from, nil, i)
		for q := range n {
			dots[q*rows+i] = dot(row, queries[q*v.Dims:][:v.Dims])
		}
	}
}

func dotsGo(v Values, from int, rows []uint32, query []byte, dots []int32) {
	for i := range dots {
		dots[i] = dot(v.row(from, rows, i), query)
	}
}

func normsGo(v Values, rows []uint32, norms []int32) {
	for i := range norms {
		row := v.row(0, rows, i)
		norms[i] = dot(row, row)
	}
}

func (v Values) row(from int, rows []uint32, i int) []byte {
	r := from + i
	if rows != nil {
		r = int(rows[i])
	}
	return v.Data[r*v.Stride:][:v.Dims]
}

// dot adds in four sums, which a processor can work on side by side.
func dot(a, b []byte) int32 {
	var s0, s1, s2, s3 int32
	for len(a) >= 4 && len(b) >= 4 {
		s0 += int32(int8(a[0])) * int32(int8(b[0]))
		s1 += int32(int8(a[1])) * int32(int8(b[1]))
		s2 += int32(int8(a[2])) * int32(int8(b[2]))
		s3 += int32(int8(a[3])) * int32(int8(b[3]))
		a, b = a[4:], b[4:]
	}
	for i := range a {
		s0 += int32(int8(a[i])) * int32(int8(b[i]))
	}
	return s0 + s1 + s2 + s3
}
