// Package access says which client may do what with whose memory: a file of
// grants names clients, their tokens and, agent by agent, a level. It knows no
// network; package front/guard asks it.
//
// Invariants: what is not granted is denied; the entry of an agent beats the
// entry "*", also when it is none; a token is compared with every client's in
// the same time, whichever matches; after reading, only digests of tokens are
// kept, and no token is in an error, a log line or a printed value; a file that
// has one mistake grants nothing.
//
// It refuses to guess: unknown keys, keys given twice, clients or tokens given
// twice, unset variables, short tokens and a file that others can change are
// errors that name the place.
package access
