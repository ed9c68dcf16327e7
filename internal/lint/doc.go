// Package lint holds the project's rules that a compiler does not know, as
// functions over a source tree, and applies them to this repository in its
// test:
//
//   - imports point down the list of packages, and the pure ones do no I/O
//   - SQL and the SQLite driver stay in sqlite
//   - unsafe, cgo and assembly stay in their rooms
//   - every package has a doc.go, every exported name a comment
//   - a float product is rounded where it is made, so that no processor fuses
//     it with the addition that follows, and no function of package math is
//     used that processors compute differently
//   - clocks and randomness come from outside
//   - no package-level variable changes
//   - no test skips itself, nothing is left to do later
//   - no file names a path of one machine or the host of a package registry
//   - every imported module is explained in docs/dependencies.md
//   - every ledger row that is marked held is named by a test, and every row
//     that a test names exists
//
// Invariants: every rule has a case under testdata that it must flag and one
// that it must leave alone; findings come in file and line order.
//
// It refuses to rewrite anything and to run what it reads.
package lint

//go:generate go run recalld/internal/lint/cmd/ledger
