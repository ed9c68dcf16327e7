// Package scannerv1 is the wire between a server and its scanner process, made
// from scanner.proto.
//
// Invariants: no message holds a name of an agent, a project or a channel, a
// text, or, but for OpenRequest, an absolute path; every reply about rows says
// which generation it was made from.
//
// It refuses to be a public interface: it changes with the binary.
package scannerv1
