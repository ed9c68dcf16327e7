// Package arm holds the retrievers. An arm takes one snapshot, a scope, a query
// and a depth, and returns ranked candidates together with what it could not
// do.
//
// Invariants: an arm sees rows of the scope alone, and what it returns depends
// on these alone; candidates come best first in the total order of package
// memory; at most depth of them; anything left out is said. The FTS arms are
// the exception to the first: SQLite's bm25() counts the whole table, so their
// keys move with other agents' rows, and they say so.
//
// It refuses to know how many rows the caller wants, to fuse, to gate, and to
// read a record's text.
package arm
