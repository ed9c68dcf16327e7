// Package scanner holds what reads the derived matrices at the speed of memory.
// Its hot code is scanner/kernel.
//
// Invariants: an answer is exact and the same whatever the processor, the number
// of threads and the cut into tiles; rows outside the range that was asked for
// are never read.
//
// It refuses to know records: rows are ordinals of a file here, and what they
// stand for is the business of whoever holds the file's row table.
package scanner
