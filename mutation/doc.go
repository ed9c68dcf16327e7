// Command mutation shows that tests bite. Each entry of mutation/list names an
// invariant, an edit that breaks it, and the test that must then fail:
//
//	go run ./mutation                  every mutation
//	go run ./mutation -run count-      those whose name matches
//	go run ./mutation -list            names only
//
// The edit is made in a copy, through `go test -overlay`; the tree is never
// touched. A mutation is killed when the named test fails; it survives when it
// does not. Anything else is an invalid entry: text that does not stand in
// its file exactly once, an edit that does not build, a test that does not
// exist, or one that fails without the edit. The exit code is 0 when every
// mutation was killed, 1 otherwise, 2 for wrong usage.
//
// Invariants: results stand in list and line order, whatever
// finished first; a mutation is counted as killed only when its test was seen
// to pass unedited in the same run.
//
// It refuses to edit more than one line and to change a test.
package main
