// Package recalldv1 is the wire contract of recalld: the Go form of
// recalld.proto, generated and committed. `go generate` in this folder makes it
// anew with Go tools alone; a test of the generator holds that what is committed
// is what the generator makes.
//
// Invariants: field numbers are never used again; field names are the JSON
// names of package coordinator's types, and a test of package front/api holds
// that no field is missing on either side.
//
// It refuses to hold any code written by hand.
package recalldv1

//go:generate go run recalld/proto/generate
