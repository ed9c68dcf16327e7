// Package client starts the scanner process, watches it, and asks it.
//
// A [Client] has at most one process. It starts it at the first call that needs
// one, gives it the folder, the generation and every change since, and does so
// again when the process is gone: the caller never repeats anything. Starts that
// fail one after another wait longer and longer. A call that finds its process
// gone is made once more with another one, inside its deadline.
//
// Invariants: an answer is whole and from one state, or there is an error of one
// of the kinds of this package, which the caller turns into a declared
// degradation; no answer is from a process that has not been given all changes
// that were applied before the call; no process outlives Close.
//
// It refuses to answer from a state that does not reach the wanted change, to know
// SQL and names, and to keep files.
package client
