// Package bench measures: quality on public question sets, and speed as ratios
// to something measured in the same run.
//
// Invariants: it uses public interfaces only, so that what it measures is what a
// user gets; a report names the machine, the commit and the exact command.
//
// It refuses to judge: there is no threshold in here.
package bench
