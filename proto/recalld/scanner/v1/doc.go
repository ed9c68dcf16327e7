// Package scannerv1 is the wire between a server and its scanner process, made
// from scanner.proto and words.proto.
//
// Invariants: no message holds a name of an agent, a project or a channel, or,
// but for OpenRequest, an absolute path; texts of records are in no message but
// LoadWordsRequest and ChangeWordsRequest; every reply about rows says which
// generation or version it was made from.
//
// It refuses to be a public interface: it changes with the binary.
package scannerv1
