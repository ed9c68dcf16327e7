// Package ingest brings records and vectors into the truth: readers of the
// import formats, and the worker that turns queued texts into vectors.
//
// Invariants: a reader never changes a record, it refuses it with its line
// number; reading a file twice gives the same items in the same order; a task
// is finished in the transaction that stores its vector.
//
// It refuses to guess: a line that is not valid is counted and listed.
package ingest
