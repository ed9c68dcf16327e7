package kernel

import (
	"fmt"

	"recalld/memory"
)

// MaxBits is the widest row of a [Matrix].
const MaxBits = 16_384

// Matrix is a packed matrix of sign codes, rows × Bits: row r is the bytes from
// r × Bits/8 on. Which bit of a byte comes first does not matter here, only that
// queries have it the same way.
type Matrix struct {
	Bits  int    // a multiple of 64 up to [MaxBits]
	Codes []byte // read only, for example a mapped file
}

// Rows is the number of rows.
func (m Matrix) Rows() int { return len(m.Codes) / (m.Bits / 8) }

func (m Matrix) check() error {
	if m.Bits < 64 || m.Bits > MaxBits || m.Bits%64 != 0 {
		return &memory.FieldError{Field: "bits", Problem: fmt.Sprintf("is %d", m.Bits), Limit: fmt.Sprintf("a multiple of 64 up to %d", MaxBits),
			Next: "pad each code with zero bits"}
	}
	if len(m.Codes)%(m.Bits/8) != 0 {
		return &memory.FieldError{Field: "codes", Problem: fmt.Sprintf("are %d bytes", len(m.Codes)), Limit: fmt.Sprintf("whole rows of %d bytes", m.Bits/8),
			Next: "rebuild the file that holds them"}
	}
	return checkRows("codes", m.Rows())
}

// maxRows keeps ordinals within 32 bits.
const maxRows = 1<<32 - 1

func checkRows(field string, rows int) error {
	if rows > maxRows {
		return &memory.FieldError{Field: field, Problem: fmt.Sprintf("are %d rows", rows), Limit: fmt.Sprint(maxRows), Next: "cut the matrix into several"}
	}
	return nil
}

func checkRange(from, to, rows int) error {
	if from < 0 || from > to || to > rows {
		return &memory.FieldError{Field: "range", Problem: fmt.Sprintf("is %d to %d", from, to), Limit: fmt.Sprintf("within 0 to %d, in order", rows),
			Next: "ask for rows that the matrix has"}
	}
	return nil
}
