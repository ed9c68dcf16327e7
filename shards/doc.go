// Package shards knows which rows exist where on the derived side: the sealed
// files of postings below DATA/derived, what came since, and which cells still
// have to be built. Everything here follows from the SQLite file and can be
// deleted at any moment, also while a server runs; no answer changes by it.
//
// [Lexical] is that side for words. Its files are named by the SHA-256 of their
// bytes, written under a temporary name, synced, renamed, mapped read-only, and
// never changed. One manifest names the files of the current generation, the
// truth they were made from, and the last change of the log that they hold,
// with that change's random lineage; it is replaced by one rename and ends in a
// checksum. A manifest and not a key-value store, because a generation has at
// most dozens of files whatever the number of tenants, changes a few times a
// minute at most, and is read once: a rename is all the transaction it needs.
//
// Invariants
//
//   - A search answers for exactly the snapshot that it is given. The change log
//     is taken over up to the snapshot first; a cell that has already moved past
//     it is read from the snapshot itself, with the same ranking and the same
//     bytes.
//   - A cell is searched in its postings, or read directly, or named as missing
//     in the answer. It is never silently left out.
//   - Files hold the state at the manifest's change or a later one. Taking over
//     the log from there on again does no harm, because a change says which
//     record to look at and the record is read as it is now.
//   - A generation is used only when its change is still in the log with the
//     same lineage and the same truth; otherwise it is built anew (DECISIONS 4).
//   - No file of a generation holds a row that the log has deleted up to the
//     manifest's change, and after [Lexical.Erase] no file holds one at all
//     (DECISIONS 14).
//   - A damaged file is set aside, its cells are built anew, and nothing of it
//     reaches an answer. A file that somebody writes to while it is open counts as
//     damaged until all its checksums are right again. (A disk that changes bytes
//     without a write is noticed by [Lexical.Verify], not by a search that has
//     used the partition before.)
//   - A folder that cannot be used stops nothing: the index is in memory then.
//
// [Codes] is that side for blocks and record vectors: matrices that a scanner
// process holds. Its files are those of package layout, its generations those of
// one CATALOG, made and replaced in the same way. What differs: the scanner holds what
// came since the files, so that a snapshot that it has passed is answered only when
// nothing of the scope changed in between; agents whose names have one key are
// refused; what is not held in full is not answered at all ([ErrNotBuilt]), and the
// caller answers in the process, with the same bytes; and no vector is written
// again but to erase one, or because most of its file is of no use.
//
// It refuses to rank, to know scopes by name, to answer from a guess, and to
// repair a damaged file.
package shards
