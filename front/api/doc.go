// Package api is recalld over a socket: a handler that answers for a
// coordinator.Service in Connect, gRPC, gRPC-Web and JSON, and a client that is
// a coordinator.Service again. It also finds the socket of a data folder and
// holds the folder's lock.
//
// Invariants: an answer received through the client has the same JSON bytes as
// the one given in process; an absent project or channel stays absent; an error
// keeps its text, its kinds and its field on the way; a deadline and a
// cancellation reach the service; a message over [MaxMessage] is refused before
// its bytes are taken in; a panic is one failed call.
//
// A server knows who uses it ([Presence]), and a client may follow the servers of
// a folder as they come and go ([Follow]).
//
// It refuses to decide anything: no default, no limit of the service's own, no
// rank and no scope is known here.
package api
