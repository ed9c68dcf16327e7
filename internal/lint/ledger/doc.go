// Package ledger reads the requirement ledgers of docs/spec and says which of
// their rows a test names.
//
// A ledger is a Markdown page with tables whose first cell is a row's ID and
// whose last cell is its status:
//
//	open     no test names the row
//	held     a test or its testdata names the row
//	partly   named by a test that holds only a part of it
//	context  background, a recorded figure or a review by people: nothing to hold
//	wont     decided against; docs/spec/settled.md says why
//
// An asterisk behind the status marks the rows that carry the most weight.
//
// Invariants: held and partly imply that a test names the row; refreshing twice
// changes nothing the second time, and a refresh changes nothing but statuses.
//
// It refuses to judge whether a test holds what it names.
package ledger
