// Command generate turns the contract in proto/ into Go, with Go tools alone:
// it compiles the .proto file itself and hands the result to protoc-gen-go and
// protoc-gen-connect-go, which are tools of this module.
//
// Invariant: the same contract and the same go.mod give the same bytes.
//
// It refuses to need protoc, a network, or anything outside the module.
package main
