// Package recalldv1connect is the generated Connect client and handler of
// recalld.proto: Connect, gRPC, gRPC-Web and JSON.
//
// Invariant: it is what the generator makes of the contract.
//
// It refuses to hold any code written by hand.
package recalldv1connect
