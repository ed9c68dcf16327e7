// Command generate turns the contracts in proto/ into Go, with Go tools alone:
// it compiles the .proto files itself and hands the result to protoc-gen-go,
// protoc-gen-connect-go and protoc-gen-go-grpc, which are tools of this module.
//
// Invariant: the same contracts and the same go.mod give the same bytes.
//
// It refuses to need protoc, a network, or anything outside the module.
package main
