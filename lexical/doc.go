// Package lexical finds records by their words: one analyser for text and query,
// one ranking, and the postings that make it fast.
//
// Its job ends at bytes and rows: it turns texts into terms ([Analyser]), ranks
// rows for a query ([Index.Search], [Scan]), and codes postings to bytes and back
// ([Builder], [Index.Merge], [Open]). docs/lexical.md shows a small example from
// text to score, and the file format.
//
// Invariants:
//
//   - An answer is a function of the query and the live rows of its cells. The
//     number of rows, their average length and a term's document frequency are
//     counted over those rows alone, so that no other cell, deletion, file cut or
//     compaction changes a score (DECISIONS 1, 2).
//   - Postings in files, rows in memory and texts read directly give equal bytes:
//     all three are read as one sequence of live rows per cell, and scores are
//     sums of integers.
//   - Pruning gives the rows and scores that scoring every row gives.
//   - Neighbours lend words inside their cell and session, never across either.
//     A row's words stand in its own postings only, so that deleting it takes them
//     away from its neighbours too.
//   - Damaged bytes give [ErrCorrupt], never a panic and never a wrong row.
//
// It refuses to open files, to know SQL, to follow cues such as "last week", to
// find typing errors, and to search for substrings: the compatibility arm does
// the last.
package lexical
