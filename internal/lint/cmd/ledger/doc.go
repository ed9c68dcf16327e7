// Command ledger brings the statuses in docs/spec up to date with the tests:
//
//	go run ./internal/lint/cmd/ledger
//
// It rewrites the last cell of rows whose status or weight changed, prints how
// many rows of each ledger are held, and names the heavy rows that are not.
//
// Invariants: everything but the last cells stays as it is; a second run
// changes nothing.
//
// It refuses to run outside the repository and to touch a ledger that does not
// parse.
package main
