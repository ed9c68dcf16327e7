// Package kernel compares packed sign codes and int8 rows with queries: exactly,
// at the speed at which memory can be read.
//
// # Codes
//
// A [Matrix] is tightly packed rows of a multiple of 64 bits. A [Scan] goes once
// over a range of its rows with up to [MaxQueries] queries and keeps for each the
// rows with the least Hamming distances, and when asked the parents with the
// least distances of their best rows (BR-032, BR-035). Work is cut into tiles of
// [TileRows] rows that any number of goroutines take in turn.
//
// # int8
//
// [Values] are rows of signed bytes. [Values.Dots] and [Values.Norms] are for a
// list of rows to re-rank (DECISIONS 22), [BoundScans] reads a range, once for several
// queries, and keeps every row that, within its error, could be among the best
// (DECISIONS 20).
//
// # Paths
//
// The inner loops exist once in Go and, through cgo, once per instruction set:
// see [Path]. C functions keep nothing and decide nothing: they write which rows
// are below a limit, and the Go code that is the same for all paths does the
// rest. Go is the path where the others do not exist, and the oracle of the
// tests.
//
// Invariants: every path gives the same rows, distances, dot products and norms,
// to the bit; so do any number of threads and any cut into tiles (DECISIONS 2).
// Rows outside the range and rows that are not live are in no answer. Equal
// distances are ordered by ordinal, or by [Job.Precedes]. A limit that comes from
// elsewhere admits its equals; only a worker's own limit, whose rows come in
// ascending order, shuts them out.
//
// It refuses: widths that are not a multiple of 64 bits, lengths that do not
// fit, ordinals behind the last row, and to know what a row stands for.
package kernel
