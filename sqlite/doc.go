// Package sqlite is the truth: one SQLite file that the user owns, its schema
// and forward migrations, one writer, a pool of readers, the isolation
// predicate, full-text search, the embedding queue and the change log. All SQL
// of the project lives here.
//
// Invariants
//
//   - A write that returned is durable: WAL with synchronous=FULL, one writer
//     goroutine, group commit. Each item of a batch stands in a savepoint of its
//     own, so that a refused item changes nothing and hurts no other (DECISIONS 13).
//   - Every read of records goes through the one predicate in isolation.go. What
//     it selects is exactly what [memory.Scope.Contains] says.
//   - A [View] is one snapshot. All its reads see the same change sequence.
//   - Counts, time bounds, the full-text index, the change log and the fate of
//     vectors follow their rows by triggers, so that a foreign writer cannot
//     leave them behind; [Store.Checks] recounts them.
//   - What was deleted is gone from the bytes of the file and of its log when
//     Delete returns, unless a reader still holds an older snapshot; then
//     [Stats.ErasePending] says so and the writer tries again (DECISIONS 14).
//
// It refuses to open a file of a newer schema, a file that is damaged, and a
// file that is not its own; to repair anything without being told; to cut a
// text; and to move a schema backwards.
package sqlite
