// Package baseline is the bare loop that store benchmarks are compared with:
// single-row inserts into a plain table, each its own durable transaction, with
// the journal, page size and synchronisation of the truth.
//
// It refuses to be clever: whatever it does, the truth does as well.
package baseline
