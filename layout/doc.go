// Package layout is the bytes of the files that a scan reads: segments (.bits)
// with the codes of rows, and value files with the int8 rows (.i8) that a re-rank
// reads and the float32 vectors (.f32) that decide a rank of records. docs/layout.md has the pictures.
//
// # Segments
//
// A [Segment] is one immutable file of rows of one kind and one model, sorted by
// agent, project, channel, kind, parent and block (DECISIONS 29). Its directory
// has 32 bytes a cell and is searched where it is mapped, so that a million
// cells are neither read nor allocated at the start. [Segment.Ranges] turns a
// scope into row ranges, [Segment.Touch] verifies what a scan of a range reads,
// [Segment.Rows] tells which record and block a row is.
//
// # Value files
//
// [Values] are rows of signed bytes, each with its norm and a checksum, or of
// float32, each with a checksum. Codes are compacted, values are not (DECISIONS 30): a row of a segment points at a slot
// of a numbered value file.
//
// # Writing
//
// [Create] and [CreateValues] write a file in one pass with bounded memory, under
// a temporary name; Finish makes it durable, read-only and visible under its
// content address: the SHA-256 of its first page, which holds the SHA-256 of
// the rest. The same rows give the same bytes.
//
// Invariants: every byte of a file is behind a checksum that is looked at before
// the byte is used; what a checked file can hold never leads outside its bytes; a
// scope's ranges hold its rows and no other (DECISIONS 3); an opened file is of
// the store and the model that it was opened for.
//
// It refuses: files of versions and kinds that it does not know, rows that are not
// in order, to change or cut a file that has its name, and to know which files
// exist. Damage after a chunk's first touch is [Segment.Verify]'s to find.
package layout
