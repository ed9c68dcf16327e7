// Command recalld keeps the long-term memory of AI agents in one SQLite file
// and answers from it.
//
// The package holds flags, output, exit codes and progress. It decides nothing
// about memory: every command speaks to a coordinator.Service, the one of a
// running server when its socket answers, else one opened in this process under
// the folder's lock.
package main
